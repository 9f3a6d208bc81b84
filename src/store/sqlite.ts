import type { Clock } from "../protocol/clock.ts";
import { systemClock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Store } from "../protocol/store.ts";
import { encodeCommit, isOnlyEvents, writeCommit } from "./sqlite/commit.ts";
import { type Database, openDatabase } from "./sqlite/database.ts";
import { deleteSession } from "./sqlite/delete-session.ts";
import { cannotOpen } from "./sqlite/failure.ts";
import { deleteFile, listFiles, readFile, writeFile } from "./sqlite/files.ts";
import { foreignChanges } from "./sqlite/foreign-changes.ts";
import { listPosts, putPost } from "./sqlite/inbox.ts";
import { acquireLease, expiredConversations, releaseLease, renewLeases } from "./sqlite/leases.ts";
import { lockMs, whenUnlocked } from "./sqlite/lock.ts";
import { lastOf, readEvents, snapshotOfLog, trimEvents } from "./sqlite/logs.ts";
import { migrate, needsMigration } from "./sqlite/schema.ts";
import { searchMessages } from "./sqlite/search.ts";
import { listSessions, readSession } from "./sqlite/sessions.ts";
import { listTasks, readTask } from "./sqlite/tasks.ts";
import { createWriteQueue, type Touch } from "./sqlite/write-queue.ts";
import { storeClosed } from "./store-error.ts";
import { createWatchers } from "./watchers.ts";

/** How a SQLite store is set up. */
export interface SqliteStoreOptions {
  /** What leases and dates go by; the machine's time unless a test holds it. */
  readonly clock?: Pick<Clock, "now">;
}

/** How long opening waits for another process that is creating the database or recovering it. */
const openLockMs = 10_000;

/**
 * A store in one file, shared by any number of processes of a machine. What it has confirmed outlives the process and
 * the machine's power: every transaction is on the disk before anyone hears of it.
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): Store {
  const clock = options.clock ?? systemClock;
  const database = open(path);
  const watchers = createWatchers();
  const queue = createWriteQueue(database, watchers.touch);
  const foreign = foreignChanges(database, watchers.touchAll);
  let watching = 0;
  let closing: Promise<void> | undefined;

  function read<Result>(query: () => Result): Promise<Result> {
    return whenUnlocked(() => {
      assertOpen();
      return query();
    });
  }

  async function write<Result>(work: (touch: Touch) => Result): Promise<Result> {
    assertOpen();
    return queue.write(work, "now");
  }

  function assertOpen(): void {
    if (closing) throw storeClosed();
  }

  async function close(): Promise<void> {
    foreign.stop();
    await queue.drain();
    database.close();
    watchers.close();
  }

  return {
    acquire: (sessionId, owner, ttlMs) =>
      write(() => acquireLease(database, { sessionId, owner, ttlMs }, clock.now())),
    renew: (leases, ttlMs) => {
      const asked = [...leases];
      return write(() => renewLeases(database, asked, clock.now() + ttlMs));
    },
    release: (lease) =>
      write((touch) => {
        if (releaseLease(database, lease, clock.now())) touch("session", lease.sessionId);
      }),
    expired: (limit) => read(() => expiredConversations(database, clock.now(), atMost(limit))),
    async commit(commit) {
      assertOpen();
      const encoded = encodeCommit(commit);
      const when = isOnlyEvents(encoded) ? "soon" : "now";
      return queue.write((touch) => writeCommit(database, encoded, clock.now(), touch), when);
    },
    async post(post) {
      const encoded = { post, text: JSON.stringify(post) };
      return write((touch) => putPost(database, encoded, touch));
    },
    posts: (query) => read(() => listPosts(database, query)),
    read: (log, after, limit) => read(() => readEvents(database, log, after, limit)),
    last: (log) => read(() => lastOf(database, log)),
    snapshot: (log) => read(() => snapshotOfLog(database, log)),
    async trim(log, { through, tasks }) {
      const snapshots = JSON.stringify(tasks);
      return write((touch) => {
        trimEvents(database, log, { through, snapshots });
        touch("log", log);
      });
    },
    session: (id, from = 0, limit) => read(() => readSession(database, id, from, atMost(limit))),
    sessions: (query) =>
      read(() => listSessions(database, { ...query, limit: atMost(query.limit) })),
    search: (query) => read(() => searchMessages(database, query)),
    deleteSession: (id) => write((touch) => deleteSession(database, id, clock.now(), touch)),
    task: (id) => read(() => readTask(database, id)),
    tasks: (query) => read(() => listTasks(database, query, atMost(query.limit))),
    /** What other processes write wakes everyone: it is a hint, and which rows it was is not worth asking. */
    watch(key, wake) {
      assertOpen();
      const stop = watchers.watch(key, wake);
      foreign.start();
      watching += 1;
      let stopped = false;
      return () => {
        stop();
        if (stopped) return;
        stopped = true;
        watching -= 1;
        if (watching === 0) foreign.stop();
      };
    },
    files: {
      get: (path) => read(() => readFile(database, path)),
      async put(path, data, { ifVersion } = {}) {
        const file = { path, data: data.slice(), ...(ifVersion !== undefined && { ifVersion }) };
        return write(() => writeFile(database, file, clock.now()));
      },
      delete: (path) => write(() => deleteFile(database, path)),
      list: (prefix, query = {}) => read(() => listFiles(database, prefix, query)),
    },
    /** Writes what was asked for before, then wakes every watcher once, to find the store closed. */
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/**
 * A commit is on the disk when it returns, even if the power fails then; what savepoints keep to be undone needs no
 * file of its own; a write-ahead log that has once grown large does not stay so.
 */
const settings = `
  PRAGMA synchronous = FULL;
  PRAGMA temp_store = MEMORY;
  PRAGMA journal_size_limit = ${64 * 1024 * 1024};
`;

/** Checks whose database it is before it changes anything in it. */
function open(path: string): Database {
  if (path === "" || path === ":memory:") throw noLog(path);
  try {
    const database = openDatabase(path, openLockMs);
    try {
      const isOld = needsMigration(database);
      const mode = database.get<{ journal_mode: string }>("PRAGMA journal_mode = WAL");
      if (mode?.journal_mode !== "wal") throw noLog(path);
      database.script(settings);
      if (isOld) migrate(database);
      database.script(`PRAGMA busy_timeout = ${lockMs}`);
    } catch (error) {
      database.close();
      throw error;
    }
    return database;
  } catch (error) {
    throw cannotOpen(path, error);
  }
}

function noLog(path: string): RivuletError {
  return new RivuletError("store_failed", `A store cannot be kept at "${path}".`, {
    hint: "Choose a file on a local disk; for a store that ends with its process use memoryStore().",
  });
}

/** A limit as SQLite takes it: without one, -1. */
function atMost(limit = Number.POSITIVE_INFINITY): number {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : -1;
}
