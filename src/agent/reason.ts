import { RivuletError } from "../protocol/error.ts";
import type { Block, Message } from "../protocol/message.ts";
import { addUsage } from "../protocol/select.ts";
import type { Usage } from "../protocol/task.ts";
import { editModelCall } from "./edit-model-call.ts";
import { TurnEmitter } from "./emit-turn.ts";
import type { ModelCall } from "./hook.ts";
import { callHooks, tellHooks } from "./hook.ts";
import { forbidsTools } from "./model/call-options.ts";
import { runTurn } from "./model/model.ts";
import { type Turn, TurnInterrupted } from "./model/turn.ts";
import { isVisible, stopCallId } from "./next.ts";
import { copyPlain, freezePlain } from "./plain.ts";
import { addCost, priceOf } from "./price.ts";
import { blankReplyPrompt, citationPrompt, summaryPrompt } from "./prompts.ts";
import { notRun } from "./ran-call.ts";
import { showResult } from "./settle.ts";
import { nativeSchema, structuredTool } from "./structured-output.ts";
import type { TaskRun } from "./task-run.ts";
import {
  commitStep,
  controlMessage,
  hooksOf,
  iterationOf,
  offeredTools,
  refreshTools,
} from "./task-run.ts";
import { traceModelCall } from "./trace.ts";
import { isCancel } from "./until-cancelled.ts";
import { readReasoningVerdict, readReply } from "./verdict.ts";

/**
 * One model call: hooks may change what it sees and what becomes of it, the turn is shown as it streams, and the
 * message is committed with everything that was shown. Until then all of it is provisional.
 */
export async function reason(task: TaskRun, purpose: "reply" | "summary" = "reply"): Promise<void> {
  const { settings } = task;
  const call = await prepare(task, purpose);
  const sink = new TurnEmitter({
    emitter: task.emitter,
    ids: settings.ids,
    ...(!task.pool.isEmpty && { references: task.pool }),
    rawReasoning: settings.rawReasoning,
    ...(purpose === "summary" && { purpose }),
    ...(settings.hooks.some((hook) => hook.reasoningChunk) && {
      onText: (text) =>
        tellHooks(settings.hooks, (hook) => hook.reasoningChunk?.(task.hookContext, text)),
    }),
    ready: () => task.log.catchUp(),
  });
  try {
    const turn = await traceModelCall(task, () =>
      runTurn(settings.models, request(task, call, purpose), sink, {
        ids: settings.ids,
        clock: settings.clock,
        random: Math.random,
        execution: settings.modelExecution,
      }),
    );
    // Nothing is on offer to a summary, and nobody would run a call of it.
    const content = purpose === "summary" ? withoutCalls(turn.content) : turn.content;
    if (sink.showsCallsOf(content)) {
      sink.end("completed");
    } else {
      // A call was cut off, or came to other arguments than it had streamed: what counts is shown in its place.
      sink.discard("provider_retry");
      sink.showWhole(content);
    }
    const message = assistantMessage(task, { ...turn, content }, purpose);
    await settle(task, sink, message, purpose).catch((error: unknown) => {
      if (!isCancel(task.controller.signal, error)) throw error;
      // Whoever cancels while a hook looks at the reply keeps what was said, as far as it goes.
      throw new TurnInterrupted(error, withoutCalls(content), turn.usage);
    });
  } catch (error) {
    if (!(error instanceof TurnInterrupted)) {
      sink.discard("provider_retry");
      throw error;
    }
    sink.discardCalls();
    sink.end("cancelled");
    if (error.partial.length > 0) {
      const turn = {
        content: error.partial,
        usage: error.usage ?? noUsage,
        finishReason: "other",
      } as const;
      await commitTurn(task, assistantMessage(task, turn, purpose));
    }
    throw error;
  }
}

async function prepare(task: TaskRun, purpose: "reply" | "summary"): Promise<ModelCall> {
  const { settings, hookContext } = task;
  await refreshTools(task);
  const tools = purpose === "summary" ? [] : [...offeredTools(task)];
  const call: ModelCall = {
    messages: [...task.messages, ...(purpose === "summary" ? [asked(task, summaryPrompt)] : [])],
    system: [settings.systemPrompt, task.storedReferences > 0 ? citationPrompt : ""]
      .filter((text) => text !== "")
      .join("\n\n"),
    tools,
    options: purpose === "summary" ? withoutTools(settings.modelOptions) : settings.modelOptions,
  };
  const point = purpose === "summary" ? "preSummary" : "preReasoning";
  return editModelCall(hooksOf(task), point, hookContext, call);
}

function withoutTools({ tools: _, toolChoice: __, ...options }: ModelCall["options"]) {
  return options;
}

function request(task: TaskRun, call: ModelCall, purpose: "reply" | "summary") {
  const schema = purpose === "reply" ? nativeSchema(task) : undefined;
  const answer = purpose === "reply" ? structuredTool(task) : undefined;
  // Where no tool may be used, the one that takes the answer still has to be.
  const onlyAnswer = answer !== undefined && forbidsTools(call.options);
  return {
    ...call,
    ...(onlyAnswer && {
      tools: call.tools.filter((tool) => tool === answer),
      options: withoutTools(call.options),
    }),
    signal: task.controller.signal,
    ...(schema && { responseSchema: { schema } }),
  };
}

/** Lets the hooks see the message, and commits what they made of it. */
async function settle(
  task: TaskRun,
  sink: TurnEmitter,
  message: Message,
  purpose: "reply" | "summary",
): Promise<void> {
  const hooks = hooksOf(task);
  if (purpose === "summary") {
    const edited = await callHooks(
      hooks,
      "postSummary",
      message,
      (hook, current) => hook.postSummary?.(task.hookContext, current),
      (_, returned) => readReply(returned),
    );
    await commitTurn(task, shown(sink, message, edited));
    return;
  }
  const verdict = await callHooks<"postReasoning", Verdict>(
    hooks,
    "postReasoning",
    { message, stop: false, goto: [] },
    (hook, current) => hook.postReasoning?.(task.hookContext, current.message),
    (current, returned) => takeVerdict(task, current, returned),
  );
  const kept = shown(sink, message, verdict.message);
  const more: Message[] = [];
  if (verdict.goto.length > 0) {
    more.push(...goOnWith(task, kept, verdict.goto));
  } else if (isBlank(kept) && kept.metadata?.finish === undefined) {
    more.push(asked(task, blankReplyPrompt));
  }
  if (verdict.stop) {
    const approvalId = task.settings.ids.next("apr");
    more.push(
      controlMessage(task, { type: "suspension", callId: stopCallId, kind: "stop", approvalId }),
    );
  }
  await commitTurn(task, kept, more);
}

interface Verdict {
  readonly message: Message;
  readonly stop: boolean;
  readonly goto: readonly Message[];
}

function takeVerdict(task: TaskRun, current: Verdict, returned: unknown): Verdict {
  const said = readReasoningVerdict(returned);
  if ("stop" in said) return { ...current, stop: current.stop || said.stop };
  if ("gotoReasoning" in said) return { ...current, goto: said.gotoReasoning };
  refuseUsedIds(task, said);
  return { ...current, message: said };
}

/** A call's id names its result, its item and its child: it is not used twice in a session. */
function refuseUsedIds({ messages }: TaskRun, { content }: Message): void {
  const used = new Set(messages.flatMap((message) => message.content).flatMap(callIdOf));
  const again = content.flatMap(callIdOf).find((id) => used.has(id));
  if (again !== undefined) throw new Error(`an earlier call has the id ${again}`);
}

function callIdOf(block: Block): readonly string[] {
  return block.type === "tool_use" ? [block.id] : [];
}

/** What a hook put in place of the model's words is shown in their place. */
function shown(sink: TurnEmitter, original: Message, edited: Message): Message {
  if (edited === original) return original;
  const content = copyPlain(edited.content);
  sink.discard("edited");
  sink.showWhole(content);
  return { ...original, content };
}

async function commitTurn(task: TaskRun, message: Message, more: readonly Message[] = []) {
  const usage = message.usage ?? noUsage;
  const price = pay(task, usage, String(message.metadata?.model ?? ""));
  task.usage = addUsage(task.usage, usage);
  task.budget.add(usage, price);
  task.emitter.emit({
    type: "task.usage",
    cumulative: true,
    usage: task.usage,
    ...(task.cost && { cost: task.cost }),
  });
  await commitStep(task, {
    messages: [message, ...more],
    record: { committedOutput: task.emitter.outputLength },
  });
}

/** Adds what a model call costs to the task's cost. */
function pay(task: TaskRun, usage: Usage, model: string): number {
  const { price } = task.settings;
  if (price === undefined) return 0;
  try {
    const money = priceOf(price, usage, model);
    task.cost = addCost(task.cost, money);
    return money.amount;
  } catch (error) {
    // What was said before a cancel is kept, and a cancel stays one.
    if (task.controller.signal.aborted) return 0;
    throw error;
  }
}

function assistantMessage(
  task: TaskRun,
  turn: Pick<Turn, "content" | "usage" | "finishReason"> & Partial<Pick<Turn, "model" | "sources">>,
  purpose: "reply" | "summary",
): Message {
  const { content, usage, finishReason: finish, model, sources = [] } = turn;
  // Frozen before hooks see it: what they make of it they return.
  return freezePlain({
    id: task.settings.ids.next("msg"),
    role: "assistant",
    name: task.settings.name,
    content,
    usage,
    metadata: {
      taskId: task.ref.taskId,
      iteration: iterationOf(task) + 1,
      ...(model && { model: `${model.provider}/${model.modelId}` }),
      ...((finish === "length" || finish === "content-filter") && { finish }),
      ...(purpose === "summary" && { summary: true }),
      ...(sources.length > 0 && { sources }),
    },
  });
}

/** Tells the model what was wrong with its answer; the next reasoning is another try. */
export async function askAgain(task: TaskRun, problem: string): Promise<void> {
  const message = asked(task, problem);
  const metadata = { ...message.metadata, structuredRetry: true };
  await commitStep(task, { messages: [{ ...message, metadata }] });
}

/** A message that the harness puts before the model. */
function asked(task: TaskRun, text: string): Message {
  const { ids } = task.settings;
  const metadata = { taskId: task.ref.taskId };
  return { id: ids.next("msg"), role: "user", content: [{ type: "hint", text }], metadata };
}

function withoutCalls(content: readonly Block[]): readonly Block[] {
  return content.filter(({ type }) => type !== "tool_use");
}

function isBlank(message: Message): boolean {
  return !message.content.some((block) => block.type === "tool_use" || isVisible(block));
}

const noUsage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** The messages that a hook goes on with: they have to bring one result for each call of the reply, and no other. */
function goOnWith(task: TaskRun, reply: Message, messages: readonly Message[]): Message[] {
  const results = messages
    .flatMap((message) => message.content)
    .filter((block) => block.type === "tool_result");
  const calls = reply.content.filter((block) => block.type === "tool_use");
  const wanted = new Set(calls.map(({ id }) => id));
  for (const { id } of results) if (!wanted.delete(id)) throw notItsResult(id);
  const open = calls.filter(({ id }) => wanted.has(id));
  if (open.length > 0) throw withoutResult(open.map(({ name }) => name));
  for (const { id, state, output } of results) showResult(task, id, state, output);
  const metadata = { taskId: task.ref.taskId, goto: true };
  return copyPlain(messages).map((one) => ({
    ...one,
    content: one.content.map(givenResult),
    metadata: { ...one.metadata, ...metadata },
  }));
}

/** No tool has made this result. */
function givenResult(block: Block): Block {
  return block.type === "tool_result"
    ? { ...block, metadata: { ...block.metadata, ...notRun } }
    : block;
}

function withoutResult(names: readonly string[]): RivuletError {
  return new RivuletError(
    "pending_calls",
    `gotoReasoning would leave calls without a result: ${names.join(", ")}.`,
    { hint: "Put a tool_result for each of them into the messages, or let them run." },
  );
}

function notItsResult(callId: string): RivuletError {
  return new RivuletError("pending_calls", `gotoReasoning has a result too many: ${callId}.`, {
    hint: "Each call of the reply gets one result, and no other call gets any.",
  });
}
