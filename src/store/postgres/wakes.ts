import type { CommittedEvents, WatchKey } from "../../contract/index.ts";
import type { Watchers } from "../watchers.ts";
import type { Database } from "./database.ts";
import { Listener } from "./listener.ts";
import { WatchedKeys, type WatchKind } from "./watched-keys.ts";

/** The first letter of a key in messages between processes. */
const letters: Readonly<Record<WatchKind, string>> = {
  log: "l",
  session: "s",
  task: "t",
  inbox: "i",
};
const kinds = Object.fromEntries(
  Object.entries(letters).map(([kind, letter]) => [letter, kind as WatchKind]),
);

/** PostgreSQL takes messages of less than 8,000 bytes. */
const maxMessage = 7_500;
/** Wakes every watcher of every process. */
const everything = "*";
const leastNotifyMs = 12;
/** Every process that listens takes a part of the time of each message. */
const notifyMsPerNode = 1.2;
/** With messages, the poll is for those that are lost. */
const [pollMs, pollWithoutMessagesMs] = [2_000, 50];
/** How long writes that began before this process listened, and tell nobody, may take to become visible. */
const settleMs = 1_000;
const heartbeatMs = 10_000;
/** How long the owner of a log tells others of new events, and how often those ask for it. */
const [watchedMs, watchAgainMs] = [30_000, 15_000];

const notifyStatement = { name: "notify", text: "SELECT pg_notify($1, $2)" };
const watchStatement = {
  name: "watch",
  text: `WITH l AS MATERIALIZED (
      SELECT v.conv FROM rivulet.conversations v
      WHERE v.conv IN (SELECT conv FROM rivulet.logs WHERE log = ANY ($1)) ORDER BY v.conv FOR UPDATE
    ), marked AS (
      UPDATE rivulet.conversations v SET watched = rivulet.now_ms_1(NULL) + ${watchedMs} FROM l WHERE v.conv = l.conv
    )
    SELECT log FROM rivulet.logs WHERE log = ANY ($1)`,
};
const heartbeatStatement = {
  name: "heartbeat",
  text: `WITH own AS (
      INSERT INTO rivulet.nodes (node, seen) VALUES ($1, rivulet.now_ms_1(NULL))
      ON CONFLICT (node) DO UPDATE SET seen = excluded.seen
    ), gone AS (
      DELETE FROM rivulet.nodes WHERE seen < (SELECT rivulet.now_ms_1(NULL)) - ${6 * heartbeatMs}
    )
    SELECT rivulet.listening_1()`,
};
const leaveStatement = { name: "leave", text: "DELETE FROM rivulet.nodes WHERE node = $1" };

/** Wakes the watchers of this process, and through the database those of others. */
export class Wakes {
  readonly #database: Database;
  readonly #watchers: Watchers;
  readonly #channel: string;
  readonly #node = crypto.randomUUID();
  readonly #keys: WatchedKeys;
  /** The last number of a log that this process writes; other logs are followed. */
  readonly #ownLast: (log: string) => number | undefined;
  readonly #outbox = new Set<string>();
  #notifiedAt = 0;
  #notifyTimer: ReturnType<typeof setTimeout> | undefined;
  #pollTimer: ReturnType<typeof setTimeout> | undefined;
  #listener: Listener | undefined;
  /** How many processes listen, this one included if it does. */
  #listening = 1;
  #seenAt = 0;
  #isPolling = false;
  #unmarked = new Set<string>();
  /** When the owners of followed logs were last asked to tell of new events. */
  readonly #marked = new Map<string, number>();
  #isClosed = false;
  readonly #running = new Set<Promise<unknown>>();

  constructor(
    database: Database,
    watchers: Watchers,
    ownLast: (log: string) => number | undefined,
  ) {
    this.#database = database;
    this.#watchers = watchers;
    this.#keys = new WatchedKeys(watchers, ownLast);
    this.#ownLast = ownLast;
    this.#channel = `rivulet_${database.settings.schema}`;
  }

  watch(key: WatchKey, wake: (committed?: CommittedEvents) => void): () => void {
    const stop = this.#watchers.watch(key, wake);
    const forget = this.#keys.add(key);
    this.#start();
    if ("log" in key) this.#mark(key.log);
    return () => {
      stop();
      forget();
    };
  }

  /** Wakes the watchers of a key in this process, and tells other processes of the change. */
  touch(kind: WatchKind, id: string): void {
    this.#watchers.touch(kind, id);
    if (this.#hasOthers) this.#tell(letters[kind] + id);
  }

  /** Does the same for keys that the database returned. */
  touchAll(keys: readonly string[]): void {
    for (const key of keys) {
      const kind = kinds[key[0] as string];
      if (kind !== undefined) this.touch(kind, key.slice(1));
    }
  }

  /** Hands committed events to the watchers of their log; `isTold`: other processes are told. */
  appended(log: string, committed: CommittedEvents | undefined, isTold: boolean): void {
    if (committed) this.#keys.appended(log, committed);
    this.#watchers.touch("log", log, committed);
    if (isTold && this.#hasOthers) this.#tell(letters.log + log);
  }

  /** Notes how many processes listen, as the answer to a write says. */
  set listening(count: number) {
    this.#listening = count;
  }

  /** Whether another process listens. */
  get #hasOthers(): boolean {
    return this.#listening > (this.#seenAt > 0 ? 1 : 0);
  }

  /** Notes how many changes a conversation has after a write of this process. */
  changed(conversation: string, revision: number): void {
    this.#keys.changed(conversation, revision);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#pollTimer);
    clearTimeout(this.#notifyTimer);
    this.#notify();
    this.#listener?.close();
    if (this.#listener) this.#run(this.#database.readOnce(leaveStatement, [this.#node]));
    await Promise.all(this.#running);
  }

  #start(): void {
    if (this.#listener || this.#isClosed) return;
    this.#listener = new Listener(this.#database.settings, this.#channel, {
      message: (text) => this.#onMessage(text),
      changed: () => this.#poll(),
      ping: async () => {
        await this.#database.open();
        await this.#beat();
        await this.#database.readOnce(notifyStatement, [
          this.#channel,
          JSON.stringify([this.#node]),
        ]);
      },
    });
    this.#schedulePoll();
  }

  #onMessage(text: string): void {
    const [node, ...keys] = JSON.parse(text) as string[];
    if (node === this.#node) {
      this.#listener?.echo();
      return;
    }
    for (const key of keys) {
      if (key === everything) this.#watchers.touchAll();
      const kind = kinds[key[0] as string];
      const id = key.slice(1);
      if (kind === undefined || !this.#watchers.has(kind, id)) continue;
      if (kind === "log") this.#mark(id);
      this.#watchers.touch(kind, id);
    }
  }

  #tell(key: string): void {
    this.#outbox.add(key);
    if (this.#notifyTimer !== undefined || this.#isClosed) return;
    const intervalMs = Math.max(leastNotifyMs, notifyMsPerNode * this.#listening);
    const waitMs = Math.max(0, this.#notifiedAt + intervalMs - performance.now());
    this.#notifyTimer = setTimeout(() => this.#notify(), waitMs);
  }

  /** Outside of the commits, because a transaction with a message holds a lock of the whole database. */
  #notify(): void {
    this.#notifyTimer = undefined;
    this.#notifiedAt = performance.now();
    const keys = [...this.#outbox];
    this.#outbox.clear();
    for (const text of messagesOf(this.#node, keys)) {
      this.#run(this.#database.readOnce(notifyStatement, [this.#channel, text]));
    }
  }

  /** Waits for work in the background when the store is closed; what it missed, a poll finds. */
  #run(work: Promise<unknown>): void {
    const running = work
      .catch(() => {})
      .finally(() => {
        this.#running.delete(running);
      });
    this.#running.add(running);
  }

  #schedulePoll(): void {
    clearTimeout(this.#pollTimer);
    if (this.#isClosed) return;
    const hasMessages = (this.#listener?.soundMs ?? 0) >= settleMs;
    const ms = hasMessages ? pollMs : pollWithoutMessagesMs;
    this.#pollTimer = setTimeout(() => this.#poll(), ms);
    this.#pollTimer.unref(); // watching alone does not keep a process alive
  }

  #poll(): void {
    if (this.#isPolling || this.#isClosed) return;
    this.#isPolling = true;
    const look = async () => {
      try {
        if (this.#keys.size === 0) return;
        await this.#database.open();
        for (const log of this.#keys.logs) this.#mark(log);
        await this.#keys.poll(this.#database);
      } finally {
        this.#isPolling = false;
        this.#schedulePoll();
      }
    };
    this.#run(look());
  }

  /** Asks the owner of a log to tell of new events. */
  #mark(log: string): void {
    const now = performance.now();
    if (!this.#listener?.isSound || this.#ownLast(log) !== undefined) return;
    if ((this.#marked.get(log) ?? Number.NEGATIVE_INFINITY) + watchAgainMs > now) return;
    for (const [old, at] of this.#marked) {
      if (at + watchAgainMs > now) break;
      this.#marked.delete(old);
    }
    this.#marked.delete(log);
    this.#unmarked.add(log);
    if (this.#unmarked.size === 1) setImmediate(() => this.#run(this.#markAll()));
  }

  async #markAll(): Promise<void> {
    const logs = [...this.#unmarked];
    this.#unmarked = new Set();
    // A log that does not exist yet is marked after the message of its first events.
    const rows = await this.#database.readOnce<[string]>(watchStatement, [logs]);
    const fresh = rows.map(([log]) => log).filter((log) => !this.#marked.has(log));
    for (const [log] of rows) this.#marked.set(log, performance.now());
    // The owner may have written, and told nobody, between the read of a follower and this mark.
    await this.#keys.pollLogs(this.#database, fresh);
  }

  /** Tells other processes that this one listens, and counts them. */
  async #beat(): Promise<void> {
    const now = performance.now();
    if (this.#seenAt > 0 && now - this.#seenAt < heartbeatMs / 2) return;
    this.#seenAt = now;
    const [row] = await this.#database.readOnce<[number]>(heartbeatStatement, [this.#node]);
    this.#listening = row?.[0] ?? 1;
  }
}

/** Messages with the keys, as few as possible. */
function messagesOf(node: string, keys: readonly string[]): readonly string[] {
  const messages: string[] = [];
  let some: string[] = [];
  let bytes = 0;
  for (const key of keys) {
    const text = Buffer.byteLength(key) > maxMessage / 2 ? everything : key;
    const length = Buffer.byteLength(JSON.stringify(text)) + 1;
    if (some.length > 0 && bytes + length > maxMessage - 100) {
      messages.push(JSON.stringify([node, ...some]));
      some = [];
      bytes = 0;
    }
    some.push(text);
    bytes += length;
  }
  if (some.length > 0) messages.push(JSON.stringify([node, ...some]));
  return messages;
}
