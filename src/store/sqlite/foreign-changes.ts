import type { Watchers } from "../watchers.ts";
import { type Database, inTransaction } from "./database.ts";
import type { Changes } from "./write-queue.ts";

const pollMs = 50;
/** How many rows of `changes` are kept. A connection that is further behind wakes all its watchers. */
const keptChanges = 1_000;
const pruneEvery = 100;
/** Replaces the keys of a change that deletes event batches, because new batches may reuse their numbers. */
const deletedBatches = "*";

/** Wakes watchers for the commits of other connections while it is started. */
export interface ForeignChanges {
  start(): void;
  stop(): void;
}

/** The last rows for which the watchers of a connection were woken. */
interface Position {
  readonly change: number;
  readonly batch: number;
}

/** Polls for the commits of other connections. */
export function foreignChanges(database: Database, watchers: Watchers): ForeignChanges {
  let timer: ReturnType<typeof setInterval> | undefined;
  let version: number | undefined;
  let position: Position = { change: 0, batch: 0 };

  /** Wakes watchers for every row after the position, including the newest rows of this connection. */
  function wake(): void {
    const changes = database.all<{ number: number; keys: string }>(
      "SELECT number, keys FROM changes WHERE number > ? ORDER BY number",
      position.change,
    );
    const logs = database.all<{ log: string; last: number }>(
      `SELECT logs.log, max(batches.last) AS last FROM batches JOIN logs ON logs.number = batches.log
       WHERE batches.number > ? GROUP BY batches.log`,
      position.batch,
    );
    const isBehind = (changes[0]?.number ?? 0) > position.change + 1;
    if (isBehind || changes.some(({ keys }) => keys === deletedBatches)) watchers.touchAll();
    else {
      // Their numbers tell a reader that has been handed them that there is nothing new.
      for (const { log, last } of logs) watchers.touch("log", log, { after: last, events: [] });
      for (const { keys } of changes) touchKeys(keys);
    }
    position = endOf(database);
  }

  function touchKeys(keys: string): void {
    try {
      for (const [kind, id] of JSON.parse(keys) as Changes) watchers.touch(kind, id);
    } catch {
      watchers.touchAll(); // The row is damaged.
    }
  }

  function poll(): void {
    try {
      // `end` is read first: if no other connection has committed by then, this one wrote every row up to `end`.
      const end = endOf(database);
      const now = versionOf(database);
      if (now === version) position = end;
      else inTransaction(database, "BEGIN", wake);
      version = now;
    } catch {
      // The next poll tries again.
    }
  }

  return {
    start() {
      if (timer !== undefined) return;
      try {
        version = versionOf(database);
        position = endOf(database);
      } catch {
        // The first poll tries again.
        version = undefined;
        watchers.touchAll();
      }
      // Watching alone does not keep a process alive.
      timer = setInterval(poll, pollMs).unref();
    },
    stop() {
      clearInterval(timer);
      timer = undefined;
    },
  };
}

/** Stores the keys that the current transaction changes, except logs: the numbers of their batches show changes. */
export function recordChanges(database: Database, changes: Changes): void {
  const distinct = new Map<string, Changes[number]>();
  for (const change of changes) if (change[0] !== "log") distinct.set(change.join(), change);
  if (distinct.size > 0) insertChange(database, JSON.stringify([...distinct.values()]));
}

/** Makes other connections wake all watchers, because new batches may reuse the numbers of deleted ones. */
export function recordDeletedBatches(database: Database): void {
  insertChange(database, deletedBatches);
}

function insertChange(database: Database, keys: string): void {
  const number = database.insert("INSERT INTO changes (keys) VALUES (?)", keys);
  // The newest row always stays, so numbers of changes never repeat.
  if (number % pruneEvery === 0) {
    database.run("DELETE FROM changes WHERE number <= ?", number - keptChanges);
  }
}

/** A number that changes with every commit of another connection; reading it is cheap. */
function versionOf(database: Database): number | undefined {
  return database.get<{ data_version: number }>("PRAGMA data_version")?.data_version;
}

function endOf(database: Database): Position {
  return database.get<Position>(
    `SELECT coalesce((SELECT max(number) FROM changes), 0) AS change,
       coalesce((SELECT max(number) FROM batches), 0) AS batch`,
  ) as Position;
}
