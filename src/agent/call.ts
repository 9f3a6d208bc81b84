import type { ErrorShape } from "../protocol/error.ts";
import type { Block, SuspensionBlock, ToolResultState } from "../protocol/message.ts";
import { asBlocks } from "../protocol/message.ts";
import type { WireBlock } from "../protocol/task.ts";
import { ResultEmitter } from "./emit-result.ts";
import type { ActingVerdict, ToolCall } from "./hook.ts";
import { callHooks, tellAnyway, tellHooks } from "./hook.ts";
import type { PendingCall } from "./next.ts";
import { interruptedResult } from "./prompts.ts";
import { finishCall, isCitable, suspendCall } from "./settle.ts";
import type { TaskRun } from "./task-run.ts";
import { findTool } from "./task-run.ts";
import { isAlwaysAllowed } from "./tool/approval.ts";
import { readArguments } from "./tool/arguments.ts";
import { executeTool, executionOf, externalReason } from "./tool/execute.ts";
import { decide } from "./tool/permission.ts";
import { reasonOf } from "./tool/result.ts";
import type { ToolDefinition } from "./tool/tool.ts";
import { toolContext } from "./tool-context.ts";
import { traceToolCall } from "./trace.ts";
import { cancelChildOf } from "./undriven.ts";

/** A call's result, for the model and for people. */
export interface CallResult {
  readonly type: "result";
  readonly state: ToolResultState;
  readonly content: readonly Block[];
  readonly display?: readonly WireBlock[];
  /** Whether the tool itself said what people see. */
  readonly hasDisplay?: boolean;
  readonly error?: ErrorShape;
}
/** A call that waits for a person or an outside result. */
export interface CallSuspension {
  readonly type: "suspend";
  readonly kind: SuspensionBlock["kind"];
  readonly reason: string;
  /** What the call would run with. */
  readonly input: unknown;
}
type CallOutcome = CallResult | CallSuspension | { readonly type: "child_waits" };
type EditableCall = ToolCall & { readonly raw?: string };
const childWaiting = { type: "child_waits" } as const;

/** Runs one call to its result, or to what it waits for. Every way it can end is something the model can read. */
export async function runCall(
  task: TaskRun,
  pending: PendingCall,
): Promise<"moved" | "child_waits"> {
  const place = task.openResults.get(pending.call.id);
  if (place === undefined) throw new Error(`No item is open for call ${pending.call.id}.`);
  const reserve = isCitable(task, pending.call) ? () => task.pool.reserve() : undefined;
  const shown = new ResultEmitter(task.emitter, place, pending.call.id, reserve);
  try {
    const call = await editCall(task, pending);
    const outcome = "type" in call ? call : await answerCall(task, pending, call, shown);
    // A call that was stopped because nobody may write any more has not ended: whoever goes on runs it.
    task.conversation.lost.signal.throwIfAborted();
    if (outcome.type === "result") {
      await cancelChildOf(task, pending.call.id);
      await finishCall(task, pending.call, outcome, shown);
      return "moved";
    }
    task.openResults.set(pending.call.id, shown.pause());
    if (outcome.type === "child_waits") return "child_waits";
    await suspendCall(task, call as EditableCall, outcome);
    return "moved";
  } catch (error) {
    // Whoever settles the call goes on after what it has shown.
    if (task.openResults.has(pending.call.id)) {
      task.openResults.set(pending.call.id, shown.pause());
    }
    throw error;
  }
}

/** What an answer and hooks make of a call before anything is asked or run: another input, or a result. */
async function editCall(
  task: TaskRun,
  { call, answer }: PendingCall,
): Promise<EditableCall | CallResult> {
  const { id, name, input, raw } = call;
  const start: EditableCall =
    answer?.decision === "edit"
      ? { id, name, input: answer.input }
      : { id, name, input, ...(raw !== undefined && { raw }) };
  return callHooks<"preActing", EditableCall | CallResult>(
    task.settings.hooks,
    "preActing",
    start,
    (hook, current) =>
      "type" in current ? undefined : hook.preActing?.(task.hookContext, current),
    (current, returned) => {
      const verdict = returned as ActingVerdict;
      if (verdict === undefined) return current;
      if (!("result" in verdict)) return { ...verdict, id };
      return { type: "result", state: "success", content: asBlocks(verdict.result) };
    },
  );
}

async function answerCall(
  task: TaskRun,
  { answer }: PendingCall,
  call: EditableCall,
  shown: ResultEmitter,
): Promise<CallOutcome> {
  switch (answer?.decision) {
    case "deny":
      return denied(answer.reason ?? "The user denied this call.");
    case "expire":
      return denied("Nobody answered in time, so the call was denied.");
    case "cancel":
      return interrupted();
    case "answer":
      return { type: "result", state: "success", content: answer.output ?? [] };
    default:
      return checkAndRun(task, call, answer !== undefined, shown);
  }
}

/** The tool, its arguments, the rules, the approval; then the tool itself. */
async function checkAndRun(
  task: TaskRun,
  call: EditableCall,
  isAnswered: boolean,
  shown: ResultEmitter,
): Promise<CallOutcome> {
  const { toolkit, name: agentName } = task.settings;
  const definition = findTool(task, call.name);
  if (definition === undefined) {
    return failed("unknown_tool", toolkit.explainMissing(call.name, task.messages, agentName));
  }
  const read = await readArguments(definition, call, toolkit.extraInput?.[call.name]);
  if (!read.ok) return failed("invalid_arguments", read.message);
  const rule = decide(task.permissions, call.name, read.input);
  if (rule === "deny") return denied(`A rule forbids ${call.name} with this input.`);
  if (!isAnswered && rule !== "allow") {
    const asks = definition.needsApproval;
    const context = toolContext(task, call, shown, { attempt: 1, signal: task.controller.signal });
    let isNeeded: boolean;
    try {
      isNeeded = typeof asks === "function" ? await asks(read.input, context) : asks;
    } catch (error) {
      return failed("tool_failed", `Tool execution failed: ${reasonOf(error)}`);
    }
    if ((rule === "ask" || isNeeded) && !isAlwaysAllowed(task.messages, call.name)) {
      const reason = `Allow ${call.name}?`;
      return { type: "suspend", kind: "approval", reason, input: read.input };
    }
  }
  if (definition.execute === undefined) {
    return { type: "suspend", kind: "external", reason: externalReason, input: read.input };
  }
  return execute(task, definition, call, read.input, shown);
}

async function execute(
  task: TaskRun,
  definition: ToolDefinition,
  call: ToolCall,
  input: unknown,
  shown: ResultEmitter,
): Promise<CallOutcome> {
  const { settings } = task;
  // A child that waits has to end before its call does: who cancels the task sees to both.
  if (task.controller.signal.aborted && task.childCalls.has(call.id)) return childWaiting;
  let childWaits = false;
  const outcome = await traceToolCall(task, call, () =>
    executeTool(definition, input, {
      execution: executionOf(definition, settings.toolkit.execution, settings.execution),
      signal: task.controller.signal,
      clock: settings.clock,
      random: Math.random,
      unfinished: () => {
        const child = task.conversation.drives.get(call.id);
        return child?.record.mode === "sync" ? child.ended.catch(() => {}) : undefined;
      },
      makeContext: (attempt, signal, suspend) =>
        toolContext(task, call, shown, {
          attempt,
          signal,
          suspend,
          onChunk: (chunk) => tellChunk(task, call, chunk),
          onChildWaits: () => {
            childWaits = true;
            return suspend("A child of this call waits.");
          },
        }),
    }),
  );
  if (childWaits) return childWaiting; // also when it was interrupted meanwhile
  if (outcome.state === "suspended") {
    return { type: "suspend", kind: "question", reason: outcome.reason, input };
  }
  return { type: "result", ...outcome };
}

function tellChunk(task: TaskRun, call: ToolCall, chunk: string | Block): void {
  const { hooks, toolkit } = task.settings;
  tellHooks(hooks, (hook) => hook.actingChunk?.(task.hookContext, call, chunk));
  tellAnyway(() => toolkit.onChunk?.(call, chunk));
}

function denied(reason: string): CallResult {
  const error = { code: "denied", message: reason, retryable: false };
  return { type: "result", state: "denied", content: asBlocks(reason), error };
}

function failed(code: string, message: string): CallResult {
  const error = { code, message, retryable: false };
  return { type: "result", state: "error", content: asBlocks(message), error };
}

function interrupted(): CallResult {
  return { type: "result", state: "interrupted", content: asBlocks(interruptedResult) };
}
