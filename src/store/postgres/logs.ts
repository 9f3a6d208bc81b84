import { RivuletError } from "../../base/error.ts";
import type { LogSnapshot } from "../../contract/index.ts";
import type { TaskEvent } from "../../protocol/index.ts";
import { cursorExpired } from "../store-error.ts";
import { jsonFormat, maxEvents } from "./commit-encoding.ts";
import type { Database } from "./database.ts";
import { assertStorable } from "./ids.ts";

/** Infinity as PostgreSQL takes it. */
const noLimit = 1_000_000_000;

const lastEvent = `greatest(l.trimmed, coalesce(
  (SELECT b.last FROM rivulet.batches b WHERE b.log = l.no ORDER BY b.last DESC LIMIT 1), -1))`;

// Exactly the rows with the wanted events: the number of the last event of a row is less than 256 above that of its first.
const readStatement = {
  name: "read",
  text: `SELECT g.i, l.trimmed, b.last, b.n, b.format, b.events
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS g(log, after, most, bytes, i)
      JOIN rivulet.logs l ON l.log = g.log
      LEFT JOIN LATERAL (
        SELECT last, n, get_byte(events, 0) AS format, CASE WHEN get_byte(events, 0) = ${jsonFormat.charCodeAt(0)}
          THEN convert_from(substring(events FROM 2), 'UTF8') END AS events
        FROM (
          SELECT last, n, events, sum(octet_length(events)) OVER (ORDER BY last) - octet_length(events) AS before
          FROM rivulet.batches WHERE log = l.no AND last > g.after AND last < g.after + g.most + ${maxEvents}
            AND last - n < g.after + g.most
        ) r WHERE before < greatest(g.bytes, 1)
      ) b ON l.trimmed <= g.after
    ORDER BY g.i, b.last`,
};
const lastStatement = {
  name: "last",
  text: `SELECT ${lastEvent} FROM rivulet.logs l WHERE l.log = $1`,
};
const snapshotStatement = {
  name: "snapshot",
  text: `SELECT l.trimmed, s.tasks FROM rivulet.logs l JOIN rivulet.snapshots s ON s.log = l.no
    WHERE l.log = $1 AND l.trimmed >= 0`,
};
const trimStatement = { name: "trim", text: "SELECT rivulet.trim_1($1, $2, $3)" };

type ReadRow = [
  place: number,
  trimmed: number,
  last: number | null,
  count: number,
  format: number,
  events: string | null,
];

interface Read {
  readonly log: string;
  readonly after: number;
  readonly limit: number;
  readonly maxBytes: number;
  readonly resolve: (events: readonly TaskEvent[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Reads of one turn of the event loop become one statement: a thousand followers cost little more than one. */
export class LogReads {
  readonly #database: Database;
  #waiting: Read[] = [];

  constructor(database: Database) {
    this.#database = database;
  }

  read(
    log: string,
    after: number,
    limit: number,
    maxBytes = noLimit,
  ): Promise<readonly TaskEvent[]> {
    assertStorable(log);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ log, after: Math.max(after, -1), limit, maxBytes, resolve, reject });
      if (this.#waiting.length === 1) setImmediate(() => void this.#flush());
    });
  }

  async #flush(): Promise<void> {
    const reads = this.#waiting;
    this.#waiting = [];
    try {
      const rows = await this.#database.read<ReadRow>(readStatement, [
        reads.map(({ log }) => log),
        reads.map(({ after }) => after),
        reads.map(({ limit }) => Math.min(Math.ceil(limit), noLimit)),
        reads.map(({ maxBytes }) => Math.min(Math.ceil(maxBytes), noLimit)),
      ]);
      const rowsOf = Map.groupBy(rows, ([place]) => place);
      for (const [index, read] of reads.entries()) settle(read, rowsOf.get(index + 1) ?? []);
    } catch (error) {
      for (const { reject } of reads) reject(error);
    }
  }
}

function settle({ log, after, limit, resolve, reject }: Read, rows: readonly ReadRow[]): void {
  try {
    const trimmed = rows[0]?.[1] ?? -1;
    if (after < trimmed) throw cursorExpired(log, trimmed);
    const events: TaskEvent[] = [];
    for (const [, , last, count, format, text] of rows) {
      if (last === null) continue;
      if (text === null) throw unknownFormat(log, format);
      let number = last - count;
      for (const event of JSON.parse(text) as (TaskEvent & { sequence_number: number })[]) {
        number += 1;
        if (number <= after || events.length >= limit) continue;
        event.sequence_number = number;
        events.push(event);
      }
    }
    resolve(events);
  } catch (error) {
    reject(error);
  }
}

function unknownFormat(log: string, format: number): RivuletError<"store_too_new"> {
  const message = `Log ${log} has events in format ${format}, which this version cannot read.`;
  return new RivuletError("store_too_new", message, { hint: "Update Rivulet." });
}

/** The number of a log's last event. */
export async function lastOf(database: Database, log: string): Promise<number> {
  assertStorable(log);
  const [row] = await database.read<[number]>(lastStatement, [log]);
  return row?.[0] ?? -1;
}

/** The snapshot that replaces the trimmed events. */
export async function snapshotOfLog(
  database: Database,
  log: string,
): Promise<LogSnapshot | undefined> {
  assertStorable(log);
  const [row] = await database.read<[through: number, tasks: string]>(snapshotStatement, [log]);
  return row && { through: row[0], tasks: JSON.parse(row[1]) };
}

/**
 * Stores a snapshot instead of the events up to its number: from then on nobody gets them. Returns the number of the log
 * if there are events to delete.
 */
export async function trimEvents(
  database: Database,
  log: string,
  { through, tasks }: LogSnapshot,
): Promise<number | undefined> {
  assertStorable(log);
  const [row] = await database.read<[number | null]>(trimStatement, [
    log,
    through,
    JSON.stringify(tasks),
  ]);
  return row?.[0] ?? undefined;
}

const deleteStatement = {
  name: "delete_trimmed",
  text: `WITH trimmed AS (
      SELECT b.last FROM rivulet.logs l JOIN rivulet.batches b ON b.log = l.no AND b.last <= l.trimmed
      WHERE l.no = $1 ORDER BY b.last LIMIT 1000
    ), deleted AS (
      DELETE FROM rivulet.batches b USING trimmed t WHERE b.log = $1 AND b.last = t.last RETURNING 1
    )
    SELECT count(*) FROM deleted`,
};
const clearedStatement = {
  name: "cleared",
  text: `UPDATE rivulet.logs l SET bytes = 0 WHERE no = $1 AND bytes > 0
    AND NOT EXISTS (SELECT 1 FROM rivulet.batches WHERE log = l.no)`,
};

/** Deletes the trimmed events of a log in steps, so that no transaction is long; after a crash the sweeper continues. */
export async function deleteTrimmed(database: Database, number: number): Promise<void> {
  for (let hasMore = true; hasMore; ) {
    const [row] = await database.read<[number]>(deleteStatement, [number]);
    hasMore = (row?.[0] ?? 0) === 1_000;
  }
  await database.read(clearedStatement, [number]);
}
