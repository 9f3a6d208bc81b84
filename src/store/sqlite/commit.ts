import type { Commit, Lease } from "../../protocol/store.ts";
import { fenced } from "../store-error.ts";
import type { Database } from "./database.ts";
import { type EncodedPost, putPost, takePost } from "./inbox.ts";
import { holds } from "./leases.ts";
import { appendBatches, type Batch, encodeEvents } from "./logs.ts";
import { appendMessages, type EncodedAppend, encodeAppend, noteTask } from "./sessions.ts";
import { type EncodedTask, putTask } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** A commit as it is kept: what the caller changes afterwards is not in it. */
export interface EncodedCommit {
  readonly lease: Lease;
  readonly log: string;
  readonly batches: readonly Batch[];
  readonly appends: readonly EncodedAppend[];
  readonly tasks: readonly EncodedTask[];
  readonly posts: readonly EncodedPost[];
  readonly taken: readonly string[];
}

/** Encodes every part; what cannot be encoded throws here, before anything is written. */
export function encodeCommit(commit: Commit): EncodedCommit {
  return {
    lease: commit.lease,
    log: commit.log,
    batches: encodeEvents(commit.events ?? []),
    appends: (commit.appends ?? []).map(encodeAppend),
    tasks: (commit.tasks ?? []).map((record) => ({ record, text: JSON.stringify(record) })),
    posts: (commit.posts ?? []).map((post) => ({ post, text: JSON.stringify(post) })),
    taken: [...(commit.taken ?? [])],
  };
}

/** Whether a commit carries events and nothing else: the next one may as well wait for it. */
export function isOnlyEvents({ batches, appends, tasks, posts, taken }: EncodedCommit): boolean {
  return batches.length > 0 && [appends, tasks, posts, taken].every((part) => part.length === 0);
}

/** Writes every part or throws; an expired lease may write until somebody takes over. */
export function writeCommit(
  database: Database,
  commit: EncodedCommit,
  now: number,
  touch: Touch,
): void {
  const { lease, log, batches } = commit;
  if (!holds(database, lease)) throw fenced(lease.sessionId);
  if (batches.length > 0) {
    appendBatches(database, { log, sessionId: lease.sessionId }, batches);
    touch("log", log);
  }
  for (const task of commit.tasks) {
    putTask(database, task);
    noteTask(database, task.record, now);
    touch("task", task.record.taskId);
    touch("session", task.record.sessionId);
  }
  for (const append of commit.appends) {
    appendMessages(database, append, now);
    touch("session", append.sessionId);
  }
  for (const post of commit.posts) putPost(database, post, touch);
  for (const id of commit.taken) takePost(database, id, touch);
}
