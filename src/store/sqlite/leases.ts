import type { Lease } from "../../contract/index.ts";
import { type LeaseClock, LeaseJudge } from "../lease-clock.ts";
import { assertIntact, type Checked, checksumOf, onlyIntact } from "./damage.ts";
import type { Database } from "./database.ts";

interface LeaseRow {
  readonly sessionId: string;
  readonly fence: number;
  readonly held: number;
  /** When the lease ends or ended, on the clock of its epoch. */
  readonly until: number;
  readonly ttl: number;
  readonly epoch: string;
  /** How many owners in a row did not release the lease; progress sets it to 0. */
  readonly losses: number;
}

const leaseColumns = `lease.session_id AS sessionId, lease.fence, lease.held, lease.until, lease.ttl,
  lease.epoch, lease.losses, lease.checksum`;

/** The leases of a database, as one process sees them. */
export interface SqliteLeases {
  /** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
  acquire(request: LeaseRequest, now: number): Lease | undefined;
  /** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
  renew(leases: readonly Lease[], ttlMs: number, now: number): readonly Lease[];
  /** Ends a lease and counts it as lost if it is; returns false when it no longer holds. */
  release(lease: Lease, isLost?: boolean): boolean;
  /** The live lease on a conversation. */
  owner(sessionId: string): { readonly leftMs: number } | undefined;
  /** Conversations without a live owner in which a scheduler would start something; see `Store.expired`. */
  expired(limit: number): readonly string[];
}

interface LeaseRequest {
  readonly sessionId: string;
  readonly owner: string;
  readonly ttlMs: number;
  readonly maxLosses: number;
}

/** Reads and writes leases by a clock; `now` arguments are dates. */
export function sqliteLeases(database: Database, clock: LeaseClock): SqliteLeases {
  const judge = new LeaseJudge(clock);

  function leftMs(row: LeaseRow | undefined): number {
    return row?.held === 1 ? judge.leftMs(row) : 0;
  }

  /** Whether a conversation may be listed: a lease that was lost before is listed later. */
  function isListed(row: LeaseRow): boolean {
    return row.held === 0 || leftMs(row) + row.ttl * row.losses <= 0;
  }

  return {
    acquire({ sessionId, owner, ttlMs, maxLosses }, now) {
      const old = rowOf(database, sessionId);
      if (leftMs(old) > 0) return undefined;
      const losses = (old?.losses ?? 0) + (old?.held ?? 0);
      if (losses > maxLosses) return undefined;
      const fence = (old?.fence ?? 0) + 1;
      const { epoch } = clock;
      save(database, {
        sessionId,
        fence,
        held: 1,
        until: clock.now() + ttlMs,
        ttl: ttlMs,
        epoch,
        losses,
      });
      judge.forget(sessionId);
      return { sessionId, owner, fence, expiresAt: now + ttlMs, losses };
    },
    renew(leases, ttlMs, now) {
      const until = clock.now() + ttlMs;
      return leases.flatMap((lease) => {
        const row = rowOf(database, lease.sessionId);
        if (!isHeld(row, lease)) return [];
        save(database, { ...row, until, ttl: ttlMs, epoch: clock.epoch });
        judge.forget(lease.sessionId);
        return [{ ...lease, expiresAt: now + ttlMs, losses: row.losses }];
      });
    },
    release(lease, isLost = false) {
      const row = rowOf(database, lease.sessionId);
      if (!isHeld(row, lease)) return false;
      const losses = row.losses + (isLost ? 1 : 0);
      save(database, { ...row, held: 0, until: Math.min(row.until, clock.now()), losses });
      return true;
    },
    owner(sessionId) {
      const left = leftMs(rowOf(database, sessionId));
      return left > 0 ? { leftMs: left } : undefined;
    },
    expired(limit) {
      for (let count = limit; ; ) {
        const rows = database.all<Conversation & (LeaseRow | { sessionId: null }) & Checked>(
          expiredQuery,
          clock.epoch,
          clock.now(),
          clock.now(),
          count,
        );
        const listed = onlyIntact(rows, (row) => {
          if (row.sessionId === null || isListed(intact(row))) return row.conversation;
          return undefined;
        }).filter((id) => id !== undefined);
        const omitted = rows.length - listed.length;
        if (limit < 0) return listed;
        if (listed.length >= limit || rows.length < count) return listed.slice(0, limit);
        // The next page is larger than all that cannot be listed.
        count = limit + 2 * omitted;
      }
    },
  };
}

/** Ends all leases of a conversation, so that the store rejects late commits; a damaged row may have any fence. */
export function voidLeases(database: Database, sessionId: string, now: number): void {
  const row = database.get<{ fence: number }>(
    "SELECT CAST(min(max(fence, ?), 1e15) AS INTEGER) + 1 AS fence FROM leases WHERE session_id = ?",
    now,
    sessionId,
  );
  if (row)
    save(database, {
      sessionId,
      fence: row.fence,
      held: 0,
      until: 0,
      ttl: 0,
      epoch: "",
      losses: 0,
    });
}

/** How many owners the conversation lost before this lease; undefined when the lease no longer holds. */
export function lossesOf(database: Database, lease: Lease): number | undefined {
  const sql = "SELECT fence, held, losses FROM leases WHERE session_id = ?";
  const row = database.get<LeaseRow>(sql, lease.sessionId);
  return isHeld(row, lease) ? row.losses : undefined;
}

/** Sets the count of lost owners to 0, after progress. */
export function clearLosses(database: Database, sessionId: string): void {
  const row = rowOf(database, sessionId);
  if (row) save(database, { ...row, losses: 0 });
}

function rowOf(database: Database, sessionId: string): LeaseRow | undefined {
  const row = database.get<LeaseRow & Checked>(
    `SELECT ${leaseColumns} FROM leases AS lease WHERE session_id = ?`,
    sessionId,
  );
  return row && intact(row);
}

function intact(row: LeaseRow & Checked): LeaseRow {
  assertIntact(row, checksumOfLease(row), () => `the lease of session ${row.sessionId}`);
  return row;
}

function save(database: Database, row: LeaseRow): void {
  const { sessionId, fence, held, until, ttl, epoch, losses } = row;
  database.run(
    `INSERT INTO leases (session_id, fence, held, until, ttl, epoch, losses, checksum)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (session_id) DO UPDATE SET fence = excluded.fence, held = excluded.held,
       until = excluded.until, ttl = excluded.ttl, epoch = excluded.epoch, losses = excluded.losses,
       checksum = excluded.checksum`,
    sessionId,
    fence,
    held,
    until,
    ttl,
    epoch,
    losses,
    checksumOfLease(row),
  );
}

function checksumOfLease({ sessionId, fence, held, until, ttl, epoch, losses }: LeaseRow): number {
  return checksumOf([sessionId, fence, held, until, ttl, epoch, losses]);
}

function isHeld(row: LeaseRow | undefined, lease: Lease): row is LeaseRow {
  return row?.held === 1 && row.fence === lease.fence;
}

interface Conversation {
  readonly conversation: string;
}

/**
 * The statement that lists the conversations that need an owner, with those whose lease this clock cannot judge. Its
 * values: the epoch, the time twice, and the limit.
 */
export const expiredQuery = `
  WITH work AS (
    SELECT conversation FROM tasks WHERE status IN ('queued', 'in_progress')
    UNION
    SELECT conversation FROM posts WHERE taken = 0 AND CASE
      WHEN kind = 'hint' THEN FALSE
      WHEN kind = 'input' THEN task_id IS NULL AND session_id = conversation AND NOT EXISTS (
        SELECT 1 FROM tasks
        WHERE session_id = posts.session_id AND status IN ('queued', 'in_progress', 'suspended')
      )
      WHEN task_id IS NOT NULL
        THEN EXISTS (SELECT 1 FROM tasks WHERE tasks.task_id = posts.task_id)
      WHEN root_task_id IS NOT NULL
        THEN EXISTS (SELECT 1 FROM tasks WHERE tasks.root_task_id = posts.root_task_id)
      ELSE EXISTS (SELECT 1 FROM tasks WHERE tasks.session_id = posts.session_id)
    END
  )
  SELECT conversation, ${leaseColumns}
  FROM work LEFT JOIN leases AS lease ON lease.session_id = conversation
  WHERE lease.session_id IS NULL OR lease.held = 0 OR lease.epoch <> ?
    OR lease.until > ? + lease.ttl OR lease.until + lease.ttl * lease.losses <= ?
  ORDER BY coalesce(lease.until, 0), conversation
  LIMIT ?`;
