import { RivuletError } from "../../base/error.ts";
import { copyPlain, freezePlain } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { isCancel } from "../../base/time.ts";
import type {
  Block,
  Message,
  ModelCall,
  TurnAddition,
  UpcomingTurn,
} from "../../contract/index.ts";
import { addShare, addUsage, dayOf, noUsage, type Usage } from "../../protocol/index.ts";
import { addCost, BudgetUsedUp, type Money, priceOf } from "../base/budget.ts";
import {
  blankReplyPrompt,
  citationPrompt,
  reasonAgainPrompt,
  summaryPrompt,
} from "../base/prompts.ts";
import { TurnEmitter } from "../events/emit-turn.ts";
import { runTurn } from "../model/model.ts";
import { forbidsTools } from "../model/request.ts";
import { type Turn, TurnInterrupted } from "../model/turn.ts";
import { notRun } from "../tool/result.ts";
import {
  callHooks,
  editModelCall,
  hooksAt,
  readReasoningVerdict,
  readReply,
  tellHooks,
} from "./hooks.ts";
import { isVisible } from "./next.ts";
import { askAboutStop, showResult } from "./settle.ts";
import { nativeSchema, structuredTool } from "./structured-output.ts";
import {
  addResultItem,
  commitStep,
  controlMessage,
  offeredTools,
  refreshTools,
  type TaskRun,
  writeStep,
} from "./task-run.ts";
import { traceModelCall } from "./trace.ts";
import { iterationOf } from "./transcript.ts";

type Purpose = "reply" | "summary";

/** Makes one model call; a prompt whose length the provider refuses is tried once more if a hook can shorten it. */
export async function reason(task: TaskRun, purpose: Purpose = "reply"): Promise<void> {
  await prepareTurn(task, "turn");
  assertLeft(task); // a hook may have called a model
  try {
    await takeTurn(task, purpose);
  } catch (error) {
    const isOverflow = error instanceof RivuletError && error.code === "context_overflow";
    if (!isOverflow || !(await prepareTurn(task, "overflow"))) throw error;
    assertLeft(task);
    await takeTurn(task, purpose);
  }
}

function assertLeft({ budget }: TaskRun): void {
  if (budget.isUsedUp) throw new BudgetUsedUp();
}

/** Lets hooks add to the transcript before a model call; returns whether one has shortened what the model sees. */
export function prepareTurn(task: TaskRun, reason: UpcomingTurn["reason"]): Awaitable<boolean> {
  const turn = { reason, offset: task.transcript.offset, signal: task.control.controller.signal };
  return callHooks(
    task,
    "preTurn",
    false,
    (hook) => hook.preTurn?.(task.scope.hookContext, turn),
    (isShorter, returned) => addToTranscript(task, returned as TurnAddition) || isShorter,
  );
}

function addToTranscript(task: TaskRun, addition: TurnAddition): boolean {
  const { compaction, hints = [], events = {}, usage, model = "" } = addition;
  for (const [name, value] of Object.entries(events))
    task.output.emitter.append({ type: "task.custom", name, value });
  if (usage) addSpent(task, usage, model);
  const control = compaction && controlMessage(task, { ...compaction, type: "compaction" });
  // A task that is resumed here still may exceed its iterations, as a hook has asked for.
  const goto = task.transcript.messages.at(-1)?.metadata?.goto === true && { goto: true };
  const { metadata, ...message } = hintMessage(task, "");
  const hint = { ...message, content: hints, metadata: { ...metadata, ...goto } };
  writeStep(task, {
    messages: [...(control ? [control] : []), ...(hints.length > 0 ? [hint] : [])],
  });
  return compaction !== undefined;
}

/** Makes one model call and commits its message; everything streamed before the commit is provisional. */
async function takeTurn(task: TaskRun, purpose: Purpose): Promise<void> {
  const { settings } = task;
  const { emitter } = task.output;
  const { hookContext } = task.scope;
  const { clock, hooks, modelExecution: execution, rawReasoning } = settings;
  const sent = request(task, await prepare(task, purpose), purpose);
  const { onModelCall, standIn } = task.conversation.process;
  onModelCall?.(task, sent);
  const { ids, models } = standIn ? await standIn.turn(task, sent) : settings;
  const messageId = ids.next("msg");
  const listening = hooksAt(hooks, "reasoningChunk");
  const sink = new TurnEmitter({
    emitter,
    ids,
    messageId,
    ...(!task.output.pool.isEmpty && { references: task.output.pool }),
    rawReasoning,
    ...(purpose === "summary" && { purpose }),
    ...(listening.length > 0 && {
      onChunk: (chunk) => tellHooks(listening, (hook) => hook.reasoningChunk?.(hookContext, chunk)),
    }),
    ready: task.output.log.catchUp,
  });
  const { usage: shown } = task.state;
  let used = shown;
  let complete: Turn | undefined;
  const onWaste = ({ usage, model }: Pick<Turn, "usage" | "model">) =>
    countCall(task, usage, nameOf(model), true);
  try {
    const beforeRetry = () => assertLeft(task);
    const dependencies = { ids, clock, random: Math.random, execution, onWaste, beforeRetry };
    const turn = await traceModelCall(task, (onRetry) =>
      runTurn(models, sent, sink, { ...dependencies, onRetry }),
    );
    complete = turn;
    used = task.state.usage;
    // A summary has no tools, and the loop would not run its calls.
    const content = purpose === "summary" ? withoutCalls(turn.content) : turn.content;
    if (sink.showsCallsOf(content)) {
      sink.end("completed");
    } else {
      // A call was cut off, or its arguments differ from those that were streamed.
      sink.discard("provider_retry");
      sink.showWhole(content);
    }
    const message = assistantMessage(task, messageId, { ...turn, content }, purpose);
    await settle(task, sink, message, purpose).catch((error: unknown) => {
      if (!isCancel(task.control.controller.signal, error)) throw error;
      // A cancel while a hook runs keeps the text of the reply.
      throw new TurnInterrupted(error, withoutCalls(content), turn);
    });
  } catch (error) {
    if (!(error instanceof TurnInterrupted)) {
      sink.discard("provider_retry");
      if (complete && task.state.usage === used) onWaste(complete);
      if (task.state.usage !== shown) showUsage(task);
      throw error;
    }
    sink.discardCalls();
    sink.end("cancelled");
    const { partial: content, usage = noUsage, model } = error;
    if (content.length > 0) {
      const turn = { content, usage, finishReason: "other", ...(model && { model }) } as const;
      commitTurn(task, assistantMessage(task, messageId, turn, purpose));
    } else {
      if (complete) countCall(task, complete.usage, nameOf(complete.model)); // it has only calls
      if (task.state.usage !== shown) showUsage(task);
    }
    throw error;
  }
}

async function prepare(task: TaskRun, purpose: Purpose): Promise<ModelCall> {
  const { settings } = task;
  const refreshed = refreshTools(task);
  if (refreshed) await refreshed;
  const systemPrompt =
    task.transcript.storedReferences > 0
      ? [settings.systemPrompt, citationPrompt].filter((text) => text !== "").join("\n\n")
      : settings.systemPrompt;
  const { modelOptions } = settings;
  if (purpose === "summary") {
    const messages = [...task.transcript.messages, hintMessage(task, summaryPrompt)];
    const call = { messages, systemPrompt, tools: [], options: withoutTools(modelOptions) };
    return editModelCall(task, "preSummary", call);
  }
  const tools = [...offeredTools(task)];
  const call = { messages: task.transcript.messages, systemPrompt, tools, options: modelOptions };
  return editModelCall(task, "preReasoning", call);
}

function withoutTools({ tools: _, toolChoice: __, ...options }: ModelCall["options"]) {
  return options;
}

function request(task: TaskRun, call: ModelCall, purpose: Purpose) {
  const schema = purpose === "reply" ? nativeSchema(task) : undefined;
  const answerTool = purpose === "reply" ? structuredTool(task) : undefined;
  // Options that forbid tools do not apply to the tool that takes the answer.
  const onlyAnswer = answerTool !== undefined && forbidsTools(call.options);
  return {
    ...call,
    offset: task.transcript.offset,
    name: task.settings.name,
    ...(onlyAnswer && {
      tools: call.tools.filter((tool) => tool === answerTool),
      options: withoutTools(call.options),
    }),
    signal: task.control.controller.signal,
    ...(schema && { responseSchema: { schema } }),
  };
}

async function settle(
  task: TaskRun,
  sink: TurnEmitter,
  message: Message,
  purpose: Purpose,
): Promise<void> {
  if (purpose === "summary") {
    const edited = await callHooks(
      task,
      "postSummary",
      message,
      (hook, current) => hook.postSummary?.(task.scope.hookContext, current),
      (_, returned) => readReply(returned),
    );
    commitTurn(task, showEdit(sink, message, edited));
    return;
  }
  const verdict = await callHooks<"postReasoning", Verdict>(
    task,
    "postReasoning",
    { message, stop: false },
    (hook, current) => hook.postReasoning?.(task.scope.hookContext, current.message),
    (current, returned) => applyVerdict(task, current, returned),
  );
  const kept = showEdit(sink, message, verdict.message);
  const isBlank = !kept.content.some((block) => block.type === "tool_use" || isVisible(block));
  const followUps: Message[] = [];
  if (verdict.goto) {
    followUps.push(...gotoMessages(task, kept, verdict.goto));
  } else if (isBlank && kept.metadata?.finish === undefined) {
    followUps.push(hintMessage(task, blankReplyPrompt));
  }
  const calls = verdict.goto ? [] : kept.content.filter((block) => block.type === "tool_use");
  commitTurn(task, kept, followUps, () => {
    if (verdict.stop) return askAboutStop(task, calls, "Accept this reply?");
    for (const { id } of calls) addResultItem(task, id);
    return [];
  });
}

interface Verdict {
  readonly message: Message;
  readonly stop: boolean;
  readonly goto?: readonly Message[];
}

function applyVerdict(task: TaskRun, current: Verdict, returned: unknown): Verdict {
  const verdict = readReasoningVerdict(returned);
  if ("stop" in verdict) return { ...current, stop: current.stop || verdict.stop };
  if ("gotoReasoning" in verdict) return { ...current, goto: verdict.gotoReasoning };
  checkCallIds(task, verdict);
  return { ...current, message: verdict };
}

/** Throws for a call id that the session has used, because it identifies a result, an item and a child. */
function checkCallIds({ transcript: { messages } }: TaskRun, { content }: Message): void {
  const used = new Set(messages.flatMap((message) => message.content).flatMap(callIdOf));
  const duplicate = content.flatMap(callIdOf).find((id) => used.has(id));
  if (duplicate !== undefined) throw new Error(`an earlier call has the id ${duplicate}`);
}

function callIdOf(block: Block): readonly string[] {
  return block.type === "tool_use" ? [block.id] : [];
}

function showEdit(sink: TurnEmitter, original: Message, edited: Message): Message {
  if (edited === original) return original;
  const content = copyPlain(edited.content);
  sink.discard("edited");
  sink.showWhole(content);
  return { ...original, content };
}

/** `open` emits what follows the events of the turn: approvals, or the result items of its calls. */
function commitTurn(
  task: TaskRun,
  message: Message,
  followUps: readonly Message[] = [],
  open: () => readonly Message[] = () => [],
): void {
  addSpent(task, message.usage ?? noUsage, String(message.metadata?.model ?? ""));
  const opened = open();
  const record = { committedOutput: task.output.emitter.outputLength };
  writeStep(task, { messages: [message, ...opened, ...followUps], record });
}

/** Adds the usage of a model call to the task and its budget, and shows it. */
function addSpent(task: TaskRun, usage: Usage, model: string): void {
  countCall(task, usage, model);
  showUsage(task);
}

/** Adds what a model call has used; `isRetried`: its reply is not kept. */
function countCall(task: TaskRun, usage: Usage, model: string, isRetried = false): void {
  const { state, settings, budget } = task;
  const price = addPrice(task, usage, model);
  state.usage = addUsage(state.usage, usage);
  state.byModel = addShare(state.byModel, {
    ...{ provider: model.split("/", 1).join(), model: model.slice(model.indexOf("/") + 1) },
    ...usage,
    day: dayOf(settings.clock.now()),
    ...(isRetried && { retried: true }),
    ...(usage === noUsage && { unmetered: 1 }),
    ...(price && { cost: addCost(undefined, price) }),
  });
  budget.add(usage, price?.amount ?? 0, isRetried ? 0 : 1);
}

function showUsage({ state, output }: TaskRun): void {
  const { usage, byModel: by_model, cost } = state;
  const event = { type: "task.usage", cumulative: true, usage, by_model } as const;
  output.emitter.append({ ...event, ...(cost && { cost }) });
}

/** Adds the price of a model call to the task's cost and returns it; undefined if it is unknown. */
function addPrice(task: TaskRun, usage: Usage, model: string): Money | undefined {
  const { price } = task.settings;
  if (price === undefined) return undefined;
  try {
    const money = priceOf(price, usage, model);
    task.state.cost = addCost(task.state.cost, money);
    return money;
  } catch (error) {
    // A cancelled task keeps its partial reply and stays cancelled.
    if (task.control.controller.signal.aborted) return undefined;
    throw error;
  }
}

function nameOf({ provider, modelId }: Turn["model"]): string {
  return `${provider}/${modelId}`;
}

function assistantMessage(
  task: TaskRun,
  id: string,
  turn: Pick<Turn, "content" | "usage" | "finishReason"> & Partial<Pick<Turn, "model" | "sources">>,
  purpose: Purpose,
): Message {
  const { content, usage, finishReason: finish, model, sources = [] } = turn;
  // Frozen, because hooks must return their edits.
  return freezePlain({
    id,
    role: "assistant",
    name: task.settings.name,
    content,
    usage,
    metadata: {
      taskId: task.identity.ref.taskId,
      iteration: iterationOf(task) + 1,
      ...(model && { model: nameOf(model) }),
      ...((finish === "length" || finish === "content-filter") && { finish }),
      ...(purpose === "summary" && { summary: true }),
      ...(sources.length > 0 && { sources }),
    },
  });
}

/** Tells the model what is wrong with its answer and lets it try again. */
export async function askAgain(task: TaskRun, problem: string): Promise<void> {
  const message = hintMessage(task, problem);
  const metadata = { ...message.metadata, structuredRetry: true };
  await commitStep(task, { messages: [{ ...message, metadata }] });
}

function hintMessage(task: TaskRun, text: string): Message {
  const { ids } = task.settings;
  const metadata = { taskId: task.identity.ref.taskId };
  return { id: ids.next("msg"), role: "user", content: [{ type: "hint", text }], metadata };
}

function withoutCalls(content: readonly Block[]): readonly Block[] {
  return content.filter(({ type }) => type !== "tool_use");
}

/** Checks that the messages of `gotoReasoning` have exactly one result for each call of the reply, and shows them. */
function gotoMessages(task: TaskRun, reply: Message, messages: readonly Message[]): Message[] {
  const results = messages
    .flatMap((message) => message.content)
    .filter((block) => block.type === "tool_result");
  const calls = reply.content.filter((block) => block.type === "tool_use");
  const missing = new Set(calls.map(({ id }) => id));
  for (const { id } of results)
    if (!missing.delete(id)) throw wrongResults(`an unexpected result: ${id}`);
  const open = calls.filter(({ id }) => missing.has(id));
  if (open.length > 0) {
    throw wrongResults(`no result for the calls of ${open.map(({ name }) => name).join(", ")}`);
  }
  for (const { id, state, output } of results) showResult(task, id, state, output);
  const metadata = { taskId: task.identity.ref.taskId, goto: true };
  if (messages.length === 0) return [{ ...hintMessage(task, reasonAgainPrompt), metadata }];
  const markNotRun = (block: Block): Block =>
    block.type === "tool_result" ? { ...block, metadata: { ...block.metadata, ...notRun } } : block;
  return copyPlain(messages).map((message) => ({
    ...message,
    content: message.content.map(markNotRun),
    metadata: { ...message.metadata, ...metadata },
  }));
}

function wrongResults(problem: string): RivuletError {
  return new RivuletError("pending_calls", `gotoReasoning has ${problem}.`, {
    hint: "Pass exactly one tool_result for each call of the reply, or let the calls run.",
  });
}
