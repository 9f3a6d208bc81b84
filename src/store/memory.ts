import type { Clock } from "../protocol/clock.ts";
import { systemClock } from "../protocol/clock.ts";
import type { Message } from "../protocol/message.ts";
import type {
  Commit,
  Lease,
  Post,
  SessionInfo,
  SessionQuery,
  Store,
  TaskRecord,
} from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";
import { appendEvents, createEventLog, type EventLog, readEvents } from "./event-log.ts";
import { memoryFiles } from "./memory-files.ts";
import { createRows } from "./rows.ts";
import { sessionTitle } from "./session-title.ts";
import { conflict, fenced, invalidCursor, storeClosed } from "./store-error.ts";
import { createWatchers } from "./watchers.ts";

/** How a memory store is set up. */
export interface MemoryStoreOptions {
  /** What leases and dates go by; the machine's time unless a test holds it. */
  readonly clock?: Pick<Clock, "now">;
}

/** Who may write a conversation. The entry outlives its leases, so that fences never repeat. */
interface Ownership {
  fence: number;
  held: boolean;
  /** When the last lease ends, or ended. */
  until: number;
}

interface Session {
  readonly messages: Message[];
  readonly createdAt: number;
  updatedAt: number;
  /** The first task on this session: whose it is, and whether it is a child's. */
  task?: TaskRecord;
}

/**
 * A store that lives and dies with its process. What it is given belongs to it from then on and
 * what it hands out is shared, so neither may be changed afterwards: events are numbered in place,
 * and of the rest only lists and the bytes of files are copied.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  const clock = options.clock ?? systemClock;
  const ownerships = new Map<string, Ownership>();
  const logs = new Map<string, EventLog>();
  const sessions = new Map<string, Session>();
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

  /** The ownership that this lease stands for, as long as nobody else has acquired it since. */
  function heldBy(lease: Lease): Ownership | undefined {
    const ownership = ownerships.get(lease.sessionId);
    return ownership?.held && ownership.fence === lease.fence ? ownership : undefined;
  }

  /** The root session that a task or a post belongs to: what its owner holds the lease on. */
  function conversationOf(row: { rootTaskId?: string; sessionId: string }): string {
    const rootTaskId = row.rootTaskId ?? sessions.get(row.sessionId)?.task?.rootTaskId;
    const root = rootTaskId === undefined ? undefined : tasks.get(rootTaskId);
    return root?.sessionId ?? row.sessionId;
  }

  /** Throws unless all of the commit can be written; changes nothing. */
  function check(commit: Commit): void {
    if (!heldBy(commit.lease)) throw fenced(commit.lease.sessionId);
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

  function touchedSession(id: string): Session {
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

  /** Wakes whoever waits on the session, on its conversation or on the root task. */
  function touchPost(post: Post): void {
    watchers.touch("session", post.sessionId);
    watchers.touch("session", conversationOf(post));
    if (post.rootTaskId !== undefined) watchers.touch("task", post.rootTaskId);
  }

  function putPost(post: Post): Post {
    const first = posts.get(post.id);
    if (first) return first;
    posts.set(post.id, post);
    inbox.set(post.id, post);
    touchPost(post);
    return post;
  }

  function takePost(id: string): void {
    inbox.delete(id);
    touchPost(posts.get(id) as Post);
  }

  return {
    /** A live lease keeps its own owner out too: two loops of one process must not both write. */
    async acquire(sessionId, owner, ttlMs) {
      assertOpen();
      const now = clock.now();
      const ownership = ownerships.get(sessionId) ?? { fence: 0, held: false, until: 0 };
      if (ownership.held && now < ownership.until) return undefined;
      ownership.fence += 1;
      ownership.held = true;
      ownership.until = now + ttlMs;
      ownerships.set(sessionId, ownership);
      return { sessionId, owner, fence: ownership.fence, expiresAt: ownership.until };
    },

    /** An expired lease that nobody has taken over still holds. */
    async renew(leases, ttlMs) {
      assertOpen();
      const expiresAt = clock.now() + ttlMs;
      const renewed: Lease[] = [];
      for (const lease of leases) {
        const ownership = heldBy(lease);
        if (!ownership) continue;
        ownership.until = expiresAt;
        renewed.push({ ...lease, expiresAt });
      }
      return renewed;
    },

    /** A lease that no longer holds releases nothing. */
    async release(lease) {
      assertOpen();
      const ownership = heldBy(lease);
      if (!ownership) return;
      ownership.held = false;
      ownership.until = Math.min(ownership.until, clock.now());
      watchers.touch("session", lease.sessionId);
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
      const now = clock.now();
      const ownerless: { id: string; since: number }[] = [];
      for (const id of waiting) {
        const ownership = ownerships.get(id);
        if (ownership?.held && now < ownership.until) continue;
        ownerless.push({ id, since: ownership?.until ?? 0 });
      }
      return ownerless
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
      return found ? readEvents(found, after, limit) : [];
    },

    async last(log) {
      assertOpen();
      return (logs.get(log)?.length ?? 0) - 1;
    },

    async session(id, from = 0) {
      assertOpen();
      return sessions.get(id)?.messages.slice(Math.max(0, from)) ?? [];
    },

    async sessions(query) {
      assertOpen();
      return listSessions(sessions, query);
    },

    async task(id) {
      assertOpen();
      return tasks.get(id);
    },

    /** In the order of their first commit. */
    async tasks({ status, limit, ...query }) {
      assertOpen();
      return tasks
        .match(query)
        .filter((record) => status === undefined || status.includes(record.status))
        .slice(0, limit);
    },

    watch(key, wake) {
      assertOpen();
      return watchers.watch(key, wake);
    },

    files: memoryFiles(clock, assertOpen),

    /** Wakes every watcher once: whoever waits rereads and finds the store closed. */
    async close() {
      closed = true;
      watchers.close();
    },
  };
}

/** The latest created first; a child's session is part of its conversation and not listed. */
function listSessions(sessions: ReadonlyMap<string, Session>, query: SessionQuery): SessionInfo[] {
  const listed = [...sessions]
    .filter(([, { task }]) => task?.parentSessionId === undefined)
    .filter(([, { task }]) => query.userId === undefined || task?.userId === query.userId)
    .reverse();
  let start = 0;
  if (query.before !== undefined) {
    start = listed.findIndex(([id]) => id === query.before) + 1;
    if (start === 0) throw invalidCursor(query.before);
  }
  return listed
    .slice(start, start + query.limit)
    .map(([sessionId, { task, messages, createdAt, updatedAt }]) => {
      const title = sessionTitle(messages);
      return {
        sessionId,
        ...(task?.userId !== undefined && { userId: task.userId }),
        ...(task && { agentId: task.agentId }),
        ...(title !== undefined && { title }),
        messages: messages.length,
        createdAt,
        updatedAt,
      };
    });
}
