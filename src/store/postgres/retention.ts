import type { LogSnapshot, Store } from "../../contract/index.ts";
import type { LogRetention } from "../retention.ts";
import { trimLog } from "../trim-log.ts";
import type { Database } from "./database.ts";
import { deleteTrimmed, trimEvents } from "./logs.ts";
import { logsPerPartition } from "./schema.ts";

/** The time from the end of a log to the look for logs to trim, and between two looks. */
const [afterEndMs, sweepMs] = [1_000, 60_000];
/** How many logs one look trims before it asks again whether another process does. */
const perSweep = 50;
const trimmingMs = 30_000;

const turnStatement = {
  name: "trimmer",
  text: `UPDATE rivulet.meta SET trimming_until = rivulet.now_ms_1(NULL) + ${trimmingMs}
    WHERE trimming_until <= rivulet.now_ms_1(NULL) RETURNING 1`,
};
const endTurnStatement = {
  name: "trimmer_done",
  text: "UPDATE rivulet.meta SET trimming_until = 0",
};
const endedStatement = {
  name: "ended",
  text: `SELECT log FROM rivulet.logs WHERE bytes > 0 AND ended_at <= rivulet.now_ms_1($1) - $2
    ORDER BY ended_at LIMIT $3`,
};
const tooLargeStatement = {
  name: "ended_size",
  text: `SELECT log FROM (
      SELECT log, ended_at, sum(bytes) OVER (ORDER BY ended_at DESC, no DESC) AS total,
        row_number() OVER (ORDER BY ended_at DESC, no DESC) AS newest
      FROM rivulet.logs WHERE bytes > 0 AND ended_at IS NOT NULL
    ) l WHERE total > $1 AND newest > 1 ORDER BY ended_at LIMIT $2`,
};
const partitionsStatement = {
  name: "partitions",
  text: `SELECT substring(c.relname FROM 'batches_([0-9]+)$')::int AS part, (SELECT coalesce(max(no), 0) FROM rivulet.logs)
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'rivulet.batches'::regclass AND c.relname ~ '^batches_[0-9]+$' ORDER BY part`,
};
const dropStatement = { name: "drop_partition", text: "SELECT rivulet.drop_partition_1($1, $2)" };
const addStatement = { name: "add_partition", text: "SELECT rivulet.add_partition_1($1, $2)" };
const leftOverStatement = {
  name: "left_over",
  text: `SELECT no FROM rivulet.logs WHERE bytes > 0 AND trimmed >= 0 AND ended_at IS NULL AND no < $1
    ORDER BY no LIMIT $2`,
};

/** The functions of the store that the trimmer needs. */
export interface TrimmedStore extends Pick<Store, "read" | "snapshot" | "last"> {
  /** Whether a reader in this process follows a log. */
  isRead(log: string): boolean;
  /** Wakes the readers of a trimmed log. */
  trimmed(log: string): void;
}

/** Trims ended logs in the background: one process at a time, for all. */
export class PostgresTrimmer {
  readonly #database: Database;
  readonly #store: TrimmedStore;
  readonly #limits: Required<LogRetention>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(database: Database, store: TrimmedStore, limits: Required<LogRetention>) {
    this.#database = database;
    this.#store = store;
    this.#limits = limits;
  }

  /** A log has ended, or a reader has left. */
  wake(): void {
    const { maxAgeMs, maxBytes } = this.#limits;
    const isSoon = Number.isFinite(maxBytes) || maxAgeMs < sweepMs;
    this.#schedule(isSoon ? afterEndMs : sweepMs);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(ms: number): void {
    const at = performance.now() + ms;
    if (this.#isStopped || this.#dueAt <= at) return;
    clearTimeout(this.#timer);
    this.#dueAt = at;
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#running = this.#sweep().catch(() => {});
      void this.#running.then(() => this.#schedule(sweepMs * (0.75 + Math.random() / 2)));
    }, ms);
    this.#timer.unref(); // trimming does not keep a process alive
  }

  async #sweep(): Promise<void> {
    const turn = await this.#database.readOnce(turnStatement, []);
    if (turn.length === 0) return;
    try {
      const passed = await this.#passedNumber();
      for (const log of await this.#dueLogs()) {
        if (this.#isStopped) return;
        if (!this.#store.isRead(log)) await this.#trim(log, passed);
      }
      await this.#changePartitions();
    } finally {
      await this.#database.readOnce(endTurnStatement, []);
    }
  }

  async #dueLogs(): Promise<readonly string[]> {
    const { maxAgeMs, maxBytes } = this.#limits;
    const { given } = this.#database;
    const logs: string[] = [];
    if (Number.isFinite(maxAgeMs)) {
      const values = [given, maxAgeMs, perSweep];
      const rows = await this.#database.readOnce<[string]>(endedStatement, values);
      logs.push(...rows.map(([log]) => log));
    }
    if (Number.isFinite(maxBytes)) {
      const values = [maxBytes, perSweep];
      const rows = await this.#database.readOnce<[string]>(tooLargeStatement, values);
      logs.push(...rows.map(([log]) => log));
    }
    return [...new Set(logs)];
  }

  /** Replaces the events of a log. Those in a partition that gets no new logs are deleted with the partition. */
  async #trim(log: string, passed: number): Promise<void> {
    const trim = async (log: string, snapshot: LogSnapshot) => {
      if (this.#store.isRead(log)) return;
      const number = await trimEvents(this.#database, log, snapshot);
      if (number !== undefined && number >= passed) await deleteTrimmed(this.#database, number);
      this.#store.trimmed(log);
    };
    await trimLog({ ...this.#store, trim }, log, await this.#store.last(log));
  }

  async #partitions(): Promise<{ readonly parts: readonly number[]; readonly current: number }> {
    const rows = await this.#database.readOnce<[part: number, newest: number]>(
      partitionsStatement,
      [],
    );
    const newest = rows[0]?.[1] ?? 0;
    return {
      parts: rows.map(([part]) => part),
      current: Math.floor(newest / logsPerPartition),
    };
  }

  /** The number below which logs are in partitions that get no new logs. */
  async #passedNumber(): Promise<number> {
    const { parts, current } = await this.#partitions();
    const first = Math.min(...parts.filter((part) => part >= current), current);
    return parts.some((part) => part < current) ? first * logsPerPartition : 0;
  }

  /** Drops partitions without events, and creates the next; a role that may not leaves the events to be deleted. */
  async #changePartitions(): Promise<void> {
    const { parts, current } = await this.#partitions();
    const size = logsPerPartition;
    for (const part of parts.filter((one) => one < current)) {
      await this.#database.readOnce(dropStatement, [part, size]).catch(() => {});
    }
    await this.#database.readOnce(addStatement, [Math.max(...parts, 0), size]).catch(() => {});
    // A run that lasts for weeks keeps its partition: the events of the others are deleted one by one.
    const old = (current - 1) * size;
    const rows = await this.#database.readOnce<[number]>(leftOverStatement, [old, perSweep]);
    for (const [number] of rows) await deleteTrimmed(this.#database, number);
  }
}
