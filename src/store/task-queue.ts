import { notFound, RivuletError } from "../base/error.ts";
import type { Post, TaskRecord } from "../contract/index.ts";
import { isTerminal, type TaskStatus } from "../protocol/index.ts";
import { conflict } from "./store-error.ts";

/** The statuses of a task that has not ended. */
export const unfinishedStatuses: readonly TaskStatus[] = ["queued", "in_progress", "suspended"];

/** The fields that order the tasks of a session. */
export type TaskState = Pick<TaskRecord, "taskId" | "sessionId" | "status">;

/** How a store looks up the states of tasks. */
export interface TaskStates {
  get(taskId: string): TaskState | undefined;
  /** The unfinished tasks of a session in insertion order. */
  unfinished(sessionId: string): readonly TaskState[];
}

/** Throws `agent_busy` when the commit starts a task whose session has an earlier unfinished one. */
export function assertCanBegin(
  commit: { readonly begins?: string | undefined; readonly tasks?: readonly TaskState[] },
  states: TaskStates,
): void {
  if (commit.begins === undefined) return;
  const { begins, tasks = [] } = commit;
  const begun = tasks.findLast(({ taskId }) => taskId === begins) ?? states.get(begins);
  if (begun === undefined) throw conflict(`Task ${begins} does not exist.`);
  if (isTerminal(begun.status)) return;
  const { sessionId } = begun;
  // A Map keeps the place of a key that is set again, so stored tasks come before those of the commit.
  const queue = new Map(states.unfinished(sessionId).map((task) => [task.taskId, task.status]));
  for (const task of tasks) if (task.sessionId === sessionId) queue.set(task.taskId, task.status);
  for (const [taskId, status] of queue) {
    if (taskId === begins) return;
    if (!isTerminal(status)) throw agentBusy(sessionId, `task ${taskId} is ${status}`);
  }
}

/** Throws unless a session has no unfinished task. */
export function assertIdle(sessionId: string, unfinished: readonly TaskState[]): void {
  const busy = unfinished.find(({ status }) => status !== "suspended");
  if (busy) throw agentBusy(sessionId, `task ${busy.taskId} is ${busy.status}`);
  const [suspended] = unfinished;
  if (suspended === undefined) return;
  throw new RivuletError(
    "session_suspended",
    `Session ${sessionId} waits for answers: task ${suspended.taskId} is suspended.`,
    { hint: 'Answer its approvals, or call with onSuspended: "deny".' },
  );
}

/** Throws unless a record is a queued task without a parent. */
export function assertQueuedRoot({ taskId, rootTaskId, parentTaskId, status }: TaskRecord): void {
  if (status === "queued" && rootTaskId === taskId && parentTaskId === undefined) return;
  throw new RivuletError(
    "invalid_record",
    `enqueue() takes a queued root task, got ${status} task ${taskId} of root ${rootTaskId}.`,
    { hint: "Write other records with commit()." },
  );
}

/** Throws `not_found` when a session's first task, or the stored task of the same id, belongs to another user. */
export function assertSameUser(
  { sessionId, userId }: TaskRecord,
  stored: { readonly userId?: string } | undefined,
): void {
  if (stored !== undefined && stored.userId !== userId) throw notFound("session", sessionId);
}

/** Whether a written record moves its task on: more of its output is in the transcript, or it has come to rest. */
export function isProgress(old: TaskRecord | undefined, record: TaskRecord): boolean {
  if (record.committedOutput > (old?.committedOutput ?? 0)) return true;
  const isResting = isTerminal(record.status) || record.status === "suspended";
  return isResting && old?.status !== record.status;
}

/** The task that an answer or a cancel is for, if it names one. */
export function targetOf({ taskId, kind, message }: Post): string | undefined {
  if (taskId !== undefined || kind === "hint" || kind === "input") return taskId;
  const target: unknown = message?.metadata?.taskId; // any process may post anything
  return typeof target === "string" ? target : undefined;
}

/** The session has a task that must come first. */
export function agentBusy(sessionId: string, reason: string): RivuletError<"agent_busy"> {
  return new RivuletError("agent_busy", `Session ${sessionId} is busy: ${reason}.`, {
    retryable: true,
    hint: 'Wait for the task, steer it, or call with onBusy: "queue".',
  });
}
