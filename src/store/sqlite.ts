import { type Clock, systemClock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import {
  type Fields,
  readArgument,
  readOptions,
  required,
  text,
  wallClock,
} from "../base/options.ts";
import type { CommittedEvents, FlushMs, LogSnapshot, Store } from "../contract/index.ts";
import { flushMsField, withCheckedArguments } from "./arguments.ts";
import { numberEvents } from "./event-log.ts";
import { leaseClock } from "./lease-clock.ts";
import { createTrimmer, type LogRetention, type Retention, retentionField } from "./retention.ts";
import {
  deleteSession,
  encodeCommit,
  enqueueTask,
  hasEnded,
  writeCommit,
} from "./sqlite/commit.ts";
import { repairIndexes } from "./sqlite/damage.ts";
import { type Database, inTransaction, openDatabase } from "./sqlite/database.ts";
import { cannotOpen, isBusy, lockMs, storeFailed, whenUnlocked } from "./sqlite/failure.ts";
import { deleteFile, listFiles, readFile, writeFile } from "./sqlite/files.ts";
import { foreignChanges, recordChanges } from "./sqlite/foreign-changes.ts";
import { listPosts, putPost } from "./sqlite/inbox.ts";
import { KeptMessages } from "./sqlite/kept-messages.ts";
import { sqliteLeases } from "./sqlite/leases.ts";
import {
  deleteTrimmed,
  endedBytes,
  endedLogs,
  lastOf,
  readEvents,
  snapshotOfLog,
  trimEvents,
} from "./sqlite/logs.ts";
import { listNodes, noteNode } from "./sqlite/nodes.ts";
import { migrate, needsMigration } from "./sqlite/schema.ts";
import { createIndexer, hasUnindexed, indexNext } from "./sqlite/search-index.ts";
import { searchMessages } from "./sqlite/search-messages.ts";
import { listSessions, readSession } from "./sqlite/sessions.ts";
import { listTasks, readTask } from "./sqlite/tasks.ts";
import { createWriteQueue, type Touch } from "./sqlite/write-queue.ts";
import { storeClosed, upToError } from "./store-error.ts";
import { assertQueuedRoot } from "./task-queue.ts";
import { trimLog } from "./trim-log.ts";
import { createWatchers } from "./watchers.ts";

/** The options of a SQLite store. */
export interface SqliteStoreOptions {
  /** The clock for leases and dates; defaults to the system clock. */
  readonly clock?: Pick<Clock, "now">;
  /** How long ended logs keep their events; defaults to seven days and at most 1 GiB. */
  readonly retention?: Retention;
  /** How long events wait to be written together; without it 20 ms, and none are merged. */
  readonly flushMs?: FlushMs;
}

const fields: Fields<SqliteStoreOptions> = {
  clock: wallClock,
  retention: retentionField,
  flushMs: flushMsField,
};
const keptLogs: Required<LogRetention> = {
  maxAgeMs: 7 * 24 * 60 * 60_000,
  maxBytes: 1024 * 1024 * 1024,
};
/** The time from the end of a log to the look for logs to trim. */
const trimDelayMs = 1_000;

/** Opening checks a file of up to 4 MiB, within milliseconds; a larger one is checked when a read finds damage. */
const maxCheckedPages = 1024;
/** How long opening waits while another process creates or recovers the database. */
const openLockMs = 10_000;
const switchRetryMs = 5;

/**
 * A store in one file, which any number of processes on one machine may share. A write is on disk before its promise
 * resolves and before any watcher wakes, so it survives a crash and a power failure.
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): Store {
  readArgument("path", path, required(text, '"data/rivulet.db"'));
  const { clock = systemClock, retention, flushMs } = readOptions("sqliteStore()", options, fields);
  const database = open(path);
  const watchers = createWatchers();
  const kept = new KeptMessages();
  const leases = sqliteLeases(database, leaseClock(clock));
  const foreign = foreignChanges(database, watchers);
  const queue = createWriteQueue(database, {
    touch: (kind, id, committed) => {
      if (watchers.has(kind, id)) watchers.touch(kind, id, committed && numbered(committed));
    },
    recordChanges: (changes) => recordChanges(database, changes),
  });
  const trimmer = createTrimmer(
    {
      inOrder: () => endedLogs(database),
      bytes: () => endedBytes(database),
      now: () => clock.now(),
      isRead: (log) => watchers.has("log", log),
      async trim(log) {
        const trimUnread: Store["trim"] = async (log, snapshot) => {
          if (!watchers.has("log", log)) await trim(log, snapshot);
        };
        await trimLog({ read: readLog, snapshot, trim: trimUnread }, log, await last(log));
      },
    },
    { ...keptLogs, ...retention?.logs },
    trimDelayMs,
  );
  trimmer.wake();
  const indexer = createIndexer(indexMore);
  indexer.wake();
  let watching = 0;
  let isRepaired = false;
  let closing: Promise<void> | undefined;

  function read<Result>(query: () => Result): Promise<Result> {
    return whenUnlocked(() => {
      assertOpen();
      try {
        return query();
      } catch (error) {
        if (!isCorrupt(storeFailed(error))) throw error;
        // Another process may have changed a row between two statements.
        repair();
        return inTransaction(database, "BEGIN", query);
      }
    });
  }

  async function write<Result>(work: (touch: Touch) => Result): Promise<Result> {
    assertOpen();
    const [result] = await queue.writeInOrder([work]);
    return result as Result;
  }

  /** Once, because it reads the whole database. */
  function repair(): void {
    if (!isRepaired) attemptRepair(database);
    isRepaired = true;
  }

  function assertOpen(): void {
    if (closing) throw storeClosed();
  }

  const readLog: Store["read"] = (log, after, limit, maxBytes) =>
    read(() => readEvents(database, log, { after, limit, maxBytes }));
  const last: Store["last"] = (log) => read(() => lastOf(database, log));
  const snapshot: Store["snapshot"] = (log) => read(() => snapshotOfLog(database, log));

  /** Deletes in steps, so that no transaction is long; after a crash the trimmer continues. */
  async function trim(log: string, { through, tasks }: LogSnapshot): Promise<void> {
    const snapshots = JSON.stringify(tasks);
    let hasMore = await write((touch) => {
      trimEvents(database, log, { through, snapshots });
      touch("log", log);
      return deleteTrimmed(database, log);
    });
    while (hasMore) hasMore = await write(() => deleteTrimmed(database, log));
  }

  /** Indexes more messages, if there are any; resolves to whether there may be more. */
  async function indexMore(): Promise<boolean> {
    if (!(await read(() => hasUnindexed(database)))) return false;
    return write(() => indexNext(database));
  }

  async function close(): Promise<void> {
    foreign.stop();
    indexer.stop();
    await trimmer.stop();
    await queue.drain();
    database.close();
    watchers.close();
  }

  const store: Store = {
    acquire: (sessionId, owner, ttlMs, maxLosses = Number.POSITIVE_INFINITY) =>
      write(() => leases.acquire({ sessionId, owner, ttlMs, maxLosses }, clock.now())),
    renew: (held, ttlMs) => {
      const renewed = [...held];
      return write(() => leases.renew(renewed, ttlMs, clock.now()));
    },
    release: (lease) =>
      write((touch) => {
        if (!leases.release(lease)) return;
        touch("session", lease.sessionId);
        touch("inbox", lease.sessionId);
      }),
    releaseNow(lease, isLost) {
      const { sessionId } = lease;
      inTransaction(database, "BEGIN IMMEDIATE", () => {
        if (!leases.release(lease, isLost)) return;
        recordChanges(database, [
          ["session", sessionId],
          ["inbox", sessionId],
        ]);
      });
    },
    owner: (sessionId) => read(() => leases.owner(sessionId)),
    expired: (limit) => read(() => leases.expired(atMost(limit))),
    heartbeat: (node, ttlMs) => {
      const noted = structuredClone(node);
      return write(() => noteNode(database, noted, ttlMs, clock.now()));
    },
    nodes: () => read(() => listNodes(database, clock.now())),
    async commit(commit, following = []) {
      const encoded = upToError([commit, ...following], encodeCommit);
      if (encoded.some(hasEnded)) trimmer.wake();
      if (encoded.some(({ appends }) => appends.length > 0)) indexer.wake();
      const works = encoded.map(
        (one) => (touch: Touch) => writeCommit(database, one, clock.now(), touch),
      );
      const written = (await queue.writeInOrder(works)).length;
      for (const { appends } of encoded.slice(0, written)) appends.forEach(kept.extend, kept);
      return written;
    },
    async enqueue(record, { ifIdle = false } = {}) {
      assertQueuedRoot(record);
      const request = { task: { record, text: JSON.stringify(record) }, ifIdle };
      return write((touch) => enqueueTask(database, request, clock.now(), touch));
    },
    async post(rows) {
      const encoded = rows.map((post) => ({ post, text: JSON.stringify(post) }));
      return write((touch) => encoded.map((row) => putPost(database, row, touch)));
    },
    posts: (query) => read(() => listPosts(database, query)),
    read: readLog,
    last,
    snapshot,
    trim,
    session: (id, from = 0, limit) =>
      read(() => readSession(database, kept, id, from, atMost(limit))),
    sessions: (query) =>
      read(() => listSessions(database, { ...query, limit: atMost(query.limit) })),
    async search(query) {
      while (await indexMore());
      return read(() => searchMessages(database, query));
    },
    deleteSession: (id) =>
      write((touch) =>
        deleteSession(database, leases, id, clock.now(), (kind, key) => {
          if (kind === "session") kept.delete(key);
          touch(kind, key);
        }),
      ),
    task: (id) => read(() => readTask(database, id)),
    tasks: (query) => read(() => listTasks(database, query, atMost(query.limit))),
    watch(key, wake) {
      const stop = watchers.watch(key, wake);
      foreign.start();
      watching += 1;
      let stopped = false;
      return () => {
        stop();
        if (stopped) return;
        stopped = true;
        if ("log" in key) trimmer.wake();
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
    ...(flushMs !== undefined && { flushMs }),
    /** Finishes pending writes, then wakes every watcher, so that a waiting reader gets `store_closed`. */
    close() {
      closing ??= close();
      return closing;
    },
  };
  return withCheckedArguments(store, assertOpen);
}

/**
 * `synchronous` makes commits survive a power failure; `temp_store` keeps savepoints in memory; `journal_size_limit`
 * shrinks a write-ahead log that was large once. A checkpoint every 4,000 pages instead of 1,000 copies a page that many
 * steps change less often: under load, checkpoints were half of the CPU of commits.
 */
const settings = `
  PRAGMA synchronous = FULL;
  PRAGMA temp_store = MEMORY;
  PRAGMA cell_size_check = ON;
  PRAGMA wal_autocheckpoint = 4000;
  PRAGMA journal_size_limit = ${64 * 1024 * 1024};
`;

/** Committed events to hand over; undefined if they are frozen, so that watchers read them. */
function numbered(committed: CommittedEvents): CommittedEvents | undefined {
  if (committed.events.some(Object.isFrozen)) return undefined;
  numberEvents(committed.events, committed.after);
  return committed;
}

function isCorrupt(error: unknown): boolean {
  return error instanceof RivuletError && error.code === "store_corrupt";
}

/** Checks that the file is a store before it changes it. */
function open(path: string): Database {
  if (path === "" || path === ":memory:") throw noWriteAheadLog(path);
  try {
    const database = openDatabase(path, openLockMs);
    try {
      const isOld = needsMigration(database);
      if (journalMode(database) !== "wal") throw noWriteAheadLog(path);
      database.script(settings);
      if (isOld) migrate(database);
      const pages = database.get<{ page_count: number }>("PRAGMA page_count")?.page_count ?? 0;
      if (pages <= maxCheckedPages) attemptRepair(database);
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

/** Switches to a write-ahead log. SQLite does not wait for other processes that switch the same new file. */
function journalMode(database: Database): string | undefined {
  const start = performance.now();
  for (;;) {
    try {
      return database.get<{ journal_mode: string }>("PRAGMA journal_mode = WAL")?.journal_mode;
    } catch (error) {
      if (!isBusy(error) || performance.now() - start >= openLockMs) throw error;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, switchRetryMs);
  }
}

/** Leaves the repair to a later process while another one holds the lock. */
function attemptRepair(database: Database): void {
  try {
    repairIndexes(database);
  } catch (error) {
    if (!isBusy(error)) throw error;
  }
}

function noWriteAheadLog(path: string): RivuletError {
  return new RivuletError("store_failed", `SQLite cannot keep a write-ahead log at "${path}".`, {
    hint: "Pass a file on a local disk, or use memoryStore() for a store in memory.",
  });
}

/** Converts a limit for SQLite, which uses -1 for none. */
function atMost(limit = Number.POSITIVE_INFINITY): number {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : -1;
}
