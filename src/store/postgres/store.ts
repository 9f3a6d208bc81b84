import type { CommittedEvents, Lease, LogSnapshot, Store } from "../../contract/index.ts";
import { withCheckedArguments } from "../arguments.ts";
import { numberEvents } from "../event-log.ts";
import type { LogRetention } from "../retention.ts";
import { storeClosed, upToError } from "../store-error.ts";
import { assertQueuedRoot } from "../task-queue.ts";
import { createWatchers } from "../watchers.ts";
import { encodeCommit } from "./commit-encoding.ts";
import { PostgresCommitWriter, type Written } from "./commit-writer.ts";
import { converted, Database } from "./database.ts";
import { postgresFiles } from "./files.ts";
import { assertStorable } from "./ids.ts";
import { KnownLogs } from "./known-logs.ts";
import { Lanes } from "./lanes.ts";
import {
  acquireLease,
  claimLeases,
  listExpired,
  liveOwner,
  Renewals,
  releaseLease,
} from "./leases.ts";
import { deleteTrimmed, LogReads, lastOf, snapshotOfLog, trimEvents } from "./logs.ts";
import { listNodes, noteNode } from "./nodes.ts";
import { type PostgresStoreOptions, readSettings } from "./options.ts";
import { enqueueTask, listPosts, listTasks, postRows, readTask } from "./records.ts";
import { PostgresTrimmer } from "./retention.ts";
import { deleteConversation, listSessions, readSession, searchMessages } from "./sessions.ts";
import { Wakes } from "./wakes.ts";

const keptLogs: Required<LogRetention> = {
  maxAgeMs: 7 * 24 * 60 * 60_000,
  maxBytes: Number.POSITIVE_INFINITY,
};

/**
 * A store on PostgreSQL, which any number of processes on any number of machines may share. A write is on disk before its
 * promise resolves and before any watcher wakes. The first call opens the database and creates the tables.
 */
export function postgresStore(options: string | PostgresStoreOptions): Store {
  const settings = readSettings(options);
  const database = new Database(settings);
  const watchers = createWatchers();
  const known = new KnownLogs();
  const wakes = new Wakes(database, watchers, (log) => known.lastOf(log));
  const writer = new PostgresCommitWriter(database, known, onWritten, (count) => {
    if (count !== undefined) wakes.listening = count;
  });
  const lanes = new Lanes(database, writer);
  const reads = new LogReads(database);
  const renewals = new Renewals(database);
  const trimmer = new PostgresTrimmer(
    database,
    {
      read: (...args) => reads.read(...args),
      snapshot: (log) => snapshotOfLog(database, log),
      last: (log) => lastOf(database, log),
      isRead: (log) => watchers.has("log", log),
      trimmed: (log) => wakes.touch("log", log),
    },
    { ...keptLogs, ...settings.retention?.logs },
  );
  const { flushMs } = settings;
  let closing: Promise<void> | undefined;

  function onWritten({ commit, after, touched, isFollowed, revision }: Written): void {
    const { log, events, lease } = commit;
    if (commit.hasEnded) trimmer.wake();
    if (revision !== undefined) wakes.changed(lease.sessionId, revision);
    if (events.length > 0) {
      const isRead = after !== undefined && watchers.has("log", log);
      wakes.appended(log, isRead ? numbered({ after, events }) : undefined, isFollowed);
    }
    for (const [kind, id] of commit.touched) wakes.touch(kind, id);
    wakes.touchAll(touched);
  }

  function assertOpen(): void {
    if (closing) throw storeClosed();
  }

  const readLog: Store["read"] = (log, after, limit, maxBytes) =>
    converted(reads.read(log, after, limit, maxBytes));
  const last: Store["last"] = (log) => converted(lastOf(database, log));
  const snapshot: Store["snapshot"] = (log) => converted(snapshotOfLog(database, log));

  async function trim(log: string, taken: LogSnapshot): Promise<void> {
    const number = await converted(trimEvents(database, log, taken));
    wakes.touch("log", log);
    if (number !== undefined) await converted(deleteTrimmed(database, number));
  }

  async function close(): Promise<void> {
    database.stopWaiting();
    await trimmer.stop();
    await lanes.drain();
    await wakes.close();
    await database.close();
    watchers.close();
  }

  const store: Store = {
    async acquire(sessionId, owner, ttlMs, maxLosses = Number.POSITIVE_INFINITY) {
      const request = { sessionId, owner, ttlMs, maxLosses };
      return lanes.write(sessionId, (connection) => acquireLease(database, connection, request));
    },
    renew: (leases, ttlMs) => converted(renewals.renew([...leases], ttlMs)),
    release: (lease: Lease) =>
      lanes.write(lease.sessionId, async (connection) => {
        const { sessionId } = lease;
        known.forget(sessionId);
        const { isReleased, revision } = await releaseLease(database, connection, lease);
        if (!isReleased) return;
        if (revision !== undefined) wakes.changed(sessionId, revision);
        wakes.touch("session", sessionId);
        wakes.touch("inbox", sessionId);
      }),
    owner: (sessionId) => converted(liveOwner(database, sessionId)),
    expired: (limit) => converted(listExpired(database, limit)),
    claim: (owner, ttlMs, limit, claim) =>
      converted(claimLeases(database, { owner, ttlMs, limit, claim })),
    heartbeat: (node, ttlMs) => converted(noteNode(database, node, ttlMs)),
    nodes: () => converted(listNodes(database)),
    isShared: true,
    async commit(commit, following = []) {
      const { sessionId, fence } = commit.lease;
      const isOther = ({ lease }: typeof commit) =>
        lease.sessionId !== sessionId || lease.fence !== fence;
      const end = following.findIndex(isOther);
      const same = end < 0 ? following : following.slice(0, end);
      return lanes.commit(sessionId, upToError([commit, ...same], encodeCommit));
    },
    async enqueue(record, { ifIdle = false } = {}) {
      assertQueuedRoot(record);
      const { sessionId, taskId } = record;
      return lanes.write(sessionId, async (connection) => {
        const { stored, isNew, revision } = await enqueueTask(database, connection, record, ifIdle);
        if (!isNew) return stored;
        if (revision !== null) wakes.changed(sessionId, revision);
        wakes.touch("task", taskId);
        wakes.touch("session", sessionId);
        wakes.touch("inbox", sessionId);
        return stored;
      });
    },
    async post(rows) {
      const [first] = rows;
      if (first === undefined) return [];
      const copy = structuredClone(rows);
      return lanes.write(first.sessionId, async (connection) => {
        const { stored, touched, revisions } = await postRows(database, connection, copy);
        for (const [conversation, revision] of revisions) wakes.changed(conversation, revision);
        wakes.touchAll(touched);
        return stored;
      });
    },
    posts: (query) => converted(listPosts(database, query)),
    read: readLog,
    last,
    snapshot,
    trim,
    session: (id, from = 0, limit) => converted(readSession(database, id, from, limit)),
    sessions: (query) => converted(listSessions(database, query)),
    search: (query) => converted(searchMessages(database, query)),
    deleteSession: (id) =>
      lanes.write(id, async (connection) => {
        known.forget(id);
        const { existed, touched } = await deleteConversation(database, connection, id);
        wakes.touchAll(touched);
        return existed;
      }),
    task: (id) => converted(readTask(database, id)),
    tasks: (query) => converted(listTasks(database, query)),
    watch(key, wake) {
      assertStorable(...(Object.values(key) as string[]));
      const stop = wakes.watch(key, wake);
      return () => {
        stop();
        if ("log" in key) trimmer.wake();
      };
    },
    files: postgresFiles(database),
    ...(flushMs !== undefined && { flushMs }),
    /** Finishes pending writes, then wakes every watcher, so that a waiting reader gets `store_closed`. */
    close() {
      closing ??= close();
      return closing;
    },
  };
  return withCheckedArguments(store, assertOpen);
}

/** Committed events to hand over; undefined if they are frozen, so that watchers read them. */
function numbered(committed: CommittedEvents): CommittedEvents | undefined {
  if (committed.events.some(Object.isFrozen)) return undefined;
  numberEvents(committed.events, committed.after);
  return committed;
}
