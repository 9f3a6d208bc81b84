import { copyPlain, freezePlain, isSame } from "../../base/plain.ts";
import type { ToolCall, ToolResult } from "../../contract/index.ts";
import {
  type Block,
  kindOf,
  type Message,
  type SuspensionBlock,
  type ToolResultState,
  type ToolUseBlock,
  textOf,
  toWireBlock,
} from "../../contract/index.ts";
import type { ItemStatus, WireBlock } from "../../protocol/index.ts";
import { repeatedResult } from "../base/prompts.ts";
import { ResultEmitter } from "../events/emit-result.ts";
import { cutText, ranMark } from "../tool/result.ts";
import type { Batch, CallResult, CallSuspension } from "./call.ts";
import { callHooks, readResultVerdict } from "./hooks.ts";
import { stopCallId } from "./next.ts";
import {
  addResultItem,
  claimedBy,
  commitStep,
  controlMessage,
  type TaskRun,
  writeStep,
} from "./task-run.ts";
import { newReferences, repeatOf } from "./transcript.ts";

const itemStatus = {
  success: "completed",
  error: "failed",
  denied: "failed",
  interrupted: "cancelled",
} as const satisfies Record<ToolResultState, ItemStatus>;

/** Suspends a call; its item stays open. The approval shows the call as it would run. */
export async function suspendCall(
  task: TaskRun,
  call: ToolUseBlock,
  { name, input: sent }: ToolCall,
  { kind, reason, input: read, options }: CallSuspension,
): Promise<void> {
  const input = asJson(read) ?? sent;
  const isAsSent = isSame(input, call.input ?? {});
  const isEdited = name !== call.name || !isSame(sent, call.input);
  const message = ask(
    task,
    {
      callId: call.id,
      ...{ kind, reason },
      ...(!isAsSent && { input }),
      ...(isEdited && { edited: { name, input: sent } }),
      ...options,
    },
    {
      name,
      arguments: (isAsSent && call.raw) || JSON.stringify(input ?? {}),
      ...((isEdited || !isAsSent) && { edited: true }),
    },
  );
  await commitStep(task, { messages: [message] });
}

/** Asks for an approval, and returns the message to store. */
function ask(
  task: TaskRun,
  question: Omit<SuspensionBlock, "type" | "approvalId" | "expiresAt">,
  call?: { readonly name: string; readonly arguments: string; readonly edited?: true },
): Message {
  const { ids, clock, approvalTimeoutMs } = task.settings;
  const { kind, callId, reason, responseSchema } = question;
  const approvalId = ids.next("apr");
  const expiresAt = approvalTimeoutMs && clock.now() + approvalTimeoutMs;
  task.output.emitter.append({
    type: "task.approval.requested",
    approval_id: approvalId,
    kind: kindOf(kind),
    ...(call && { call_id: callId, ...call }),
    ...(reason !== undefined && { message: reason }),
    options: decisionsOn[call ? kind : "noCall"],
    ...(responseSchema && { response_schema: responseSchema }),
    ...(expiresAt && { expires_at: expiresAt }),
  });
  const expiry = expiresAt && { expiresAt };
  return controlMessage(task, { type: "suspension", approvalId, ...question, ...expiry });
}

const decisionsOn = {
  approval: ["approve", "deny", "edit"],
  external: ["answer", "deny"],
  question: ["answer", "deny"],
  stop: ["approve", "deny", "edit", "answer"],
  noCall: ["approve", "deny"],
} as const;

/** A hook stops the task: asks about each call that has not begun or, if there is none, about going on. */
export function askAboutStop(
  task: TaskRun,
  calls: readonly ToolUseBlock[],
  message: string,
): readonly Message[] {
  const kind = "stop";
  if (calls.length === 0) return [ask(task, { callId: stopCallId, kind, reason: message })];
  return calls.map(({ id: callId, name, input, raw }) => {
    const shown = { name, arguments: raw ?? JSON.stringify(input ?? {}) };
    return ask(task, { callId, kind, reason: `Continue with ${name}?` }, shown);
  });
}

/** A value as JSON stores it; undefined if JSON cannot hold it. */
function asJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return undefined;
  }
}

/**
 * Stores a result: for the model in the transcript, for people on the wire, in one commit. `ran` is the call as it ran,
 * `running` has the calls of the batch that have begun and not ended, by id.
 */
export async function finishCall(
  task: TaskRun,
  call: ToolUseBlock,
  ran: ToolCall,
  result: CallResult,
  shown: ResultEmitter,
  { signal, running }: Batch,
): Promise<void> {
  const verdict = await callHooks<"postActing", { result: ToolResult; stop: boolean }>(
    task,
    "postActing",
    { result: { state: result.state, output: freezePlain(result.content) }, stop: false },
    (hook, current) => hook.postActing?.(task.scope.hookContext, ran, current.result),
    (current, returned) => {
      const said = readResultVerdict(returned);
      if ("stop" in said) return { ...current, stop: current.stop || said.stop };
      return { ...current, result: said };
    },
    signal,
  );
  const { state, output, keepsDisplay = false } = verdict.result;
  const cut = cutText(output === result.content ? output : copyPlain(output));
  const repeat = repeatOf(task.transcript.messages, task.identity.ref.taskId, call, cut);
  const isRepeated = repeat.times === 3;
  const content: readonly Block[] = isRepeated
    ? [{ type: "text", text: repeatedResult(call.name) }]
    : cut;
  const hasChild = task.output.childCalls.has(call.id);
  // Streamed output, or that of a child, replaces the returned value for people unless the tool returned a display.
  const isStreamed = shown.hasStreamed || hasChild;
  const said = result.display ?? (isStreamed ? [] : undefined);
  const isEdited = output !== result.content;
  const isOriginal = (keepsDisplay || !isEdited) && !isRepeated;
  const seen = isOriginal && isEdited ? cutText(result.content) : content;
  const display = (isOriginal ? said : undefined) ?? seen.map(toWireBlock);
  const cited = cite(task, ran, state, content, display, shown);
  shown.end({
    status: itemStatus[state],
    display: cited.display,
    ...(cited.referenceId !== undefined && { referenceId: cited.referenceId }),
    ...(state !== "success" && { error: result.error ?? problem(state, content) }),
    hasChild,
  });
  task.output.openResults.delete(call.id);
  const mark = ranMark(call, result.hasRun ? ran : undefined);
  const metadata = { repeat, ...newReferences(task), ...mark };
  writeStep(task, {
    taken: claimedBy(task, call.id),
    messages: [
      toolMessage(task, call, state, cited.content, metadata),
      ...(verdict.stop ? stopAfter(task, call, running) : []),
    ],
  });
}

/** Calls that run already are not asked about; a second stop of the batch adds nothing. */
function stopAfter(
  task: TaskRun,
  { name }: ToolUseBlock,
  running: ReadonlyMap<string, unknown>,
): readonly Message[] {
  if (task.transcript.steps.stoppedAfter) return [];
  const calls = task.transcript.steps.runnable().map(({ call }) => call);
  const unbegun = calls.filter(({ id }) => !running.has(id));
  return askAboutStop(task, unbegun, `Continue after ${name}?`);
}

/** Gives every open call a result before its task ends. */
export async function settlePending(
  task: TaskRun,
  state: "interrupted" | "error",
  text: string,
): Promise<void> {
  const step = task.transcript.steps.next;
  if (step.type !== "act" && step.type !== "wait") return;
  const decision = "cancel";
  const resolve = ({ approvalId: approval_id }: SuspensionBlock) =>
    task.output.emitter.append({ type: "task.approval.resolved", approval_id, decision });
  for (const { call, suspension, answer } of step.calls) {
    if (suspension && !answer) resolve(suspension);
    await settleCall(task, call, state, text);
  }
  if (step.stop === undefined) return;
  resolve(step.stop);
  const { approvalId, callId } = step.stop;
  const answer = controlMessage(task, { type: "answer", approvalId, callId, decision });
  await commitStep(task, { messages: [answer] });
}

/** Gives a call a result that did not come from its tool. */
export async function settleCall(
  task: TaskRun,
  call: ToolUseBlock,
  state: "interrupted" | "error",
  text: string,
): Promise<void> {
  const content: readonly Block[] = [{ type: "text", text }];
  showResult(task, call.id, state, content);
  await commitStep(task, { messages: [toolMessage(task, call, state, content)] });
}

/** Emits a result that was not streamed; the caller stores it. */
export function showResult(
  task: TaskRun,
  callId: string,
  state: ToolResultState,
  content: readonly Block[],
): void {
  const item = task.output.openResults.get(callId) ?? addResultItem(task, callId);
  new ResultEmitter(task.output.emitter, item).end({
    status: itemStatus[state],
    display: content.map(toWireBlock),
    ...(state !== "success" && { error: problem(state, content) }),
    hasChild: task.output.childCalls.has(callId),
  });
  task.output.openResults.delete(callId);
}

function cite(
  task: TaskRun,
  call: ToolCall,
  state: ToolResultState,
  content: readonly Block[],
  display: readonly WireBlock[],
  shown: ResultEmitter,
): { content: readonly Block[]; display: readonly WireBlock[]; referenceId?: number } {
  const { referenceId } = shown;
  const isCited =
    referenceId !== undefined || (shown.isCitable && !task.output.childCalls.has(call.id));
  if (state !== "success" || !isCited) return { content, display };
  const number = referenceId !== undefined && { referenceId };
  return task.output.pool.add({ itemId: shown.item.id, content, display, ...number });
}

function toolMessage(
  task: TaskRun,
  call: ToolUseBlock,
  state: ToolResultState,
  output: readonly Block[],
  metadata?: Record<string, unknown>,
): Message {
  const { name } = task.settings;
  const result = { type: "tool_result", id: call.id, name: call.name, output, state } as const;
  return {
    id: call.id,
    role: "tool",
    name,
    content: [{ ...result, ...(metadata && { metadata }) }],
    metadata: { taskId: task.identity.ref.taskId },
  };
}

function problem(state: ToolResultState, content: readonly Block[]) {
  const code =
    state === "denied" ? "denied" : state === "interrupted" ? "interrupted" : "tool_error";
  return { code, message: textOf(content), retryable: false };
}
