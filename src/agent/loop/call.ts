import { type ErrorShape, reasonOf } from "../../base/error.ts";
import { copyPlain, isSame } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { isCancel, patienceOf, untilCancelled } from "../../base/time.ts";
import type { ToolCall, ToolChunk } from "../../contract/index.ts";
import {
  asBlocks,
  type Block,
  type SuspensionBlock,
  type ToolResultState,
} from "../../contract/index.ts";
import type { WireBlock } from "../../protocol/index.ts";
import { externalReason, interruptedResult } from "../base/prompts.ts";
import { ResultEmitter } from "../events/emit-result.ts";
import { readArguments } from "../tool/arguments.ts";
import type { Resumed, SuspendOptions } from "../tool/context.ts";
import { executeTool, executionOf } from "../tool/execute.ts";
import { decide, isAlwaysAllowed } from "../tool/permission.ts";
import type { ToolDefinition } from "../tool/tool.ts";
import { callHooks, hooksAt, readActingVerdict, tellAnyway, tellHooks } from "./hooks.ts";
import type { PendingCall } from "./next.ts";
import { finishCall, suspendCall } from "./settle.ts";
import { structuredTool } from "./structured-output.ts";
import { addResultItem, commitStep, findTool, resultItem, type TaskRun } from "./task-run.ts";
import { toolContext } from "./tool-context.ts";
import { traceToolCall } from "./trace.ts";
import { loadReferences, wholeTranscript } from "./transcript.ts";

/** A call's result, for the model and for people. */
export interface CallResult {
  readonly type: "result";
  readonly state: ToolResultState;
  readonly content: readonly Block[];
  /** The blocks for people, if the tool returned any. */
  readonly display?: readonly WireBlock[];
  readonly error?: ErrorShape;
  /** Whether the tool has run; otherwise the result came from a person, a rule or a hook. */
  readonly hasRun?: true;
}
/** A call that waits for a person or an external result. */
export interface CallSuspension {
  readonly type: "suspend";
  readonly kind: SuspensionBlock["kind"];
  readonly reason: string;
  /** The input with which the call would run, without presets. */
  readonly input: unknown;
  readonly options?: SuspendOptions;
}
/** The calls of a reply that run together. */
export interface Batch {
  /** Stops all of them. */
  readonly signal: AbortSignal;
  /** Those that have begun and not ended, by id. */
  readonly running: ReadonlyMap<string, unknown>;
}
type CallOutcome = CallResult | CallSuspension | { readonly type: "child_waits" };
/** A call as it runs; `raw` is the model's text, unless the input was edited. */
type RunningCall = ToolCall & { readonly raw?: string };
const childWaiting = { type: "child_waits" } as const;

/** Runs one call to its result, or to what it waits for; throws what fails the task. */
export async function runCall(
  task: TaskRun,
  pending: PendingCall,
  batch: Batch,
): Promise<"moved" | "child_waits"> {
  const { signal } = batch;
  const item = resultItem(task, pending.call.id);
  const { call, result } = await editCall(task, pending, signal);
  const tool = findTool(task, call.name);
  const isCitable = task.settings.references || tool?.citable;
  const reserve = isCitable ? () => task.output.pool.reserve() : undefined;
  if (reserve) await loadReferences(task);
  const shown = new ResultEmitter(task.output.emitter, item, reserve);
  try {
    const outcome = result ?? (await answerCall(task, pending, call, { tool, shown, signal }));
    // Without the lease the call has not ended: the next owner runs it.
    task.conversation.lost.signal.throwIfAborted();
    if (outcome.type === "result") {
      if (task.output.childCalls.has(call.id)) await task.conversation.cancelChildOf(task, call.id);
      await finishCall(task, pending.call, call, outcome, shown, batch);
      return "moved";
    }
    shown.pause();
    if (outcome.type === "child_waits") return "child_waits";
    await suspendCall(task, pending.call, call, outcome);
    return "moved";
  } catch (error) {
    // The result that settles the call continues after the streamed blocks.
    if (task.output.openResults.has(pending.call.id)) shown.pause();
    throw error;
  }
}

/** A call after hooks and answers; if it has a result, it does not run. */
interface EditedCall {
  readonly call: RunningCall;
  readonly result?: CallResult;
}

/**
 * Applies an answer's edit and the preActing hooks to a call. Hooks see every input once: an approved call stays as it
 * was shown, and only an edited call passes the hooks again.
 */
function editCall(task: TaskRun, pending: PendingCall, signal: AbortSignal): Awaitable<EditedCall> {
  const start = { call: callOf(pending) };
  if (pending.answer !== undefined && !isEdit(pending)) return start;
  return callHooks<"preActing", EditedCall>(
    task,
    "preActing",
    start,
    (hook, { call, result }) => {
      if (result !== undefined) return undefined;
      const { readOnly } = findTool(task, call.name)?.tool ?? {};
      return hook.preActing?.(
        task.scope.hookContext,
        Object.freeze(readOnly ? { ...call, readOnly } : call),
      );
    },
    ({ call }, returned) => {
      const verdict = readActingVerdict(returned);
      if ("result" in verdict) {
        const content = copyPlain(asBlocks(verdict.result));
        return { call, result: { type: "result", state: verdict.state ?? "success", content } };
      }
      const { name, input } = verdict;
      return { call: input === call.input ? { ...call, name } : { id: call.id, name, input } };
    },
    signal,
  );
}

/** The call as it was shown for approval, or as the model sent it; with the input of an edit. */
function callOf(pending: PendingCall): RunningCall {
  const { call, suspension, answer } = pending;
  const { id, raw } = call;
  const { name, input } = suspension?.edited ?? call;
  if (answer && isEdit(pending)) return { id, name, input: answer.input };
  return { id, name, input, ...(raw !== undefined && input === call.input && { raw }) };
}

/** Whether an answer changes the input of its call; to a question of the tool, an input is an answer. */
function isEdit({ suspension, answer }: PendingCall): boolean {
  return answer?.decision === "edit" && suspension?.resume === undefined;
}

function answerCall(
  task: TaskRun,
  pending: PendingCall,
  call: RunningCall,
  options: CallOptions,
): Awaitable<CallOutcome> {
  const { answer, suspension } = pending;
  const { resume } = suspension ?? {};
  if (answer !== undefined && answer.decision !== "cancel" && resume !== undefined) {
    return checkAndRun(task, call, true, { ...options, resumed: { resume, answer } });
  }
  switch (answer?.decision) {
    case "deny":
      return denied(answer.reason ?? "The user denied this call.");
    case "expire":
      return denied("Nobody answered in time, so the call was denied.");
    case "cancel":
      return interrupted();
    case "answer":
      return { type: "result", state: answer.state ?? "success", content: answer.output ?? [] };
    case "edit": {
      // A hook may have changed the edited call, which then needs approval again.
      const isAsked = pending.suspension?.kind !== "stop";
      const isApproved = isAsked && isSame(call, callOf(pending));
      return checkAndRun(task, call, isApproved, options);
    }
    default:
      return checkAndRun(task, call, answer !== undefined, options);
  }
}

interface CallOptions {
  /** Undefined: no such tool is on offer. */
  readonly tool: ToolDefinition | undefined;
  readonly shown: ResultEmitter;
  readonly signal: AbortSignal;
  /** The answer with which the tool continues. */
  readonly resumed?: Resumed;
}

/** Checks the tool, its arguments, the rules and the approval, then runs the tool. */
async function checkAndRun(
  task: TaskRun,
  call: RunningCall,
  isApproved: boolean,
  options: CallOptions,
): Promise<CallOutcome> {
  const { toolkit, name: agentName } = task.settings;
  const { tool: definition, shown, signal } = options;
  const patience = patienceOf(task, signal);
  if (definition === undefined) {
    return failed(
      "unknown_tool",
      toolkit.explainMissing(call.name, task.transcript.messages, agentName),
    );
  }
  const createContext = () => toolContext(task, call, shown, { attempt: 1, signal });
  const read = await untilCancelled(patience, () =>
    readArguments(definition, call, toolkit.extraInput?.[call.name], createContext),
  );
  if (!read.ok) return failed("invalid_arguments", read.message);
  const shownInput = withoutPreset(definition, call, read.input);
  // Rules do not apply to the tool that takes the structured answer.
  const isOwn = definition.tool === structuredTool(task);
  const rule = isOwn ? "allow" : decide(task.scope.permissions, call.name, read.input);
  if (rule === "deny") return denied(`A rule forbids ${call.name} with this input.`);
  if (!isApproved && rule !== "allow") {
    const asks = definition.needsApproval;
    let isNeeded: boolean;
    try {
      isNeeded =
        typeof asks === "function"
          ? await untilCancelled(patience, () => asks(read.input, createContext()))
          : asks;
    } catch (error) {
      if (isCancel(signal, error)) throw error;
      return failed("tool_failed", `Tool execution failed: ${reasonOf(error)}`);
    }
    if (
      (rule === "ask" || isNeeded) &&
      !isAlwaysAllowed(await wholeTranscript(task), call.name, read.input)
    ) {
      const reason = `Allow ${call.name}?`;
      return { type: "suspend", kind: "approval", reason, input: shownInput };
    }
  }
  if (definition.execute === undefined) {
    return { type: "suspend", kind: "external", reason: externalReason, input: shownInput };
  }
  return execute(task, definition, call, read.input, options);
}

async function execute(
  task: TaskRun,
  definition: ToolDefinition,
  call: ToolCall,
  input: unknown,
  { shown, signal: stopped, resumed }: CallOptions,
): Promise<CallOutcome> {
  const { settings } = task;
  // A suspended child must end before its call; the end of the task ends both.
  if (stopped.aborted && task.output.childCalls.has(call.id)) return childWaiting;
  let childWaits = false;
  await task.conversation.assertHeld();
  const played = task.conversation.process.standIn?.tool(task, call, definition) ?? definition;
  const outcome = await traceToolCall(task, call, (onRetry) =>
    executeTool(played, input, {
      execution: executionOf(definition, settings.toolkit.execution, settings.execution),
      signal: stopped,
      clock: settings.clock,
      random: Math.random,
      unfinished: () => task.conversation.childStopped(call.id),
      onRetry(retry) {
        onRetry(retry);
        return startOver(task, call, shown);
      },
      makeContext: (attempt, signal, suspend) =>
        toolContext(task, call, shown, {
          attempt,
          signal,
          suspend,
          ...(resumed && { resumed }),
          onChunk: (chunk) => tellChunk(task, call, chunk),
          onChildWaits: () => {
            childWaits = true;
            return suspend("A child of this call waits.");
          },
        }),
    }),
  );
  if (childWaits) return childWaiting; // even if the call was interrupted meanwhile
  if (outcome.state === "suspended") {
    const shownInput = withoutPreset(definition, call, input);
    const reason = outcome.reason.trim() || `${call.name} waits for a result.`;
    const { responseSchema, resume } = outcome;
    const options = { ...(responseSchema && { responseSchema }), ...(resume && { resume }) };
    return { type: "suspend", kind: "question", reason, input: shownInput, options };
  }
  return { type: "result", hasRun: true, ...outcome };
}

/** A schema may copy a preset into any field, so people see the input as it was sent. */
function withoutPreset({ preset }: ToolDefinition, { input }: ToolCall, read: unknown): unknown {
  if (Object.keys(preset).length === 0) return read;
  const fields = Object.entries(input ?? {}).filter(([name]) => !Object.hasOwn(preset, name));
  return Object.fromEntries(fields);
}

/** Discards the output of a failed attempt; the item of a child is kept. */
async function startOver(task: TaskRun, call: ToolCall, shown: ResultEmitter): Promise<void> {
  if (!shown.hasStreamed || task.output.childCalls.has(call.id)) return;
  tellChunk(task, call, { type: "retracted" });
  shown.startOver(() => addResultItem(task, call.id));
  await commitStep(task);
}

function tellChunk(task: TaskRun, call: ToolCall, chunk: ToolChunk): void {
  const { hooks, toolkit } = task.settings;
  const listening = hooksAt(hooks, "actingChunk");
  tellHooks(listening, (hook) => hook.actingChunk?.(task.scope.hookContext, call, chunk));
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
