import { type Message, userMessage } from "../protocol/message.ts";
import type { Post, TaskRecord } from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";
import type { Conversation } from "./conversation.ts";
import { driverOf, unfinished } from "./drivers.ts";
import type { Ending, RestingEnding } from "./ending.ts";
import { driveHooked } from "./hooked.ts";
import { isControl } from "./inbox.ts";
import { driveTask, resumeTask } from "./lifecycle.ts";
import { type TaskRun, untilItEnds } from "./task-run.ts";
import { traceTask } from "./trace.ts";

/** A task that this process works on, whoever waits for it. */
export interface Drive {
  /** As it was when the drive began, or came to rest without a task. */
  record: TaskRecord;
  /** The tasks above it, the root first. */
  readonly ancestors: readonly string[];
  readonly controller: AbortController;
  /** True while it waits until those before it on its session have ended. */
  isQueued: boolean;
  /** Absent until it is open. */
  task?: TaskRun;
  /** Resolves when it is open, or rests without having been. */
  readonly opened: Promise<unknown>;
  /** Resolves when it is written that the task is there. */
  readonly begun: Promise<unknown>;
  /** Resolves when it rests and nothing of it runs here; rejects only when the right to write is lost. */
  readonly ended: Promise<void>;
}

/** A task to drive, and how it is opened. */
export interface DriveStart {
  readonly conversation: Conversation;
  readonly record: TaskRecord;
  readonly ancestors: readonly string[];
  /** True: that the task is there has been written before. */
  readonly isWritten: boolean;
  /** What it is asked, for `preCall` hooks. */
  readonly input: readonly Message[];
  /** Waits for its turn, opens the task and writes that it begins or goes on. */
  open(drive: Drive): Promise<OpenedTask>;
}

/** A task that is open, and how to give its turn back; or one that has come to rest without being driven. */
export type OpenedTask =
  | { readonly task: TaskRun; readonly rests?: never; release(): void }
  | { readonly task?: TaskRun; readonly rests: true };

/** Starts to drive a task. It is known as driven from here on, before anything else can happen. */
export function startDrive(start: DriveStart): Drive {
  const { conversation, record, ancestors } = start;
  const begun = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const drive: Drive = {
    record,
    ancestors,
    isQueued: false,
    opened: opened.promise,
    controller: new AbortController(),
    begun: begun.promise,
    ended: ended.promise,
  };
  if (start.isWritten) begun.resolve();
  conversation.drives.set(record.taskId, drive);
  conversation.hold();
  const onOpen = () => {
    begun.resolve();
    opened.resolve();
  };
  work(start, drive, onOpen).then(ended.resolve, (error) => {
    // Whoever does not wait for it has not asked for its failure.
    begun.promise.catch(() => {});
    ended.promise.catch(() => {});
    begun.reject(error);
    opened.resolve();
    ended.reject(error);
  });
  return drive;
}

async function work(start: DriveStart, drive: Drive, onOpen: () => void): Promise<void> {
  const { conversation, record, input } = start;
  const { lost } = conversation;
  const onLost = () => drive.controller.abort(lost.signal.reason);
  if (lost.signal.aborted) onLost();
  lost.signal.addEventListener("abort", onLost, { once: true });
  let release: (() => void) | undefined;
  try {
    const opened = await start.open(drive);
    if (opened.task) drive.task = opened.task;
    onOpen();
    if (opened.rests) return;
    release = opened.release;
    await traceTask(opened.task, () => driveHooked(opened.task, input, driveUntilIdle));
  } catch (error) {
    // Its failure is its own and has been written, unless nobody may write any more.
    if (lost.signal.aborted) throw lost.signal.reason;
    if (drive.task === undefined) throw error;
  } finally {
    lost.signal.removeEventListener("abort", onLost);
    release?.();
    conversation.drives.delete(record.taskId);
    const { mode, depth, status } = drive.task?.record ?? drive.record;
    if (status === "suspended") void conversation.attend(); // an answer may have come meanwhile
    if (mode === "background" && depth === 1 && isTerminal(status)) conversation.onDelivery?.();
    await conversation.leave();
  }
}

/**
 * Drives a task until it rests and nothing has been posted for it meanwhile: who answers as soon as an approval is
 * asked for may be faster than the suspension.
 */
export async function driveUntilIdle(task: TaskRun, around: AroundDrive): Promise<Ending> {
  const { before, after: beforeEnd } = around;
  let ending = await driveTask(task, { before, beforeEnd });
  let tried = new Set<string>();
  while (ending.status === "suspended") {
    const posts = await postsFor(task);
    // What a drive knew of and did not take has to wait for something else.
    if (posts.every(({ id }) => tried.has(id))) break;
    tried = new Set(posts.map(({ id }) => id));
    await resumeTask(task, "approval_resolved");
    ending = await driveTask(task, { beforeEnd });
  }
  if (ending.status !== "suspended") return ending;
  try {
    await around.after(ending);
    return ending;
  } catch (error) {
    const reason = task.controller.signal.aborted ? "cancelled" : "hook_failed";
    await resumeTask(task, reason);
    return driveTask(task, { before: () => Promise.reject(error) });
  }
}

/** What is done before a task is driven, and once it is known how it comes to rest; what it throws is how it ends. */
export interface AroundDrive {
  readonly before: () => Promise<void>;
  readonly after: (ending: RestingEnding) => Promise<void>;
}

/** The answers and cancels that wait for this task, or for one that only it can drive. */
export async function postsFor(task: TaskRun): Promise<readonly Post[]> {
  const { store } = task.conversation;
  const { rootTaskId, taskId } = task.ref;
  const posts = (await store.posts({ rootTaskId })).filter(isControl);
  if (posts.length === 0) return posts;
  const records = await store.tasks({ rootTaskId, status: unfinished });
  return posts.filter(({ sessionId }) => driverOf(records, sessionId)?.taskId === taskId);
}

/**
 * Cancels a task and everything below it that is driven here, now. It is written down as well, unless it `isPosted`,
 * until each has ended: whoever takes one of them over before that hears of it too.
 */
export function abortTree(
  conversation: Conversation,
  taskId: string,
  reason: unknown,
  isPosted = false,
): void {
  const targets = [...conversation.drives.values()].filter(
    ({ record, ancestors, controller }) =>
      (record.taskId === taskId || ancestors.includes(taskId)) && !controller.signal.aborted,
  );
  // All in one commit, before anything is told of it: a crash must not leave only a part of them cancelled.
  const toWrite = targets.filter(({ record }) => !isPosted || record.taskId !== taskId);
  if (!conversation.lost.signal.aborted) noteCancel(toWrite, reason);
  for (const { controller } of targets) controller.abort(reason);
}

function noteCancel(drives: readonly Drive[], reason: unknown): void {
  const message = reason instanceof Error ? reason.message : String(reason);
  const tasks = drives.flatMap(({ task }) => (task && !task.isResting ? [task] : []));
  const posts = tasks.flatMap((task) => {
    const row = cancelRow(task.record, message);
    if (task.claims.has(row.id)) return [];
    task.claims.set(row.id, untilItEnds);
    return [row];
  });
  if (posts.length > 0) tasks[0]?.log.commit({ posts }).catch(() => {}); // who writes next hears of it
}

/** The row that cancels a task. */
export function cancelRow({ taskId, sessionId, rootTaskId }: TaskRecord, reason: string): Post {
  const message = { ...userMessage(reason), metadata: { taskId } };
  return { id: `cancel:${taskId}`, kind: "cancel", sessionId, rootTaskId, message };
}

/** Whether a row is about this task, and not about another one of its session. */
export function isFor(post: Post, record: Pick<TaskRecord, "taskId" | "sessionId">): boolean {
  const taskId = post.message?.metadata?.taskId;
  return taskId === undefined ? post.sessionId === record.sessionId : taskId === record.taskId;
}

/** Why somebody cancels. */
export function cancelReason({ message }: Post): Error {
  const block = message?.content?.[0]; // anybody may post anything
  return new Error(block?.type === "text" && block.text ? String(block.text) : "cancelled");
}
