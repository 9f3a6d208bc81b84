import { type Clock, systemClock } from "../base/clock.ts";
import { type Fields, readOptions, wallClock } from "../base/options.ts";
import type { Awaitable } from "../base/time.ts";
import type { Commit, FlushMs, LogSnapshot, Post, Store, TaskRecord } from "../contract/index.ts";
import { isTerminal, type TaskEvent } from "../protocol/index.ts";
import { amount, flushMsField, withCheckedArguments } from "./arguments.ts";
import { claimLeases, waitingConversations } from "./claims.ts";
import {
  appendEvents,
  countWithin,
  createEventLog,
  type EventLog,
  readEvents,
  snapshotIn,
  trimEvents,
} from "./event-log.ts";
import { DueApprovals } from "./memory-due.ts";
import { memoryFiles } from "./memory-files.ts";
import { memoryInbox, type StoredPost } from "./memory-inbox.ts";
import { memoryLeases } from "./memory-leases.ts";
import { memoryNodes } from "./memory-nodes.ts";
import {
  appended,
  isOfSameSession,
  listSessions,
  type MemorySession,
  searchMessages,
} from "./memory-sessions.ts";
import { memoryTasks } from "./memory-tasks.ts";
import { createTurns } from "./memory-turns.ts";
import { createPacker } from "./packed-snapshots.ts";
import { createTrimmer, type LogRetention, type Retention, retentionField } from "./retention.ts";
import { approvalChanges, visibleFrom } from "./session-facts.ts";
import { conflict, cursorExpired, fenced, storeClosed } from "./store-error.ts";
import {
  assertCanBegin,
  assertIdle,
  assertQueuedRoot,
  assertSameUser,
  isProgress,
  targetOf,
  unfinishedStatuses,
} from "./task-queue.ts";
import { snapshotOfEvents, trimLog } from "./trim-log.ts";
import { createWatchers } from "./watchers.ts";

/** The snapshots of larger logs are not packed, because that would take too long. */
const maxPackedBytes = 64 * 1024;
const none: readonly never[] = [];

/** The options of a memory store. */
export interface MemoryStoreOptions {
  /** The clock for leases and dates; defaults to the system clock. */
  readonly clock?: Pick<Clock, "now">;
  /** How large the events of one log may become before its writer trims it; defaults to 64 MiB. */
  readonly maxLogBytes?: number;
  /** How long ended logs keep their events; defaults to one hour and at most 256 KiB. */
  readonly retention?: Retention;
  /** How long events wait to be written together; without it they are written in the next turn, and none are merged. */
  readonly flushMs?: FlushMs;
}

const fields: Fields<MemoryStoreOptions> = {
  flushMs: flushMsField,
  clock: wallClock,
  maxLogBytes: amount,
  retention: retentionField,
};
/** Little, because events that are kept for long leave the young generation, and V8 then lets the heap grow. */
const keptLogs: Required<LogRetention> = { maxAgeMs: 60 * 60_000, maxBytes: 256 * 1024 };

/**
 * A store in the memory of its process. It keeps most objects that it is given and returns them, so callers must not
 * change either: it numbers events in place and copies only deltas, arrays and the bytes of files.
 */
export function memoryStore(given: MemoryStoreOptions = {}): Store {
  const options = readOptions("memoryStore()", given, fields);
  const clock = options.clock ?? systemClock;
  const leases = memoryLeases(clock);
  const logs = new Map<string, EventLog>();
  const sessions = new Map<string, MemorySession>();
  const due = new DueApprovals();
  const tasks = memoryTasks(due);
  const states = { get: tasks.get, unfinished: unfinishedIn };
  const inbox = memoryInbox(conversationOf);
  const watchers = createWatchers();
  /** The logs of ended trees that have events, in the order of their ends. */
  const ended = new Map<
    string,
    { readonly log: string; readonly endedAt: number; readonly bytes: number }
  >();
  let endedBytes = 0;
  const pack = createPacker();
  const trimmer = createTrimmer(
    {
      inOrder: () => ended.values(),
      bytes: () => endedBytes,
      now: () => clock.now(),
      isRead: (log) => watchers.has("log", log),
      trim: trimEnded,
    },
    { ...keptLogs, ...options.retention?.logs },
    0,
  );
  let closed = false;
  const turn = createTurns();
  const files = memoryFiles(clock);

  /** The root session of a task or a post: the session that the lease is on. */
  function conversationOf(row: { rootTaskId?: string; sessionId: string }): string {
    const rootTaskId = row.rootTaskId ?? sessions.get(row.sessionId)?.task?.rootTaskId;
    const root = rootTaskId === undefined ? undefined : tasks.get(rootTaskId);
    return root?.sessionId ?? row.sessionId;
  }

  /** Throws unless the whole commit can be written; changes nothing. */
  function assertWritable(commit: Commit): void {
    if (leases.losses(commit.lease) === undefined) throw fenced(commit.lease.sessionId);
    assertRecords(commit);
    assertCanBegin(commit, states);
    const writer = logs.get(commit.log)?.sessionId;
    if (commit.events?.length && writer !== undefined && writer !== commit.lease.sessionId) {
      throw conflict(`Log ${commit.log} belongs to conversation ${writer}.`);
    }
    assertAppends(commit);
    assertTaken(commit);
  }

  function assertRecords({ tasks: records = none, begins }: Commit): void {
    const changed = records.length > 1 ? new Map<string, TaskRecord>() : undefined;
    for (const record of records) {
      if (record.taskId === begins) {
        assertSameUser(record, sessions.get(record.sessionId)?.task);
      }
      const old = changed?.get(record.taskId) ?? tasks.get(record.taskId);
      if (old && isTerminal(old.status) && old.status !== record.status) {
        throw conflict(`Task ${record.taskId} has ended as ${old.status}.`);
      }
      changed?.set(record.taskId, record);
    }
  }

  function assertAppends({ appends = none }: Commit): void {
    const lengths = appends.length > 1 ? new Map<string, number>() : undefined;
    for (const { sessionId, at, messages } of appends) {
      const length = lengths?.get(sessionId) ?? sessions.get(sessionId)?.messages.length ?? 0;
      if (at !== length) {
        throw conflict(`Session ${sessionId} has ${length} messages, not ${at}.`);
      }
      lengths?.set(sessionId, length + messages.length);
    }
  }

  function assertTaken({ taken: ids = none, posts = none }: Commit): void {
    const taken = ids.length > 1 ? new Set<string>() : undefined;
    for (const id of ids) {
      const exists = inbox.get(id) !== undefined;
      const isFree = exists ? inbox.untaken(id) : posts.some((post) => post.id === id);
      if (!isFree || taken?.has(id)) {
        const isTaken = exists || taken?.has(id);
        throw conflict(`Post ${id} ${isTaken ? "is already taken" : "does not exist"}.`);
      }
      taken?.add(id);
    }
  }

  /** Writes all of a commit, or throws before it changes anything. */
  function write(commit: Commit): void {
    assertWritable(commit);
    if (commit.events?.length) {
      const known = logs.get(commit.log);
      const log = known ?? createEventLog(commit.lease.sessionId);
      const after = log.length - 1;
      appendEvents(log, commit.events);
      if (known === undefined) logs.set(commit.log, log);
      watchers.touch("log", commit.log, { after, events: commit.events });
    }
    let hasEnd = false;
    if (leases.losses(commit.lease) !== 0 && commit.tasks?.some(isProgressOfTask)) {
      leases.clearLosses(commit.lease.sessionId);
    }
    for (const record of commit.tasks ?? none) {
      putTask(record);
      if (!isTerminal(record.status)) continue;
      hasEnd = true;
      due.forget(record.sessionId);
    }
    for (const { sessionId, at, messages } of commit.appends ?? none) {
      const session = touchedSession(sessionId);
      session.visibleFrom = visibleFrom(messages, at) ?? session.visibleFrom;
      session.messages = appended(session.messages, messages);
      due.change(sessionId, approvalChanges(messages));
    }
    for (const post of commit.posts ?? none) putPost(post);
    for (const id of commit.taken ?? none) takePost(id);
    if (hasEnd) noteEnd(commit.log);
  }

  function isProgressOfTask(record: TaskRecord): boolean {
    return isProgress(tasks.get(record.taskId), record);
  }

  function touchedSession(id: string): MemorySession {
    const now = clock.now();
    let session = sessions.get(id);
    if (session) session.updatedAt = now;
    else {
      session = { messages: [], createdAt: now, updatedAt: now, task: undefined };
      sessions.set(id, session);
    }
    watchers.touch("session", id);
    return session;
  }

  function putTask(record: TaskRecord): void {
    const { taskId, rootTaskId, sessionId } = record;
    const isNew = tasks.put(record);
    const session = touchedSession(sessionId);
    const { task: first = record } = session;
    // Keeps one record instead of two, unless the first one tells something else of the session.
    if (first.taskId === taskId && isOfSameSession(first, record)) session.task = record;
    if (isNew) {
      inbox.reassign(record, () => (taskId === rootTaskId ? tasks.list({ rootTaskId }) : []));
    }
    watchers.touch("task", taskId);
  }

  /** Wakes the watchers of the session, the conversation and the root task; of their inboxes only for a new row. */
  function touchPost({ post, conversation }: StoredPost, isNew: boolean): void {
    for (const id of [post.sessionId, conversation]) {
      watchers.touch("session", id);
      if (isNew) watchers.touch("inbox", id);
    }
    if (post.rootTaskId !== undefined) watchers.touch("task", post.rootTaskId);
  }

  function putPost(post: Post): Post {
    const first = inbox.get(post.id);
    if (first) return first;
    touchPost(inbox.add(post), true);
    return post;
  }

  function takePost(id: string): void {
    const row = inbox.untaken(id) as StoredPost;
    inbox.take(id);
    touchPost(row, false);
  }

  /** Whether a scheduler would act on a row; an answer or cancel of an ended task must be taken and dropped. */
  function isWork({ post, conversation }: StoredPost): boolean {
    const { kind, sessionId, rootTaskId } = post;
    if (kind === "hint") return false;
    if (kind === "input") {
      const isTargeted = post.taskId !== undefined || sessionId !== conversation;
      return !isTargeted && unfinishedIn(sessionId).length === 0;
    }
    const taskId = targetOf(post);
    if (taskId !== undefined) return tasks.get(taskId) !== undefined;
    const query = rootTaskId === undefined ? { sessionId } : { rootTaskId };
    return tasks.list({ ...query, limit: 1 }).length > 0;
  }

  function unfinishedIn(sessionId: string): TaskRecord[] {
    return tasks.list({ sessionId, status: unfinishedStatuses });
  }

  /** Lets the trimmer have the log of a tree that has ended. */
  function noteEnd(log: string): void {
    const { bytes } = logs.get(log) ?? {};
    const root = tasks.get(log);
    if (bytes === undefined || root === undefined || !isTerminal(root.status)) return;
    if (ended.has(log) || tasks.list({ rootTaskId: log, status: unfinishedStatuses }).length > 0) {
      return;
    }
    ended.set(log, { log, endedAt: clock.now(), bytes });
    endedBytes += bytes;
    trimmer.wake();
  }

  function forgetEnd(log: string): void {
    endedBytes -= ended.get(log)?.bytes ?? 0;
    ended.delete(log);
  }

  function lastOf(log: string): number {
    return (logs.get(log)?.length ?? 0) - 1;
  }

  async function read(
    log: string,
    after: number,
    limit: number,
    maxBytes?: number,
  ): Promise<readonly TaskEvent[]> {
    const found = logs.get(log);
    if (found === undefined) return [];
    const { trimmedThrough } = found;
    if (Math.max(after, -1) < trimmedThrough) throw cursorExpired(log, trimmedThrough);
    if (maxBytes === undefined) return readEvents(found, after, limit);
    return readEvents(found, after, Math.min(limit, countWithin(found, after, maxBytes)));
  }

  async function snapshot(log: string): Promise<LogSnapshot | undefined> {
    const found = logs.get(log);
    return found && snapshotIn(found);
  }

  /** Keeps the newer snapshot when the log is trimmed further already. */
  function applyTrim(log: string, snapshot: LogSnapshot): void {
    const last = lastOf(log);
    const found = logs.get(log);
    if (found === undefined || snapshot.through > last) {
      throw conflict(`Log ${log} ends at ${last}, before ${snapshot.through}.`);
    }
    const { through, tasks } = snapshot;
    const isPacked = ended.has(log) && through === last && found.bytes <= maxPackedBytes;
    if (through > found.trimmedThrough) trimEvents(found, through, isPacked ? pack(tasks) : tasks);
    if (through === last) {
      forgetEnd(log);
      if (!mayBeListed(found.sessionId)) leases.forget(found.sessionId);
    }
    watchers.touch("log", log);
  }

  /** Whether `expired` may list a conversation: its place in that list is the end of its lease. */
  function mayBeListed(conversation: string): boolean {
    const unfinished = { conversation, status: unfinishedStatuses, limit: 1 };
    return tasks.list(unfinished).length > 0 || inbox.match({ conversation }).length > 0;
  }

  /** A short log at once: in the background, a busy writer would end logs faster than they are trimmed. */
  function trimEnded(log: string): Awaitable<void> {
    const found = logs.get(log) as EventLog;
    if (found.trimmedThrough >= 0 || found.bytes > maxPackedBytes) {
      return trimLog({ read, snapshot, trim: trimUnread }, log, lastOf(log));
    }
    applyTrim(log, snapshotOfEvents(readEvents(found, -1, found.length)));
  }

  async function trimUnread(log: string, snapshot: LogSnapshot): Promise<void> {
    if (!watchers.has("log", log)) applyTrim(log, snapshot);
  }

  /** Deletes a conversation with its leases, so that a former owner cannot write it again. */
  function deleteConversation(sessionId: string): boolean {
    leases.delete(sessionId);
    const deleted = new Map<string, TaskRecord>();
    for (const task of tasks.list({ sessionId })) {
      deleted.set(task.taskId, task);
      for (const child of tasks.list({ rootTaskId: task.taskId })) {
        deleted.set(child.taskId, child);
      }
    }
    for (const id of deleted.keys()) {
      tasks.delete(id);
      watchers.touch("task", id);
    }
    const ids = new Set([sessionId, ...[...deleted.values()].map((task) => task.sessionId)]);
    let found = false;
    for (const id of ids) {
      found = sessions.delete(id) || found;
      due.forget(id);
      watchers.touch("session", id);
    }
    inbox.forget(ids, deleted);
    for (const [log, { sessionId: writer }] of logs) {
      if (writer !== sessionId) continue;
      logs.delete(log);
      forgetEnd(log);
      watchers.touch("log", log);
    }
    return found;
  }

  const waiting = () =>
    waitingConversations(leases, tasks.movableConversations(), inbox.match({}).filter(isWork));
  const withRoots = (conversations: readonly string[]) =>
    conversations.map((sessionId) => {
      const isRoot = ({ taskId, rootTaskId }: TaskRecord) => taskId === rootTaskId;
      return { sessionId, root: tasks.list({ sessionId }).findLast(isRoot) };
    });
  const store: Store = {
    acquire: async (sessionId, owner, ttlMs, maxLosses = Number.POSITIVE_INFINITY) =>
      leases.acquire(sessionId, owner, ttlMs, maxLosses),
    renew: async (held, ttlMs) => leases.renew(held, ttlMs),

    async release(lease) {
      if (!leases.release(lease)) return;
      watchers.touch("session", lease.sessionId);
      watchers.touch("inbox", lease.sessionId);
    },

    owner: async (sessionId) => leases.owner(sessionId),

    expired: async (limit) => waiting().slice(0, limit),
    claim: async (owner, ttlMs, limit, claim) => {
      const request = { owner, ttlMs, limit, claim };
      return claimLeases(leases, withRoots(waiting()), withRoots(leases.live()), request);
    },
    ...memoryNodes(clock),

    /** An expired lease may write until another owner acquires the conversation. */
    async commit(commit, following = none) {
      write(commit);
      let written = 1;
      try {
        for (const next of following) {
          write(next);
          written += 1;
        }
      } catch {
        // The caller passes the refused commit again, as the first.
      }
      const turned = turn(written);
      if (turned) await turned;
      return written;
    },

    async enqueue(record, { ifIdle = false } = {}) {
      assertQueuedRoot(record);
      const { taskId, sessionId } = record;
      const stored = tasks.get(taskId);
      assertSameUser(record, stored ?? sessions.get(sessionId)?.task);
      if (stored) return stored;
      if (ifIdle) assertIdle(sessionId, unfinishedIn(sessionId));
      putTask(record);
      watchers.touch("inbox", sessionId);
      return record;
    },

    post: async (rows) => rows.map(putPost),
    posts: async (query) => inbox.match(query).map(({ post }) => post),

    read,
    trim: async (log, snapshot) => applyTrim(log, snapshot),
    snapshot,
    last: async (log) => lastOf(log),

    async session(id, from = 0, limit = Number.POSITIVE_INFINITY) {
      const start = Math.max(0, from);
      return sessions.get(id)?.messages.slice(start, start + Math.max(0, limit)) ?? [];
    },

    sessions: async (query) => listSessions(sessions, query),
    search: async (query) => searchMessages(sessions, query),

    async deleteSession(id) {
      const conversation = conversationOf({ sessionId: id });
      if (conversation !== id) {
        throw conflict(`Session ${id} is part of conversation ${conversation}.`);
      }
      if (leases.isHidden(id)) throw conflict(`Session ${id} has a live owner.`);
      const taskIds = tasks.list({ conversation: id }).map(({ taskId }) => taskId);
      const isDeleted = deleteConversation(id);
      for (const taskId of taskIds) {
        for (const { path } of await files.list(`blobs/${taskId}/`)) await files.delete(path);
      }
      return isDeleted;
    },

    task: async (id) => tasks.get(id),
    tasks: async (query) => tasks.list(query),
    watch(key, wake) {
      const stop = watchers.watch(key, wake);
      return () => {
        stop();
        if ("log" in key && ended.has(key.log)) trimmer.wake();
      };
    },
    files,
    ...(options.flushMs !== undefined && { flushMs: options.flushMs }),

    memory: {
      maxLogBytes: options.maxLogBytes ?? 64 * 1024 * 1024,
      logBytes: (log) => logs.get(log)?.bytes ?? 0,
    },

    /** Wakes every watcher, so that a waiting reader gets `store_closed`. */
    async close() {
      closed = true;
      watchers.close();
      await trimmer.stop();
    },
  };
  return withCheckedArguments(store, () => {
    if (closed) throw storeClosed();
  });
}
