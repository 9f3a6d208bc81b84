import type { TaskEvent } from "../../protocol/event.ts";
import type { LogSnapshot } from "../../protocol/store.ts";
import { conflict, cursorExpired } from "../store-error.ts";
import type { Database } from "./database.ts";
import { recordDeletedBatches } from "./foreign-changes.ts";

// A reader decodes whole rows, so rows are small: reading one event must not decode thousands.
const maxEvents = 256;
const maxCharacters = 64 * 1024;

/** A row of events. Their numbers follow from their places; the stored `sequence_number` is ignored. */
export interface Batch {
  readonly count: number;
  readonly events: string;
}

interface LogRow {
  readonly number: number;
  readonly session_id: string;
  readonly last: number;
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

/** Appends events to a log; throws when another conversation wrote to it first. */
export function appendBatches(
  database: Database,
  { log, sessionId }: { readonly log: string; readonly sessionId: string },
  batches: readonly Batch[],
): void {
  const row = rowOf(database, log) ?? createLog(database, log, sessionId);
  if (row.session_id !== sessionId) {
    throw conflict(`Log ${log} belongs to conversation ${row.session_id}.`);
  }
  let { last } = row;
  for (const { count, events } of batches) {
    last += count;
    database.run(
      "INSERT INTO batches (log, last, events) VALUES (?, ?, ?)",
      row.number,
      last,
      events,
    );
  }
}

function createLog(database: Database, log: string, sessionId: string): LogRow {
  return database.get<LogRow>(
    "INSERT INTO logs (log, session_id) VALUES (?, ?) RETURNING number, session_id, -1 AS last",
    log,
    sessionId,
  ) as LogRow;
}

function rowOf(database: Database, log: string): LogRow | undefined {
  return database.get(
    `SELECT number, session_id,
       coalesce((SELECT max(last) FROM batches WHERE log = logs.number), trimmed_through) AS last
     FROM logs WHERE log = ?`,
    log,
  );
}

/** The number of a log's last event. */
export function lastOf(database: Database, log: string): number {
  return rowOf(database, log)?.last ?? -1;
}

/** At most `limit` events with a number above `after`; the cost is in proportion to the result. */
export function readEvents(
  database: Database,
  log: string,
  after: number,
  limit: number,
): TaskEvent[] {
  const row = database.get<{ number: number; trimmed_through: number }>(
    "SELECT number, trimmed_through FROM logs WHERE log = ?",
    log,
  );
  if (row === undefined) return [];
  const from = Math.max(after, -1);
  if (from < row.trimmed_through) throw cursorExpired(log, row.trimmed_through);
  const events: TaskEvent[] = [];
  if (limit <= 0) return events;
  const rows = database.each<{ last: number; events: string }>(
    "SELECT last, events FROM batches WHERE log = ? AND last > ? ORDER BY last",
    row.number,
    from,
  );
  for (const batch of rows) {
    const found = JSON.parse(batch.events) as (TaskEvent & { sequence_number: number })[];
    let number = batch.last - found.length;
    for (const event of found) {
      number += 1;
      if (number <= from) continue;
      event.sequence_number = number;
      if (events.push(event) >= limit) return events;
    }
  }
  return events;
}

/** Deletes events and stores the snapshots that replace them, unless the log is trimmed further already. */
export function trimEvents(
  database: Database,
  log: string,
  { through, snapshots }: { readonly through: number; readonly snapshots: string },
): void {
  const row = rowOf(database, log);
  if (row === undefined || through > row.last) {
    throw conflict(`Log ${log} ends at ${row?.last ?? -1}, before ${through}.`);
  }
  const trimmed = database.run(
    "UPDATE logs SET trimmed_through = ?, snapshots = ? WHERE number = ? AND trimmed_through < ?",
    through,
    snapshots,
    row.number,
    through,
  );
  if (trimmed === 1) {
    database.run("DELETE FROM batches WHERE log = ? AND last <= ?", row.number, through);
    recordDeletedBatches(database);
  }
}

/** The snapshot that replaces the trimmed events. */
export function snapshotOfLog(database: Database, log: string): LogSnapshot | undefined {
  const row = database.get<{ trimmed_through: number; snapshots: string }>(
    "SELECT trimmed_through, snapshots FROM logs WHERE log = ? AND trimmed_through >= 0",
    log,
  );
  return row && { through: row.trimmed_through, tasks: JSON.parse(row.snapshots) };
}

/** Deletes the logs of a conversation; returns their names. */
export function deleteLogs(database: Database, sessionId: string): string[] {
  const logs = database.all<{ number: number; log: string }>(
    "SELECT number, log FROM logs WHERE session_id = ?",
    sessionId,
  );
  for (const { number } of logs) {
    database.run("DELETE FROM batches WHERE log = ?", number);
    database.run("DELETE FROM logs WHERE number = ?", number);
  }
  if (logs.length > 0) recordDeletedBatches(database);
  return logs.map(({ log }) => log);
}
