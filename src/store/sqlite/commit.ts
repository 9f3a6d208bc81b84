import type { Commit, Lease, TaskRecord } from "../../protocol/store.ts";
import { fenced } from "../store-error.ts";
import { assertCanBegin, assertIdle, assertSameUser } from "../task-queue.ts";
import type { Database } from "./database.ts";
import { type EncodedPost, putPost, reassignPosts, takePost } from "./inbox.ts";
import { holds } from "./leases.ts";
import { appendBatches, type Batch, encodeEvents } from "./logs.ts";
import {
  appendMessages,
  assignSession,
  type EncodedAppend,
  encodeAppend,
  userOf,
} from "./sessions.ts";
import { type EncodedTask, putTask, readState, readTask, unfinishedIn } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** An encoded commit; later changes to the caller's objects do not affect it. */
export interface EncodedCommit {
  readonly lease: Lease;
  readonly log: string;
  readonly batches: readonly Batch[];
  readonly appends: readonly EncodedAppend[];
  readonly tasks: readonly EncodedTask[];
  readonly posts: readonly EncodedPost[];
  readonly taken: readonly string[];
  readonly begins: string | undefined;
}

/** Encodes every part; throws before anything is written when a part cannot be encoded. */
export function encodeCommit(commit: Commit): EncodedCommit {
  return {
    lease: commit.lease,
    log: commit.log,
    batches: encodeEvents(commit.events ?? []),
    appends: (commit.appends ?? []).map(encodeAppend),
    tasks: (commit.tasks ?? []).map((record) => ({ record, text: JSON.stringify(record) })),
    posts: (commit.posts ?? []).map((post) => ({ post, text: JSON.stringify(post) })),
    taken: [...(commit.taken ?? [])],
    begins: commit.begins,
  };
}

/** Whether a commit has events only; such a commit may wait to share a transaction. */
export function isOnlyEvents(commit: EncodedCommit): boolean {
  const { batches, appends, tasks, posts, taken, begins } = commit;
  if (begins !== undefined || batches.length === 0) return false;
  return [appends, tasks, posts, taken].every((part) => part.length === 0);
}

/** Writes every part or throws; an expired lease may write until another owner acquires the conversation. */
export function writeCommit(
  database: Database,
  commit: EncodedCommit,
  now: number,
  touch: Touch,
): void {
  const { lease, log, batches } = commit;
  if (!holds(database, lease)) throw fenced(lease.sessionId);
  for (const task of commit.tasks) writeTask(database, task, now, touch);
  assertCanBegin(
    { begins: commit.begins },
    {
      get: (taskId) => readState(database, taskId),
      unfinished: (sessionId) => unfinishedIn(database, sessionId),
    },
  );
  if (batches.length > 0) {
    appendBatches(database, { log, sessionId: lease.sessionId }, batches);
    touch("log", log);
  }
  for (const append of commit.appends) {
    appendMessages(database, append, now);
    touch("session", append.sessionId);
  }
  for (const post of commit.posts) putPost(database, post, touch);
  for (const id of commit.taken) takePost(database, id, touch);
}

/** Writes a record and what is derived from it. */
function writeTask(database: Database, task: EncodedTask, now: number, touch: Touch): void {
  const { isNew, hasDescendants } = putTask(database, task);
  const isFirst = assignSession(database, task.record, now);
  if (isNew) reassignPosts(database, task.record, isFirst || hasDescendants);
  touch("task", task.record.taskId);
  touch("session", task.record.sessionId);
}

/** Adds a queued root task, unless there is a record of its id; returns the stored record. */
export function enqueueTask(
  database: Database,
  { task, ifIdle }: { readonly task: EncodedTask; readonly ifIdle: boolean },
  now: number,
  touch: Touch,
): TaskRecord {
  const { record, text } = task;
  const { taskId, sessionId } = record;
  const stored = readTask(database, taskId);
  assertSameUser(record, stored ?? userOf(database, sessionId));
  if (stored) return stored;
  if (ifIdle) assertIdle(sessionId, unfinishedIn(database, sessionId));
  writeTask(database, task, now, touch);
  touch("inbox", sessionId);
  return JSON.parse(text);
}
