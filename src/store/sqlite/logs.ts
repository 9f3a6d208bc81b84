import type { LogSnapshot } from "../../contract/index.ts";
import type { TaskEvent } from "../../protocol/index.ts";
import type { EndedLog } from "../retention.ts";
import { conflict, cursorExpired } from "../store-error.ts";
import { unfinishedStatuses } from "../task-queue.ts";
import {
  assertIntact,
  type Checked,
  checksumAt,
  checksumOf,
  ignoreDamage,
  parseRow,
  storeCorrupt,
} from "./damage.ts";
import type { Database, Value } from "./database.ts";
import { recordDeletedBatches } from "./foreign-changes.ts";

// A reader decodes whole rows, so rows are small: reading one event must not decode thousands.
const maxEvents = 256;
const maxCharacters = 64 * 1024;

// A trim deletes batches in steps, so the last batch that is left may be trimmed already.
const lastEvent =
  "max(coalesce((SELECT max(last) FROM batches WHERE log = logs.number), -1), trimmed_through)";
/** How many batches one transaction deletes. */
const maxDeleted = 256;

const unfinished = unfinishedStatuses.map((status) => `'${status}'`).join();

/** A row of events. Their numbers follow from their places; the stored `sequence_number` is ignored. */
export interface Batch {
  readonly count: number;
  readonly events: string;
}

interface LogRow {
  readonly number: number;
  readonly log: string;
  /** The conversation that writes the log. */
  readonly sessionId: string;
  /** The number of the last event. */
  readonly last: number;
  readonly trimmedThrough: number;
}

/** Which events of a log to read. */
interface EventRange {
  readonly after: number;
  readonly limit: number;
  readonly maxBytes?: number | undefined;
}

/** Encodes events in one row, or in several when they are many or large. */
export function encodeEvents(events: readonly TaskEvent[]): readonly Batch[] {
  const batches: Batch[] = [];
  let encoded: string[] = [];
  let characters = 0;
  for (const event of events) {
    const text = JSON.stringify(event);
    encoded.push(text);
    characters += text.length;
    if (encoded.length < maxEvents && characters < maxCharacters) continue;
    batches.push({ count: encoded.length, events: `[${encoded.join()}]` });
    encoded = [];
    characters = 0;
  }
  if (encoded.length > 0) batches.push({ count: encoded.length, events: `[${encoded.join()}]` });
  return batches;
}

/** Appends events to a log and returns the number before them; throws when another conversation wrote to it first. */
export function appendBatches(
  database: Database,
  { log, sessionId }: { readonly log: string; readonly sessionId: string },
  batches: readonly Batch[],
): number {
  // Verified only when it matters: a log has more commits than any other row has reads.
  const row =
    database.get<Pick<LogRow, "number" | "sessionId" | "last">>(
      `SELECT number, session_id AS sessionId, ${lastEvent} AS last FROM logs WHERE log = ?`,
      log,
    ) ?? createLog(database, log, sessionId);
  if (row.sessionId !== sessionId) {
    const owner = rowOf(database, log)?.sessionId;
    throw conflict(`Log ${log} belongs to conversation ${owner}.`);
  }
  const { number } = row;
  let { last } = row;
  for (const { count, events } of batches) {
    last += count;
    database.run(
      "INSERT INTO batches (log, last, events, checksum) VALUES (?, ?, ?, ?)",
      number,
      last,
      events,
      checksumAt(number, last, events),
    );
  }
  return row.last;
}

function createLog(database: Database, log: string, sessionId: string) {
  const number = database.insert(
    "INSERT INTO logs (log, session_id, trimmed_through, checksum) VALUES (?, ?, -1, ?)",
    log,
    sessionId,
    checksumOf([log, sessionId, -1]),
  );
  return { number, sessionId, last: -1 };
}

function rowOf(database: Database, log: string): LogRow | undefined {
  const row = database.get<LogRow & Checked>(
    `SELECT number, log, session_id AS sessionId, trimmed_through AS trimmedThrough, checksum,
       ${lastEvent} AS last
     FROM logs WHERE log = ?`,
    log,
  );
  if (row) {
    assertIntact(row, checksumOf([row.log, row.sessionId, row.trimmedThrough]), () => `log ${log}`);
  }
  return row;
}

/** The number of a log's last event. */
export function lastOf(database: Database, log: string): number {
  const row = rowOf(database, log);
  if (row === undefined || row.last < 0) return -1;
  if (row.last > row.trimmedThrough) readEvents(database, log, { after: row.last - 1, limit: 1 });
  return row.last;
}

/** At most `limit` events with a number above `after`, up to the end of the row that reaches `maxBytes`. */
export function readEvents(
  database: Database,
  log: string,
  { after, limit, maxBytes = Number.POSITIVE_INFINITY }: EventRange,
): TaskEvent[] {
  const row = database.get<Pick<LogRow, "number" | "trimmedThrough">>(
    "SELECT number, trimmed_through AS trimmedThrough FROM logs WHERE log = ?",
    log,
  );
  if (row === undefined) return [];
  const from = Math.max(after, -1);
  if (from < row.trimmedThrough) {
    throw cursorExpired(log, rowOf(database, log)?.trimmedThrough ?? -1);
  }
  const events: TaskEvent[] = [];
  if (limit <= 0) return events;
  const rows = database.tuples<[last: number, events: string, checksum: number]>(
    "SELECT last, events, checksum FROM batches WHERE log = ? AND last > ? ORDER BY last",
    row.number,
    from,
  );
  let next = from + 1;
  const name = () => `event ${next} of log ${log}`;
  let characters = 0;
  for (const [last, text, checksum] of rows) {
    assertIntact({ checksum }, checksumAt(row.number, last, text), name);
    const found = parseRow<(TaskEvent & { sequence_number: number })[]>(text, name);
    let number = last - found.length;
    if (number >= next) throw storeCorrupt(`${name()} is missing.`);
    for (const event of found) {
      number += 1;
      if (number < next) continue;
      event.sequence_number = number;
      next += 1;
      if (events.push(event) >= limit) return events;
    }
    // At the end of a row, so that the next read does not decode it again.
    characters += text.length;
    if (characters >= maxBytes) return events;
  }
  return events;
}

/**
 * Stores the snapshots that replace events, unless the log is trimmed further already. From then on no reader gets these
 * events; `deleteTrimmed` deletes them.
 */
export function trimEvents(
  database: Database,
  log: string,
  { through, snapshots }: { readonly through: number; readonly snapshots: string },
): void {
  const row = rowOf(database, log);
  if (row === undefined || through > row.last) {
    throw conflict(`Log ${log} ends at ${row?.last ?? -1}, before ${through}.`);
  }
  if (through <= row.trimmedThrough) return;
  database.run(
    "UPDATE logs SET trimmed_through = ?, checksum = ? WHERE number = ?",
    through,
    checksumOf([log, row.sessionId, through]),
    row.number,
  );
  database.run(
    "INSERT OR REPLACE INTO snapshots (log, tasks, checksum) VALUES (?, ?, ?)",
    row.number,
    snapshots,
    checksumOf([row.number, through], snapshots),
  );
}

/** Deletes some of the trimmed events of a log, the first ones first; returns whether there are more. */
export function deleteTrimmed(database: Database, log: string): boolean {
  const row = rowOf(database, log);
  if (row === undefined) return false;
  const { number, trimmedThrough } = row;
  const deleted = deleteBatches(
    database,
    `DELETE FROM batches WHERE number IN (
       SELECT number FROM batches WHERE log = ? AND last <= ? ORDER BY last LIMIT ${maxDeleted}
     )`,
    number,
    trimmedThrough,
  );
  if (deleted === maxDeleted) return true;
  if (row.last === trimmedThrough) forgetEnd(database, number);
  return false;
}

/** Tells other connections if new batches may get the numbers of the deleted ones; returns how many were deleted. */
function deleteBatches(database: Database, sql: string, ...values: readonly Value[]): number {
  const newest = () =>
    database.get<{ number: number }>("SELECT max(number) AS number FROM batches");
  const before = newest()?.number;
  const deleted = database.run(sql, ...values);
  if (newest()?.number !== before) recordDeletedBatches(database);
  return deleted;
}

/** Notes the end of a log if all tasks of its tree have ended. */
export function noteEnd(database: Database, log: string, now: number): void {
  ignoreDamage(() =>
    database.run(
      `INSERT OR IGNORE INTO ended (log, ended_at, bytes)
       SELECT logs.number, ?,
         (SELECT coalesce(sum(octet_length(events)), 0) FROM batches WHERE batches.log = logs.number)
       FROM logs JOIN tasks AS root ON root.task_id = logs.log
       WHERE logs.log = ? AND root.status NOT IN (${unfinished}) AND NOT EXISTS (
         SELECT 1 FROM tasks WHERE conversation = root.conversation
           AND status IN (${unfinished}) AND root_task_id = logs.log
       )`,
      now,
      log,
    ),
  );
}

function forgetEnd(database: Database, log: number): void {
  ignoreDamage(() => database.run("DELETE FROM ended WHERE log = ?", log));
}

/** The logs that have ended and have events, in the order of their ends. */
export function endedLogs(database: Database): Iterable<EndedLog> {
  return database.each<EndedLog>(
    `SELECT logs.log, ended_at AS endedAt FROM ended JOIN logs ON logs.number = ended.log
     ORDER BY ended_at, ended.log`,
  );
}

/** The size of the events of all ended logs. */
export function endedBytes(database: Database): number {
  return (
    database.get<{ bytes: number }>("SELECT coalesce(sum(bytes), 0) AS bytes FROM ended")?.bytes ??
    0
  );
}

/** The snapshot that replaces the trimmed events. */
export function snapshotOfLog(database: Database, log: string): LogSnapshot | undefined {
  const row = rowOf(database, log);
  if (row === undefined || row.trimmedThrough < 0) return undefined;
  const through = row.trimmedThrough;
  const name = () => `the snapshot of log ${log}`;
  const stored = database.get<{ tasks: string } & Checked>(
    "SELECT tasks, checksum FROM snapshots WHERE log = ?",
    row.number,
  );
  if (stored === undefined) throw storeCorrupt(`${name()} is missing.`);
  assertIntact(stored, checksumOf([row.number, through], stored.tasks), name);
  return { through, tasks: parseRow(stored.tasks, name) };
}

/** Deletes the logs of a conversation; returns their names. */
export function deleteLogs(database: Database, sessionId: string): string[] {
  const logs = database.all<{ number: number; log: string }>(
    "SELECT number, log FROM logs WHERE session_id = ?",
    sessionId,
  );
  for (const { number } of logs) {
    deleteBatches(database, "DELETE FROM batches WHERE log = ?", number);
    database.run("DELETE FROM snapshots WHERE log = ?", number);
    forgetEnd(database, number);
    database.run("DELETE FROM logs WHERE number = ?", number);
  }
  return logs.map(({ log }) => log);
}
