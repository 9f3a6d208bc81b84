import * as is from "../../base/options.ts";
import { type Fields, passes, readArgument, readOptions } from "../../base/options.ts";
import type { HookContext, ToolCall } from "../../contract/index.ts";
import {
  agentField,
  agentIdField,
  budgetField,
  labelField,
  type ToolChunk,
} from "../../contract/index.ts";
import type { ResultEmitter } from "../events/emit-result.ts";
import type { ChildOptions, Resumed, ToolContext } from "../tool/context.ts";
import { type TaskRun, withMessages } from "./task-run.ts";

/** The parts that differ between the contexts of one call. */
export interface CallContext {
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** Absent while `needsApproval` is evaluated. */
  readonly suspend?: ToolContext["suspend"];
  readonly resumed?: Resumed;
  readonly onChunk?: (chunk: ToolChunk) => void;
  /** Suspends the call because its child is suspended. */
  readonly onChildWaits?: () => never;
}

const chunkField = is.or(is.data, "a string", (value) => typeof value === "string");
const childFields: Fields<ChildOptions> = {
  agentId: is.required(agentIdField),
  mode: is.oneOf("sync", "background"),
  label: labelField,
  timeoutMs: is.amount,
  child: is.record,
  budget: budgetField,
  maxParallel: is.count,
  output: is.anything,
};

/** Creates the second argument of `execute`. */
export function toolContext(
  task: TaskRun,
  call: ToolCall,
  shown: ResultEmitter,
  { attempt, signal, suspend, resumed, onChunk, onChildWaits }: CallContext,
): ToolContext {
  const { settings } = task;
  const { record } = task.state;
  const fields: Omit<ToolContext, "messages"> & { readonly [taskKey]: TaskRun } = {
    signal,
    callId: call.id,
    taskId: record.taskId,
    sessionId: record.sessionId,
    attempt,
    agent: { name: settings.name, agentId: settings.agentId },
    emit(chunk, options = {}) {
      if (signal.aborted) return;
      readArgument("chunk", chunk, is.required(chunkField));
      shown.emit(chunk, readOptions("emit()", options, { partial: is.flag }));
      onChunk?.(chunk);
    },
    progress(progress) {
      const isUsable = passes(() => Number.isFinite(progress.progress));
      if (signal.aborted || !isUsable || !shown.progress(progress)) return;
      onChunk?.({ type: "progress", ...progress });
    },
    budgetLeft: () => task.budget.left,
    suspend: suspend ?? refuseToSuspend,
    ...(resumed && { resumed }),
    get: task.scope.context.get,
    async runChild(agent, input, options) {
      readArgument("agent", agent, is.required(agentField));
      const withSignal = { ...readOptions("runChild()", options, childFields), signal };
      const outcome = await task.conversation.runChild(task, call.id, agent, input, withSignal);
      const waits = outcome.status === "suspended" && outcome.mode === "sync";
      return waits && onChildWaits ? onChildWaits() : outcome;
    },
    // At the end, because the engine creates the fields before a computed one at once.
    [taskKey]: task,
    ...(record.userId !== undefined && { userId: record.userId }),
  };
  return withMessages<ToolContext>(task.transcript, fields, task.transcript.messages.length);
}

/** The property of a context that holds its task. */
export const taskKey = Symbol("task");

/** The task behind the context of a call or a hook, for tools and hooks of this package. */
export function taskBehind(context: ToolContext | HookContext): TaskRun {
  const { [taskKey]: task } = context as { readonly [taskKey]?: TaskRun };
  if (task === undefined) throw new Error("This is not the context of a call or a hook.");
  return task;
}

function refuseToSuspend(): never {
  throw new Error("needsApproval cannot suspend: return true to ask.");
}
