import type { Class } from "../protocol/agent.ts";
import type { Block } from "../protocol/message.ts";
import { runChild } from "./child.ts";
import type { ResultEmitter } from "./emit-result.ts";
import type { ToolCall } from "./hook.ts";
import { type TaskRun, viewOf } from "./task-run.ts";
import type { ToolContext } from "./tool/context.ts";

/** What differs between the contexts of one call. */
export interface CallContext {
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** Absent where a call is only looked at, to decide whether it needs an approval. */
  readonly suspend?: ToolContext["suspend"];
  readonly onChunk?: (chunk: string | Block) => void;
  /** A child waits for somebody: the call waits with it. */
  readonly onChildWaits?: () => never;
}

/** What a tool gets besides its input. */
export function toolContext(
  task: TaskRun,
  call: ToolCall,
  shown: ResultEmitter,
  { attempt, signal, suspend, onChunk, onChildWaits }: CallContext,
): ToolContext {
  const { settings, record } = task;
  const context: ToolContext = {
    signal,
    callId: call.id,
    taskId: record.taskId,
    sessionId: record.sessionId,
    ...(record.userId !== undefined && { userId: record.userId }),
    attempt,
    agent: { name: settings.name, agentId: settings.agentId },
    messages: viewOf(task.messages),
    emit(chunk) {
      if (signal.aborted) return;
      shown.emit(chunk);
      onChunk?.(chunk);
    },
    progress(progress) {
      if (!signal.aborted) shown.progress(progress);
    },
    suspend: suspend ?? refuseToSuspend,
    get<T>(keyOrType: string | Class<T>, type?: Class<T>): T | undefined {
      return typeof keyOrType === "string"
        ? task.context.get(keyOrType, type)
        : task.context.get(keyOrType);
    },
    async runChild(agent, input, options) {
      const outcome = await runChild(task, call.id, agent, input, { ...options, signal });
      const waits = outcome.status === "suspended" && outcome.mode === "sync";
      return waits && onChildWaits ? onChildWaits() : outcome;
    },
  };
  tasks.set(context, task);
  return context;
}

const tasks = new WeakMap<ToolContext, TaskRun>();

/** The task that a call belongs to, for tools of this package. */
export function taskBehind(context: ToolContext): TaskRun {
  const task = tasks.get(context);
  if (task === undefined) throw new Error("This is not the context of a call.");
  return task;
}

function refuseToSuspend(): never {
  throw new Error("needsApproval cannot suspend: return true to ask.");
}
