import type { Commit, Lease, TaskRecord } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import { conflict, fenced } from "../store-error.ts";
import { assertCanBegin, assertIdle, assertSameUser, isProgress } from "../task-queue.ts";
import { onlyIntact } from "./damage.ts";
import type { Database } from "./database.ts";
import { forgetDue } from "./due.ts";
import { type EncodedPost, hasPostsFor, putPost, reassignPosts, takePost } from "./inbox.ts";
import { clearLosses, lossesOf, type SqliteLeases, voidLeases } from "./leases.ts";
import { appendBatches, type Batch, deleteLogs, encodeEvents, noteEnd } from "./logs.ts";
import { deleteMessages } from "./search-index.ts";
import {
  type EncodedAppend,
  encodeAppend,
  type OpenSessions,
  openSessions,
  userOf,
} from "./sessions.ts";
import {
  conversationOf,
  type EncodedTask,
  putTask,
  readTask,
  statesIn,
  unfinishedIn,
} from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** An encoded commit; later changes to the caller's objects do not affect it. */
export interface EncodedCommit {
  readonly lease: Lease;
  readonly log: string;
  readonly batches: readonly Batch[];
  readonly events: readonly TaskEvent[];
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
    events: commit.events ?? [],
    appends: (commit.appends ?? []).map(encodeAppend),
    tasks: (commit.tasks ?? []).map((record) => ({ record, text: JSON.stringify(record) })),
    posts: (commit.posts ?? []).map((post) => ({ post, text: JSON.stringify(post) })),
    taken: [...(commit.taken ?? [])],
    begins: commit.begins,
  };
}

/** Writes every part or throws; an expired lease may write until another owner acquires the conversation. */
export function writeCommit(
  database: Database,
  commit: EncodedCommit,
  now: number,
  touch: Touch,
): void {
  const { lease, log, batches } = commit;
  const losses = lossesOf(database, lease);
  if (losses === undefined) throw fenced(lease.sessionId);
  if (
    losses > 0 &&
    commit.tasks.some(({ record }) => isProgress(readTask(database, record.taskId), record))
  ) {
    clearLosses(database, lease.sessionId);
  }
  const sessions = openSessions(database, now);
  for (const task of commit.tasks) {
    const { record } = task;
    if (record.taskId === commit.begins) assertSameUser(record, userOf(database, record.sessionId));
    writeTask(database, sessions, task, touch);
    if (isTerminal(record.status)) forgetDue(database, record.sessionId);
  }
  assertCanBegin({ begins: commit.begins }, statesIn(database));
  if (batches.length > 0) {
    const after = appendBatches(database, { log, sessionId: lease.sessionId }, batches);
    touch("log", log, { after, events: commit.events });
  }
  if (hasEnded(commit)) noteEnd(database, log, now);
  for (const append of commit.appends) {
    sessions.append(append);
    touch("session", append.sessionId);
  }
  sessions.save();
  for (const post of commit.posts) putPost(database, post, touch);
  for (const id of commit.taken) takePost(database, id, touch);
}

/** Whether a commit ends a task. */
export function hasEnded({ tasks }: Pick<EncodedCommit, "tasks">): boolean {
  return tasks.some(({ record }) => isTerminal(record.status));
}

/** Writes a record and what is derived from it. */
function writeTask(
  database: Database,
  sessions: OpenSessions,
  task: EncodedTask,
  touch: Touch,
): void {
  const { record } = task;
  const { isNew, hasDescendants } = putTask(database, task);
  sessions.assign(record);
  if (isNew && hasPostsFor(database, record, hasDescendants)) {
    sessions.save();
    reassignPosts(database, record);
  }
  touch("task", record.taskId);
  touch("session", record.sessionId);
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
  const sessions = openSessions(database, now);
  writeTask(database, sessions, task, touch);
  sessions.save();
  touch("inbox", sessionId);
  return JSON.parse(text);
}

/** Deletes a conversation with all its descendants, damaged rows too; returns false when it does not exist. */
export function deleteSession(
  database: Database,
  leases: SqliteLeases,
  sessionId: string,
  now: number,
  touch: Touch,
): boolean {
  const conversation = conversationOf(database, { sessionId });
  if (conversation !== sessionId) {
    throw conflict(`Session ${sessionId} is part of conversation ${conversation}.`);
  }
  const [owner] = onlyIntact([sessionId], leases.owner);
  if (owner) throw conflict(`Session ${sessionId} has a live owner.`);
  voidLeases(database, sessionId, now);

  const tasks = database.all<{ task_id: string; session_id: string }>(
    `SELECT task_id, session_id FROM tasks
     WHERE session_id = ? OR root_task_id IN (SELECT task_id FROM tasks WHERE session_id = ?)`,
    sessionId,
    sessionId,
  );
  for (const { task_id } of tasks) {
    database.run("DELETE FROM tasks WHERE task_id = ?", task_id);
    database.run("DELETE FROM posts WHERE root_task_id = ?", task_id);
    // "0" follows "/" in the order of paths.
    database.run(
      "DELETE FROM files WHERE path >= 'blobs/' || ? || '/' AND path < 'blobs/' || ? || '0'",
      task_id,
      task_id,
    );
    touch("task", task_id);
  }
  const sessions = new Set([sessionId, ...tasks.map((task) => task.session_id)]);
  let found = false;
  for (const id of sessions) {
    found = deleteTranscript(database, id) || found;
    database.run("DELETE FROM posts WHERE session_id = ?", id);
    forgetDue(database, id);
    touch("session", id);
  }
  for (const log of deleteLogs(database, sessionId)) touch("log", log);
  return found;
}

function deleteTranscript(database: Database, sessionId: string): boolean {
  const session = database.get<{ number: number }>(
    "DELETE FROM sessions WHERE session_id = ? RETURNING number",
    sessionId,
  );
  if (session === undefined) return false;
  deleteMessages(database, session.number);
  return true;
}
