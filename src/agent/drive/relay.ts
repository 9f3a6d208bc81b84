import type { Agent, Answer, Approval, Run } from "../../protocol/agent.ts";
import { RivuletError, rivuletErrorOf } from "../../protocol/error.ts";
import type { TaskEvent } from "../../protocol/event.ts";
import type {
  AnswerBlock,
  Block,
  Message,
  Reply,
  SuspensionBlock,
} from "../../protocol/message.ts";
import type { IncompleteReason } from "../../protocol/task.ts";
import { copyPlain, freezePlain } from "../base/plain.ts";
import { stopDenied } from "../base/prompts.ts";
import { patienceOf, untilCancelled } from "../base/time.ts";
import type { Ending, RestingEnding } from "../loop/ending.ts";
import { cancelled, completed, executorLost, incomplete, suspended } from "../loop/ending.ts";
import { reasonText, takeInbox } from "../loop/inbox.ts";
import { cancel, fail } from "../loop/loop.ts";
import { isVisible, stopCallId } from "../loop/next.ts";
import { commitStep, controlMessage, type TaskRun } from "../loop/task-run.ts";
import { jsonOf } from "../tool/result.ts";
import { type JsonSchema, jsonSchema } from "../tool/schema.ts";
import { Mirror, relayedId } from "./mirror.ts";

/**
 * Runs an agent that is not of this package as a child: its events go into the child's log, its items into the child's
 * transcript. The budget and the permissions of the parent do not reach such an agent.
 */
export async function relay(
  task: TaskRun,
  agent: Agent,
  input: readonly Message[],
): Promise<Ending> {
  const { signal } = task.controller;
  const { signal: lost } = task.conversation.lost;
  const mirror = new Mirror(task);
  const child = new Relay(task, agent, mirror);
  try {
    const reply = signal.aborted ? await child.cancel() : await child.run(input);
    signal.throwIfAborted();
    return await child.rest(reply);
  } catch (error) {
    if (lost.aborted) throw lost.reason;
    await mirror.settle();
    return signal.aborted ? cancel(task) : fail(task, withoutPlace(error));
  }
}

/** The place of an agent's error is one in its own tree. */
function withoutPlace(error: unknown): RivuletError {
  const { code, message, retryable, hint } = rivuletErrorOf(error);
  const more = { retryable, cause: error, ...(hint !== undefined && { hint }) };
  return new RivuletError(code, message, more);
}

/** One run of the agent, from its start or its resumption to its rest. */
class Relay {
  readonly #task: TaskRun;
  readonly #agent: Agent;
  readonly #mirror: Mirror;
  readonly #stop = new AbortController();
  /** Not the child's: the agent may use the same store, where the child's session holds what is written here. */
  readonly #sessionId: string;

  constructor(task: TaskRun, agent: Agent, mirror: Mirror) {
    this.#task = task;
    this.#agent = agent;
    this.#mirror = mirror;
    this.#sessionId = relayedId(task.record.sessionId);
  }

  /** Starts the agent, answers it, or continues after a crash. Resolves when the agent rests. */
  async run(input: readonly Message[]): Promise<Reply<unknown>> {
    const task = this.#task;
    const agent = this.#agent;
    if (input.length > 0) {
      const { outputSchema } = task.record;
      const output = task.caller.output ?? (outputSchema && jsonSchema(outputSchema as JsonSchema));
      return this.#follow(agent.run(input, { ...this.#options(), ...(output && { output }) }));
    }
    const length = task.messages.length;
    await takeInbox(task, "step");
    if (task.controller.signal.aborted) return this.cancel();
    await this.#mirror.load();
    const arrived = task.messages.slice(length);
    const answers = await this.#answers(arrived);
    if (arrived.length === 0 && answers.length === 0) return this.#recover();
    if (answers.length > 0) return this.#follow(agent.run(answers, this.#options()));
    // The agent lists no approval for its stop: a call without input approves it, text denies it.
    const denied = answersIn(arrived).find(({ decision }) => decision !== "approve");
    if (denied === undefined) return this.#follow(agent.run(undefined, this.#options()));
    const options = { ...this.#options(), onSuspended: "deny" } as const;
    return this.#follow(agent.run(stopDenied(denied.reason), options));
  }

  /** Reads the agent's events from the beginning; the mirror skips those that the log has. */
  async #recover(): Promise<Reply<unknown>> {
    const follow = (run: Run<unknown>) =>
      this.#follow(run, run.events({ after: -1, until: "tree" }));
    const waiting = await this.#approvals().catch(() => []);
    // A call without input would approve a stop.
    const isStopped = waiting.some(({ kind }) => kind === "stop");
    try {
      const stopped = isStopped ? this.#attach() : undefined;
      if (stopped) return await follow(stopped);
      if (isStopped) throw executorLost();
      return await follow(this.#agent.run(undefined, this.#options())).catch((error: unknown) => {
        // The agent may have finished while no process followed it.
        const isFinished = rivuletErrorOf(error).code === "nothing_to_resume";
        const run = isFinished ? this.#attach() : undefined;
        if (run === undefined) throw error;
        return follow(run);
      });
    } catch (error) {
      const isLost = !this.#mirror.hasCopied && !this.#task.controller.signal.aborted;
      throw isLost ? executorLost(error) : error;
    }
  }

  /** Cancels a task that waits in the agent, or that was left by another process. */
  async cancel(): Promise<never> {
    const { signal } = this.#task.controller;
    await this.#mirror.load();
    const cancelling = async () => this.#attach()?.cancel(reasonText(signal.reason));
    await untilCancelled(patienceOf(this.#task), cancelling).catch(() => {});
    throw signal.reason;
  }

  #attach(): Run<unknown> | undefined {
    const { sessionId, ...user } = this.#session();
    return this.#agent.attach?.({ sessionId }, user);
  }

  #approvals(): Promise<readonly Approval[]> {
    return this.#agent.approvals(this.#session());
  }

  #session() {
    const { userId } = this.#task.record;
    return { sessionId: this.#sessionId, ...(userId !== undefined && { userId }) };
  }

  #options() {
    return { ...this.#session(), signal: this.#stop.signal, until: "tree" } as const;
  }

  /** Copies events until the run rests. A process that may no longer write does not cancel the run. */
  async #follow(
    run: Run<unknown>,
    events: AsyncIterable<TaskEvent> = run,
  ): Promise<Reply<unknown>> {
    const { controller, conversation } = this.#task;
    const { signal } = controller;
    const { signal: lost } = conversation.lost;
    const stopped = Promise.withResolvers<never>();
    let isOver = false;
    const onLost = () => stopped.reject(lost.reason);
    const onAbort = () => {
      if (lost.aborted) return;
      this.#stop.abort(signal.reason);
      const cancelling = async () => run.cancel(reasonText(signal.reason));
      cancelling().catch(() => {}); // the result reports it
    };
    const copyAll = async () => {
      const result = run.result();
      result.catch(() => {});
      for await (const event of events) {
        if (isOver) break;
        await this.#mirror.copy(event);
      }
      return result;
    };
    lost.addEventListener("abort", onLost, { once: true });
    signal.addEventListener("abort", onAbort, { once: true });
    if (lost.aborted) onLost();
    if (signal.aborted) onAbort();
    try {
      return await Promise.race([stopped.promise, untilCancelled(patienceOf(this.#task), copyAll)]);
    } finally {
      isOver = true;
      lost.removeEventListener("abort", onLost);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** The answers to send: those that arrived now, and earlier ones that a crash kept from the agent. */
  async #answers(arrived: readonly Message[]): Promise<readonly Answer[]> {
    const given = answersIn(this.#mirror.messages());
    const unsent = new Set(answersIn(arrived).map(({ approvalId }) => approvalId));
    if (given.some(({ approvalId }) => !unsent.has(approvalId))) {
      for (const { id } of await this.#approvals()) unsent.add(relayedId(id));
    }
    return given.flatMap(({ callId: _, by: __, ...answer }) => {
      const target = this.#suspensionOf(answer.approvalId)?.metadata?.relayed;
      return target !== undefined && unsent.has(answer.approvalId)
        ? [{ ...answer, ...(target as Pick<Answer, "approvalId" | "taskId" | "rootTaskId">) }]
        : [];
    });
  }

  #suspensionOf(approvalId: string): Message | undefined {
    const isIt = (block: Block) => block.type === "suspension" && block.approvalId === approvalId;
    return this.#mirror.messages().find(({ content }) => content.some(isIt));
  }

  /** Turns the agent's reply into the ending of the child. */
  async rest(reply: Reply<unknown>): Promise<Ending> {
    this.#mirror.count(reply.usage);
    if (suspendedReasons.has(reply.generateReason)) return this.#suspend(reply);
    await this.#mirror.settle();
    if (reply.structured === undefined) await this.#mirror.say(this.#unsaid(reply));
    const ending = this.#ending(reply);
    const { content = [] } = reply;
    if (reply.structured !== undefined || content.length === 0) return ending;
    return { ...ending, message: freezePlain({ ...ending.message, content: copyPlain(content) }) };
  }

  #ending({ generateReason, structured }: Reply<unknown>): RestingEnding {
    const task = this.#task;
    const { name } = this.#agent;
    const { incomplete_details, reason } = this.#mirror.end;
    const why = incomplete_details?.reason ?? generateReason;
    if (incompleteReasons.has(why)) return incomplete(task, why as IncompleteReason);
    if (generateReason === "interrupted")
      return { ...cancelled(task), ...(reason !== undefined && { reason }) };
    if (generateReason === "failed") throw new RivuletError("failed", `${name} failed.`);
    if (structured === undefined && task.record.outputSchema !== undefined) {
      throw new RivuletError("structured_output_invalid", `${name} returned no structured value.`, {
        hint: "Use an agent that supports `output`, or call it without an output schema.",
      });
    }
    if (structured === undefined) return completed(task, undefined);
    jsonOf(structured); // throws if the value cannot be stored
    return completed(task, undefined, { value: structured });
  }

  /** The content of a reply whose agent yielded no message. */
  #unsaid({ content = [] }: Reply<unknown>): readonly Block[] {
    const own = this.#mirror.messages().filter(({ role }) => role === "assistant");
    return own.some((message) => message.content.some(isVisible)) ? [] : content.filter(isVisible);
  }

  /** Stores what the agent waits for, so that the root lists it and an answer reaches the child. */
  async #suspend(reply: Reply<unknown>): Promise<Ending> {
    const task = this.#task;
    const mirror = this.#mirror;
    await mirror.closeTurn();
    const approvals = reply.approvals?.length > 0 ? reply.approvals : await this.#approvals();
    const pending = new Set(mirror.pendingCalls().map(({ id }) => id));
    const byCall = new Map<string, Approval>();
    const calls = approvals.flatMap((approval): readonly Block[] => {
      const { id, name, input } = approval.call;
      const candidates = [id, mirror.callAbove(approval.taskId) ?? ""];
      const callId = candidates.find((candidate) => pending.has(candidate)) ?? id;
      // A call waits for one approval at a time.
      if (byCall.has(callId)) return [];
      byCall.set(callId, approval);
      return callId === stopCallId || pending.has(callId)
        ? []
        : [{ type: "tool_use", id, name, input }];
    });
    await mirror.say([...this.#unsaid(reply), ...calls]);
    const messages = [...byCall].flatMap(([callId, approval]) => this.#ask(callId, approval));
    const before = task.steps.next;
    const isAsked = byCall.size > 0 || (before.type === "wait" && before.stop !== undefined);
    if (!isAsked) messages.push(...this.#ask(stopCallId));
    await commitStep(task, { messages });
    const step = task.steps.next;
    if (step.type !== "act" && step.type !== "wait")
      throw new RivuletError("failed", `${this.#agent.name} is suspended without an approval.`);
    const ending = suspended(task, step);
    const { waiting_on: _, ...suspension } = ending.suspension; // no task of ours
    return { ...ending, suspension };
  }

  /** Without an approval the agent only says that it has stopped. */
  #ask(callId: string, approval?: Approval): readonly Message[] {
    const { id, kind, call, message, expiresAt } = approval ?? {
      ...{ id: this.#task.settings.ids.next("apr"), kind: "stop" as const },
      ...{ call: { name: "", input: {} }, message: "Continue?", expiresAt: undefined },
    };
    const { name, input } = call;
    const text = JSON.stringify(input ?? {});
    this.#mirror.request({ approval_id: id, kind, name, arguments: text }, callId);
    const approvalId = relayedId(id);
    if (this.#suspensionOf(approvalId)) return [];
    const block: SuspensionBlock = {
      type: "suspension",
      callId,
      kind: kind === "tool_call" ? "approval" : kind,
      approvalId,
      ...(message !== undefined && { reason: message }),
      ...(expiresAt !== undefined && { expiresAt }),
      edited: { name, input },
    };
    const stored = controlMessage(this.#task, block);
    if (approval === undefined) return [stored];
    const { taskId, rootTaskId } = approval;
    const relayed = { approvalId: id, taskId, rootTaskId };
    return [{ ...stored, metadata: { ...stored.metadata, relayed } }];
  }
}

function answersIn(messages: readonly Message[]): readonly AnswerBlock[] {
  return messages.flatMap(({ content }) => content.filter((block) => block.type === "answer"));
}

const incompleteReasons: ReadonlySet<string> = new Set([
  "max_iterations",
  "max_output_tokens",
  "content_filter",
  "budget",
  "no_progress",
  "timeout",
] satisfies readonly IncompleteReason[]);

const suspendedReasons: ReadonlySet<string> = new Set([
  "approval_required",
  "tool_suspended",
  "reasoning_stop_requested",
  "acting_stop_requested",
] satisfies readonly Reply["generateReason"][]);
