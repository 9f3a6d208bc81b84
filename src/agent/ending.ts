import { type RivuletError, rivuletErrorOf } from "../protocol/error.ts";
import type { GenerateReason, Message } from "../protocol/message.ts";
import type { IncompleteReason, Suspension } from "../protocol/task.ts";
import type { Step } from "./next.ts";
import { isRunnable } from "./next.ts";
import { freezePlain } from "./plain.ts";
import type { TaskRun } from "./task-run.ts";
import { openStop } from "./waiting.ts";

/** How a task came to rest. All but `suspended` are final. */
export type Ending =
  | {
      readonly status: "completed" | "incomplete" | "cancelled";
      readonly generateReason: GenerateReason;
      readonly message: Message;
      readonly structured?: unknown;
      readonly incompleteReason?: IncompleteReason;
      readonly reason?: string;
    }
  | Suspended
  | { readonly status: "failed"; readonly error: RivuletError };
/** An ending that has a message. */
export type RestingEnding = Exclude<Ending, { status: "failed" }>;
/** A task that goes on when somebody answers. */
export interface Suspended {
  readonly status: "suspended";
  readonly generateReason: GenerateReason;
  readonly message: Message;
  readonly suspension: Suspension;
}

/** The task has its answer. */
export function completed(
  task: TaskRun,
  message: Message | undefined,
  structured?: { readonly value: unknown },
): RestingEnding {
  const said = message ?? lastReply(task);
  if (structured === undefined) {
    return { status: "completed", generateReason: "model_stop", message: said };
  }
  const text = JSON.stringify(structured.value);
  return {
    status: "completed",
    generateReason: "structured_output",
    message: freezePlain({ ...said, content: [{ type: "text", text }] }),
    structured: structured.value,
  };
}

/** The task ends before it is finished. */
export function incomplete(task: TaskRun, reason: IncompleteReason): RestingEnding {
  const message = lastReply(task);
  const generateReason = reason === "timeout" ? "interrupted" : reason;
  return { status: "incomplete", generateReason, message, incompleteReason: reason };
}

/** Somebody stopped the task. */
export function cancelled(task: TaskRun): RestingEnding {
  const why = task.controller.signal.reason as unknown;
  const reason = why instanceof Error ? why.message : String(why ?? "cancelled");
  return { status: "cancelled", generateReason: "interrupted", message: lastReply(task), reason };
}

/** The task cannot go on; whoever reads why also reads which task it was. */
export function failed({ record }: TaskRun, error: unknown): Ending {
  const { taskId, path } = record;
  return { status: "failed", error: rivuletErrorOf(error).at({ taskId, path }) };
}

/** Nothing in the task can move until somebody answers. */
export function suspended(
  task: TaskRun,
  step: Step & { type: "act" | "wait" },
): Extract<Ending, { status: "suspended" }> {
  const stop = openStop(task.messages);
  if (stop !== undefined) {
    const acting = stop.reason === "acting";
    const generateReason = acting ? "acting_stop_requested" : "reasoning_stop_requested";
    const message = acting ? lastToolMessage(task) : step.message;
    const suspension = { reason: "stop_requested" } as const;
    return { status: "suspended", generateReason, message, suspension };
  }
  const waiting = step.calls.flatMap(({ suspension, answer }) =>
    suspension && !answer ? [suspension] : [],
  );
  const children = step.calls.filter(isRunnable).map(({ call }) => call.id);
  const needsApproval = waiting.some(({ kind }) => kind === "approval");
  const onlyChildren = waiting.length === 0;
  return {
    status: "suspended",
    generateReason: needsApproval || onlyChildren ? "approval_required" : "tool_suspended",
    message: step.message,
    suspension: {
      reason: needsApproval ? "approval" : onlyChildren ? "child" : "external",
      ...(waiting.length > 0 && { approval_ids: waiting.map(({ approvalId }) => approvalId) }),
      ...(children.length > 0 && { waiting_on: children }),
    },
  };
}

function lastReply(task: TaskRun): Message {
  const mine = task.messages.findLast(
    (message) => message.role === "assistant" && message.metadata?.taskId === task.ref.taskId,
  );
  const { ids, name } = task.settings;
  return mine ?? freezePlain({ id: ids.next("msg"), role: "assistant", name, content: [] });
}

function lastToolMessage(task: TaskRun): Message {
  const result = task.messages.findLast((message) => message.content[0]?.type === "tool_result");
  return result ?? lastReply(task);
}
