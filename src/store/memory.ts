import type { Clock } from "../protocol/clock.ts";
import { systemClock } from "../protocol/clock.ts";
import type { Commit, Post, Store, TaskRecord } from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";
import {
  appendEvents,
  createEventLog,
  type EventLog,
  readEvents,
  trimEvents,
} from "./event-log.ts";
import { memoryFiles } from "./memory-files.ts";
import { memoryLeases } from "./memory-leases.ts";
import { listSessions, type MemorySession, searchMessages } from "./memory-sessions.ts";
import { createRows } from "./rows.ts";
import { conflict, cursorExpired, fenced, storeClosed } from "./store-error.ts";
import { createWatchers } from "./watchers.ts";

/** How a memory store is set up. */
export interface MemoryStoreOptions {
  /** What leases and dates go by; the machine's time unless a test holds it. */
  readonly clock?: Pick<Clock, "now">;
  /** What the events of one log may take before its beginning is let go of; 64 MiB by default. */
  readonly maxLogBytes?: number;
}

/**
 * A store that lives and dies with its process. What it is given belongs to it from then on and
 * what it hands out is shared, so neither may be changed afterwards: events are numbered in place,
 * and of the rest only lists and the bytes of files are copied.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  const clock = options.clock ?? systemClock;
  const leases = memoryLeases(clock);
  const logs = new Map<string, EventLog>();
  const sessions = new Map<string, MemorySession>();
  const tasks = createRows<TaskRecord, "sessionId" | "parentSessionId" | "rootTaskId">([
    "sessionId",
    "parentSessionId",
    "rootTaskId",
  ]);
  const unfinished = new Map<string, TaskRecord>();
  const posts = new Map<string, Post>(); // taken ones too: the first of an id wins for ever
  const inbox = createRows<Post, "sessionId" | "rootTaskId">(["sessionId", "rootTaskId"]);
  const watchers = createWatchers();
  let closed = false;

  function assertOpen(): void {
    if (closed) throw storeClosed();
  }

  /** The root session that a task or a post belongs to: what its owner holds the lease on. */
  function conversationOf(row: { rootTaskId?: string; sessionId: string }): string {
    const rootTaskId = row.rootTaskId ?? sessions.get(row.sessionId)?.task?.rootTaskId;
    const root = rootTaskId === undefined ? undefined : tasks.get(rootTaskId);
    return root?.sessionId ?? row.sessionId;
  }

  /** Throws unless all of the commit can be written; changes nothing. */
  function check(commit: Commit): void {
    if (!leases.holds(commit.lease)) throw fenced(commit.lease.sessionId);
    const writer = logs.get(commit.log)?.sessionId;
    if (commit.events?.length && writer !== undefined && writer !== commit.lease.sessionId) {
      throw conflict(`Log ${commit.log} belongs to conversation ${writer}.`);
    }
    const lengths = new Map<string, number>();
    for (const { sessionId, at, messages } of commit.appends ?? []) {
      const length = lengths.get(sessionId) ?? sessions.get(sessionId)?.messages.length ?? 0;
      if (at !== length) {
        throw conflict(`Session ${sessionId} has ${length} messages, not ${at}.`);
      }
      lengths.set(sessionId, length + messages.length);
    }
    const changed = new Map<string, TaskRecord>();
    for (const record of commit.tasks ?? []) {
      const old = changed.get(record.taskId) ?? tasks.get(record.taskId);
      if (old && isTerminal(old.status) && old.status !== record.status) {
        throw conflict(`Task ${record.taskId} has ended as ${old.status}.`);
      }
      changed.set(record.taskId, record);
    }
    const taken = new Set<string>();
    for (const id of commit.taken ?? []) {
      const known = posts.has(id);
      const there = known ? inbox.get(id) : commit.posts?.some((post) => post.id === id);
      if (!there || taken.has(id)) {
        throw conflict(`Post ${id} ${known || taken.has(id) ? "is already taken" : "is unknown"}.`);
      }
      taken.add(id);
    }
  }

  function touchedSession(id: string): MemorySession {
    const now = clock.now();
    let session = sessions.get(id);
    if (session) session.updatedAt = now;
    else {
      session = { messages: [], createdAt: now, updatedAt: now };
      sessions.set(id, session);
    }
    watchers.touch("session", id);
    return session;
  }

  function putTask(record: TaskRecord): void {
    tasks.set(record.taskId, record);
    if (isTerminal(record.status)) unfinished.delete(record.taskId);
    else unfinished.set(record.taskId, record);
    touchedSession(record.sessionId).task ??= record;
    watchers.touch("task", record.taskId);
  }

  /** Wakes whoever waits on the session, on its conversation or on the root task; a new row, also who waits for posts. */
  function touchPost(post: Post, isNew: boolean): void {
    for (const id of [post.sessionId, conversationOf(post)]) {
      watchers.touch("session", id);
      if (isNew) watchers.touch("inbox", id);
    }
    if (post.rootTaskId !== undefined) watchers.touch("task", post.rootTaskId);
  }

  function putPost(post: Post): Post {
    const first = posts.get(post.id);
    if (first) return first;
    posts.set(post.id, post);
    inbox.set(post.id, post);
    touchPost(post, true);
    return post;
  }

  function takePost(id: string): void {
    inbox.delete(id);
    touchPost(posts.get(id) as Post, false);
  }

  /** Forgets a conversation that nobody owns; whoever has owned it is fenced, so that nothing comes back. */
  function forget(sessionId: string): boolean {
    leases.end(sessionId);
    const forgotten = new Map<string, TaskRecord>();
    for (const task of tasks.match({ sessionId })) {
      forgotten.set(task.taskId, task);
      for (const child of tasks.match({ rootTaskId: task.taskId })) {
        forgotten.set(child.taskId, child);
      }
    }
    for (const id of forgotten.keys()) {
      tasks.delete(id);
      unfinished.delete(id);
      watchers.touch("task", id);
    }
    const ids = new Set([sessionId, ...[...forgotten.values()].map((task) => task.sessionId)]);
    let found = false;
    for (const id of ids) {
      found = sessions.delete(id) || found;
      watchers.touch("session", id);
    }
    for (const post of posts.values()) {
      if (!ids.has(post.sessionId) && !forgotten.has(post.rootTaskId ?? "")) continue;
      posts.delete(post.id);
      inbox.delete(post.id);
    }
    for (const [log, { sessionId: writer }] of logs) {
      if (writer !== sessionId) continue;
      logs.delete(log);
      watchers.touch("log", log);
    }
    return found;
  }

  return {
    async acquire(sessionId, owner, ttlMs) {
      assertOpen();
      return leases.acquire(sessionId, owner, ttlMs);
    },

    async renew(held, ttlMs) {
      assertOpen();
      return leases.renew(held, ttlMs);
    },

    async release(lease) {
      assertOpen();
      if (leases.release(lease)) watchers.touch("session", lease.sessionId);
    },

    /**
     * Work left is a task that is queued or in progress, an input, or an answer or a cancel to a
     * tree that has not ended; a hint is none. The longest without an owner comes first.
     */
    async expired(limit) {
      assertOpen();
      const roots = new Set<string>();
      const conversations = new Set<string>();
      const waiting = new Set<string>();
      for (const record of unfinished.values()) {
        const conversation = conversationOf(record);
        roots.add(record.rootTaskId);
        conversations.add(conversation);
        if (record.status !== "suspended") waiting.add(conversation);
      }
      for (const post of inbox.match({})) {
        const conversation = conversationOf(post);
        const unfinishedTree =
          post.rootTaskId === undefined
            ? conversations.has(conversation)
            : roots.has(post.rootTaskId);
        if (post.kind === "input" || (post.kind !== "hint" && unfinishedTree)) {
          waiting.add(conversation);
        }
      }
      return [...waiting]
        .filter((id) => !leases.isOwned(id))
        .map((id) => ({ id, since: leases.ownedUntil(id) }))
        .sort((a, b) => a.since - b.since || (a.id < b.id ? -1 : 1))
        .slice(0, limit)
        .map(({ id }) => id);
    },

    /** Checks everything, then writes it; an expired lease may write until somebody takes over. */
    async commit(commit) {
      assertOpen();
      check(commit);
      if (commit.events?.length) {
        const log = logs.get(commit.log) ?? createEventLog(commit.lease.sessionId);
        appendEvents(log, commit.events);
        logs.set(commit.log, log);
        watchers.touch("log", commit.log);
      }
      for (const record of commit.tasks ?? []) putTask(record);
      for (const { sessionId, messages } of commit.appends ?? []) {
        const session = touchedSession(sessionId);
        for (const message of messages) session.messages.push(message);
      }
      for (const post of commit.posts ?? []) putPost(post);
      for (const id of commit.taken ?? []) takePost(id);
    },

    /** The first row of an id wins, also after it was taken. */
    async post(post) {
      assertOpen();
      return putPost(post);
    },

    /** In the order they were posted. */
    async posts(query) {
      assertOpen();
      return inbox.match(query);
    },

    async read(log, after, limit) {
      assertOpen();
      const found = logs.get(log);
      const through = found?.snapshot?.through ?? -1;
      if (Math.max(after, -1) < through) throw cursorExpired(log, through);
      return found ? readEvents(found, after, limit) : [];
    },

    /** Who trims less than another has trimmed changes nothing. */
    async trim(log, snapshot) {
      assertOpen();
      const found = logs.get(log);
      const last = (found?.length ?? 0) - 1;
      if (found === undefined || snapshot.through > last) {
        throw conflict(`Log ${log} ends at ${last}, before ${snapshot.through}.`);
      }
      if (snapshot.through > (found.snapshot?.through ?? -1)) trimEvents(found, snapshot);
      watchers.touch("log", log);
    },

    async snapshot(log) {
      assertOpen();
      return logs.get(log)?.snapshot;
    },

    async last(log) {
      assertOpen();
      return (logs.get(log)?.length ?? 0) - 1;
    },

    async session(id, from = 0, limit = Number.POSITIVE_INFINITY) {
      assertOpen();
      const start = Math.max(0, from);
      return sessions.get(id)?.messages.slice(start, start + Math.max(0, limit)) ?? [];
    },

    async sessions(query) {
      assertOpen();
      return listSessions(sessions, query);
    },

    async search(query) {
      assertOpen();
      return searchMessages(sessions, query);
    },

    async deleteSession(id) {
      assertOpen();
      const conversation = conversationOf({ sessionId: id });
      if (conversation !== id) {
        throw conflict(`Session ${id} is part of conversation ${conversation}.`);
      }
      if (leases.isOwned(id)) throw conflict(`Session ${id} has a live owner.`);
      return forget(id);
    },

    async task(id) {
      assertOpen();
      return tasks.get(id);
    },

    /** In the order of their first commit. */
    async tasks({ conversation, status, limit, ...query }) {
      assertOpen();
      const found =
        conversation === undefined
          ? tasks.match(query)
          : tasks
              .match({ sessionId: conversation })
              .flatMap(({ taskId }) => tasks.match({ ...query, rootTaskId: taskId }));
      return found
        .filter((record) => status === undefined || status.includes(record.status))
        .slice(0, limit);
    },

    watch(key, wake) {
      assertOpen();
      return watchers.watch(key, wake);
    },

    files: memoryFiles(clock, assertOpen),

    memory: {
      maxLogBytes: options.maxLogBytes ?? 64 * 1024 * 1024,
      logBytes: (log) => logs.get(log)?.bytes ?? 0,
    },

    /** Wakes every watcher once: whoever waits rereads and finds the store closed. */
    async close() {
      closed = true;
      watchers.close();
    },
  };
}
