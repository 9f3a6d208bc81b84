import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { copyPlain } from "../../base/plain.ts";
import {
  type Agent,
  type Answer,
  type Approval,
  editedReply,
  type Message,
  type RemoteAnswer,
  type RemoteLink,
  type RemoteReading,
  type RemoteStart,
  type RemoteTask,
  type Reply,
  type Run,
  type StandardSchema,
  streamedText,
  textOf,
} from "../../contract/index.ts";
import { type IncompleteReason, type LogEvent, type Task, words } from "../../protocol/index.ts";
import { stopDenied } from "../base/prompts.ts";
import { executorLost } from "../loop/ending.ts";
import { jsonOf } from "../tool/result.ts";
import { type JsonSchema, jsonSchema } from "../tool/schema.ts";
import { type AgentChild, AgentLog, relayedId, type TaskEnd, unlistedStop } from "./agent-log.ts";

const suspendedReasons: ReadonlySet<string> = new Set([
  "approval_required",
  "tool_suspended",
  "reasoning_stop_requested",
  "acting_stop_requested",
] satisfies readonly Reply["generateReason"][]);

/**
 * The link to an agent object in this process that is not of this package. The agent runs in a session of its own; the
 * budget and the permissions of the parent do not reach it.
 */
export class AgentLink implements RemoteLink {
  readonly limits = { maxBytes: Number.POSITIVE_INFINITY, maxTasks: Number.POSITIVE_INFINITY };
  readonly #child: AgentChild;
  readonly #agent: Agent;
  readonly #output: StandardSchema | undefined;
  readonly #stop = new AbortController();
  /** The approvals that the agent has listed, by the ids that they have here. */
  readonly #asked = new Map<string, Approval>();
  /** The input of an agent that has not started. */
  #input: readonly Message[] | undefined;
  /** The answers that the agent does not have yet. */
  #answers: readonly RemoteAnswer[] = [];
  /** Whether the agent may have moved on since its events were read. */
  #isAhead = false;
  #run: Run<unknown> | undefined;
  #cancelling: Promise<void> | undefined;
  #cancelled: TaskEnd = { status: "cancelled" };

  constructor(child: AgentChild) {
    const { outputSchema } = child.top;
    this.#child = child;
    this.#agent = child.agent;
    this.#output = child.output ?? (outputSchema && jsonSchema(outputSchema as JsonSchema));
  }

  async start({ taskId, messages, mayHaveStarted }: RemoteStart): Promise<string> {
    if (!mayHaveStarted) this.#input = messages;
    return taskId;
  }

  async *events(_: RemoteTask, reading: RemoteReading): AsyncGenerator<LogEvent, void> {
    const log = new AgentLog(this.#child, reading);
    try {
      if (this.#cancelling === undefined) {
        this.#run = yield* this.#takeUp(log, reading);
        if (this.#run === undefined) return; // it waits for answers
        const reply = yield* this.#copy(log, this.#run);
        this.#run = undefined;
        if (this.#cancelling === undefined) return yield* this.#rest(log, reading, reply);
      }
      await this.#cancelling;
      yield log.end(this.#cancelled);
    } catch (thrown) {
      this.#run = undefined;
      const isLost = log.isRecovered && !log.hasCopied;
      const error = rivuletErrorOf(isLost ? executorLost(thrown) : thrown).toJSON();
      yield log.end(this.#cancelling ? this.#cancelled : { status: "failed", error });
    }
  }

  /** Starts the agent, answers it, or continues after a crash; undefined if there is nothing to do. */
  async *#takeUp(
    log: AgentLog,
    { known }: RemoteReading,
  ): AsyncGenerator<LogEvent, Run<unknown> | undefined> {
    const [input, answers, isAhead] = [this.#input, this.#answers, this.#isAhead];
    this.#input = undefined;
    this.#answers = [];
    this.#isAhead = false;
    if (input) {
      const messages = input.map(({ id: _, metadata: __, ...message }) => message);
      const output = this.#output && { output: this.#output };
      return this.#agent.run(messages, { ...this.#options, ...output });
    }
    if (answers.length > 0) {
      const run = this.#send(answers);
      await run.task; // the agent has them then
      yield* log.resume(answers);
      return run;
    }
    if (known.status === "suspended" && !isAhead) return undefined;
    yield* log.recover();
    return this.#recover();
  }

  /** Sends answers. The agent may list no approval for its stop: a call without input approves it, text denies it. */
  #send(answers: readonly RemoteAnswer[]): Run<unknown> {
    const given = answers.flatMap((answer): readonly Answer[] => {
      const approval = this.#asked.get(answer.approvalId);
      if (approval === undefined) return [];
      const { id: approvalId, taskId, rootTaskId } = approval;
      return [{ type: "answer", ...answer, approvalId, taskId, rootTaskId }];
    });
    if (given.length > 0) return this.#agent.run(given, this.#options);
    const denied = answers.find(({ decision }) => decision !== "approve");
    if (denied === undefined) return this.#agent.run(undefined, this.#options);
    const options = { ...this.#options, onSuspended: "deny" } as const;
    return this.#agent.run(stopDenied(denied.reason), options);
  }

  async #recover(): Promise<Run<unknown>> {
    // A call without input would approve a stop.
    const isStopped = (await this.#listed()).some(({ kind }) => kind === "stop");
    const run = isStopped ? this.#attach() : this.#agent.run(undefined, this.#options);
    if (run === undefined) throw executorLost();
    try {
      await run.task;
      return run;
    } catch (error) {
      // The agent may have finished while no process followed it.
      const isFinished = rivuletErrorOf(error).code === "nothing_to_resume";
      return (isFinished && this.#attach()) || run;
    }
  }

  /** After a crash the log skips the events that it has. */
  async *#copy(log: AgentLog, run: Run<unknown>): AsyncGenerator<LogEvent, Reply<unknown>> {
    const result = run.result();
    result.catch(() => {});
    const events = log.isRecovered ? run.events({ after: -1, until: "tree" }) : run;
    for await (const event of events) yield* log.copy(event);
    return result;
  }

  async *#rest(
    log: AgentLog,
    reading: RemoteReading,
    reply: Reply<unknown>,
  ): AsyncGenerator<LogEvent, void> {
    yield* log.count(reply.usage);
    if (!suspendedReasons.has(reply.generateReason)) {
      if (reply.structured === undefined) yield* log.say(reply);
      yield log.end(this.#endOf(log, reading.known, reply));
      return;
    }
    const approvals = reply.approvals?.length > 0 ? reply.approvals : await this.#listed();
    this.#noteAsked(approvals);
    yield* log.suspend(reply, approvals);
  }

  #endOf({ ended }: AgentLog, { output }: Task, reply: Reply<unknown>): TaskEnd {
    const { name } = this.#agent;
    const { generateReason, structured, content = [], id = this.#child.top.taskId } = reply;
    const last = output.findLast((item) => item.type === "message");
    const isSaid = content.length === 0 || (last && textOf(content) === streamedText(last));
    const message = { id, role: "assistant", name, content: copyPlain(content) } as const;
    const edited = !isSaid && { metadata: { [editedReply]: message } };
    const why = ended.incomplete_details?.reason ?? generateReason;
    if (words.incomplete_details.some((word) => word === why))
      return {
        ...{ status: "incomplete", incomplete_details: { reason: why as IncompleteReason } },
        ...edited,
      };
    if (generateReason === "interrupted")
      return {
        status: "cancelled",
        ...(ended.reason !== undefined && { reason: ended.reason }),
        ...edited,
      };
    if (generateReason === "failed") throw new RivuletError("failed", `${name} failed.`);
    if (structured === undefined && this.#output)
      throw new RivuletError("structured_output_invalid", `${name} returned no structured value.`, {
        hint: "Use an agent that supports `output`, or call it without an output schema.",
      });
    if (structured === undefined) return { status: "completed", ...edited };
    jsonOf(structured); // throws if the value cannot be stored
    return { status: "completed", structured };
  }

  async answer(_: RemoteTask, answer: RemoteAnswer): Promise<void> {
    const { approvalId } = answer;
    if (!this.#asked.has(approvalId)) this.#noteAsked(await this.#listed());
    if (!this.#asked.has(approvalId) && !approvalId.startsWith(relayedId(unlistedStop))) {
      this.#isAhead = true;
      throw new RivuletError("not_found", `The agent does not wait for ${approvalId}.`);
    }
    if (this.#run === undefined) {
      this.#answers = [...this.#answers, answer];
      return;
    }
    this.#isAhead = true; // if the events of the run, which are read now, do not show the effect
    await this.#send([answer]).task;
  }

  async steer(_: RemoteTask, taskId: string, message: Message): Promise<void> {
    await this.#runOf(taskId)?.steer(message);
  }

  async cancel(_: RemoteTask, taskId: string, reason: string): Promise<void> {
    const cancel = async () => this.#runOf(taskId)?.cancel(reason);
    if (taskId === this.#child.top.taskId) {
      this.#stop.abort(new Error(reason));
      this.#cancelled = { status: "cancelled", reason };
      this.#cancelling ??= cancel().catch(() => {});
    } else cancel().catch(() => {}); // its events tell whether it ends
  }

  #runOf(taskId: string): Run<unknown> | undefined {
    if (taskId === this.#child.top.taskId) return this.#run ?? this.#attach();
    const { sessionId: _, ...user } = this.#session;
    return this.#agent.attach?.({ taskId }, user);
  }

  #attach(): Run<unknown> | undefined {
    const { sessionId, ...user } = this.#session;
    return this.#agent.attach?.({ sessionId }, user);
  }

  /** The approvals that the agent lists; none if it cannot. */
  async #listed(): Promise<readonly Approval[]> {
    try {
      return await this.#agent.approvals(this.#session);
    } catch {
      return [];
    }
  }

  #noteAsked(approvals: readonly Approval[]): void {
    for (const approval of approvals) this.#asked.set(relayedId(approval.id), approval);
  }

  /** Not the child's: the agent may use the same store, where the child's session holds what is written here. */
  get #session() {
    const { sessionId, userId } = this.#child.top;
    return { sessionId: relayedId(sessionId), ...(userId !== undefined && { userId }) };
  }

  get #options() {
    return { ...this.#session, signal: this.#stop.signal, until: "tree" } as const;
  }
}
