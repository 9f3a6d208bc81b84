import type { RunOptions, StandardSchema, TaskRecord } from "../../contract/index.ts";

/** The input of a call, as far as it decides where the call goes. */
export interface EntryInput {
  readonly hasText: boolean;
  /** Whether it has answers or results of calls. */
  readonly hasAnswers: boolean;
  /** The call only compacts the session. */
  readonly compacts: boolean;
}

/** The session of a call. */
export interface EntrySession {
  /** Whether the call names the session. */
  readonly isNamed: boolean;
  /** Whether the session has ever had a task. */
  readonly exists: boolean;
  /** The first unfinished task of the session itself. */
  readonly root: TaskRecord | undefined;
  /** Whether words for the session wait that no task was started for. */
  readonly hasInbox: boolean;
}

/**
 * The first action of a call. `start`: starts a task, or queues it behind the unfinished one. `answer`: answers approvals.
 * `resume`: approves the stops that wait. `missing`: fails, because there is no such session.
 */
export type Entry = "start" | "answer" | "resume" | "missing";

/** Decides what a call does, before the approvals of its session are read. */
export function planEntry(input: EntryInput, session: EntrySession): Entry {
  const { hasText, hasAnswers, compacts } = input;
  const { isNamed, exists, root } = session;
  if (!exists && (compacts || (isNamed && hasAnswers))) return "missing";
  if (compacts) return "start";
  if (hasAnswers) return "answer";
  if (hasText) return root?.status === "suspended" ? "answer" : "start";
  return root === undefined || root.status === "suspended" ? "resume" : "answer";
}

/** The tasks that the answers of a call move. */
export interface Answered {
  /** The tasks to drive so that the answered ones move. */
  readonly tops: readonly TaskRecord[];
  /** Whether approvals wait that hold the session's own task. */
  readonly isHeld: boolean;
}

/**
 * The action of a call with answers. `continue`: posts them and its text to a task. `start`: posts them and starts a task
 * with the text. `drain`: starts a task that reads the inbox. `missing` and `idle`: fails.
 */
export type AnswerEntry =
  | { readonly type: "continue"; readonly task: TaskRecord }
  | { readonly type: "start" | "drain" | "missing" | "idle" };

/** Decides what a call does whose answers are matched with the approvals of its session. */
export function planAnswers(
  { hasText }: EntryInput,
  { isNamed, exists, root, hasInbox }: EntrySession,
  { tops, isHeld }: Answered,
): AnswerEntry {
  if (hasText) {
    const isWaiting = isHeld || root?.status === "suspended";
    return root && isWaiting ? { type: "continue", task: root } : { type: "start" };
  }
  const isForRoot = tops.length === 0 || tops.some(({ taskId }) => taskId === root?.taskId);
  const task = isForRoot ? root : tops[0];
  if (task) return { type: "continue", task };
  if (hasInbox) return { type: "drain" };
  return { type: isNamed && !exists ? "missing" : "idle" };
}

/**
 * How a task starts. `begin`: here and at once, or through the queue if another process owns the session. `queue`:
 * through the queue. `own`: as soon as this process owns the idle session. `busy`: not at all.
 */
export type Start = "begin" | "queue" | "own" | "busy";

/** Decides how a call starts its task; `root` is the unfinished task of the session. */
export function planStart(
  options: Pick<RunOptions<StandardSchema | undefined>, "context" | "hooks" | "onBusy" | "taskId">,
  root: TaskRecord | undefined,
): Start {
  if (root && options.onBusy === "fail") return "busy";
  if (isLive(options)) return "own";
  // The queue keeps the first record of a given id, so two calls with one id start one task.
  return root || options.taskId !== undefined ? "queue" : "begin";
}

/** Whether a call has values and functions that only this process can use. */
export function isLive({
  context,
  hooks,
}: Pick<RunOptions<StandardSchema | undefined>, "context" | "hooks">): boolean {
  return context !== undefined || hooks !== undefined;
}
