import type { Lease } from "../../protocol/store.ts";
import { assertIntact, type Checked, checksumOf, onlyIntact } from "./damage.ts";
import type { Database } from "./database.ts";

interface LeaseRow {
  readonly sessionId: string;
  readonly fence: number;
  readonly held: number;
  /** When the lease ends or ended. */
  readonly until: number;
  /** Its time to live: a lease that ends later than that from now was granted before the clock was set back. */
  readonly ttl: number;
}

const leaseColumns = `lease.session_id AS sessionId, lease.fence, lease.held, lease.until, lease.ttl,
  lease.checksum`;

/** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
export function acquireLease(
  database: Database,
  { sessionId, owner, ttlMs }: { sessionId: string; owner: string; ttlMs: number },
  now: number,
): Lease | undefined {
  const old = rowOf(database, sessionId);
  if (leftMs(old, now) > 0) {
    if (isOverlong(old, now)) save(database, { ...old, until: now + old.ttl });
    return undefined;
  }
  const fence = (old?.fence ?? 0) + 1;
  const until = now + ttlMs;
  save(database, { sessionId, fence, held: 1, until, ttl: ttlMs });
  return { sessionId, owner, fence, expiresAt: until };
}

/** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
export function renewLeases(
  database: Database,
  leases: readonly Lease[],
  { now, ttlMs }: { readonly now: number; readonly ttlMs: number },
): readonly Lease[] {
  const expiresAt = now + ttlMs;
  return leases.flatMap((lease) => {
    const { sessionId, fence } = lease;
    const renewed = database.run(
      `UPDATE leases SET until = ?, ttl = ?, checksum = ?
       WHERE session_id = ? AND fence = ? AND held = 1`,
      expiresAt,
      ttlMs,
      checksumOf([sessionId, fence, 1, expiresAt, ttlMs]),
      sessionId,
      fence,
    );
    return renewed === 1 ? [{ ...lease, expiresAt }] : [];
  });
}

/** Ends a lease; returns false when it no longer holds. */
export function releaseLease(database: Database, lease: Lease, now: number): boolean {
  const row = rowOf(database, lease.sessionId);
  if (!isHeld(row, lease)) return false;
  save(database, { ...row, held: 0, until: Math.min(row.until, now) });
  return true;
}

/** Ends all leases of a conversation, so that the store rejects late commits; a damaged row may have any fence. */
export function voidLeases(database: Database, sessionId: string, now: number): void {
  const row = database.get<{ fence: number }>(
    "SELECT CAST(min(max(fence, ?), 1e15) AS INTEGER) + 1 AS fence FROM leases WHERE session_id = ?",
    now,
    sessionId,
  );
  if (row) save(database, { sessionId, fence: row.fence, held: 0, until: 0, ttl: 0 });
}

/** Whether this is the newest lease of its conversation and not released. */
export function holds(database: Database, lease: Lease): boolean {
  const sql = "SELECT fence, held FROM leases WHERE session_id = ?";
  return isHeld(database.get<LeaseRow>(sql, lease.sessionId), lease);
}

/** The live lease on a conversation. `isOverlong` says that the clock was set back: `shortenLease` must follow. */
export function readOwner(
  database: Database,
  sessionId: string,
  now: number,
): { readonly leftMs: number; readonly isOverlong: boolean } | undefined {
  const row = rowOf(database, sessionId);
  const left = leftMs(row, now);
  return left > 0 ? { leftMs: left, isOverlong: isOverlong(row, now) } : undefined;
}

/** Ends a lease no later than its time to live from now, so that a clock that was set back does not block a session. */
export function shortenLease(database: Database, sessionId: string, now: number): void {
  const row = rowOf(database, sessionId);
  if (isOverlong(row, now)) save(database, { ...row, until: now + row.ttl });
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
  const { sessionId, fence, held, until, ttl } = row;
  database.run(
    `INSERT INTO leases (session_id, fence, held, until, ttl, checksum)
     VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (session_id) DO UPDATE SET fence = excluded.fence, held = excluded.held,
       until = excluded.until, ttl = excluded.ttl, checksum = excluded.checksum`,
    sessionId,
    fence,
    held,
    until,
    ttl,
    checksumOfLease(row),
  );
}

function checksumOfLease({ sessionId, fence, held, until, ttl }: LeaseRow): number {
  return checksumOf([sessionId, fence, held, until, ttl]);
}

function isHeld(row: LeaseRow | undefined, lease: Lease): row is LeaseRow {
  return row?.held === 1 && row.fence === lease.fence;
}

function leftMs(row: LeaseRow | undefined, now: number): number {
  return row?.held === 1 ? Math.min(row.until - now, row.ttl) : 0;
}

function isOverlong(row: LeaseRow | undefined, now: number): row is LeaseRow {
  return row !== undefined && row.until > now + row.ttl;
}

/** Conversations without a live owner in which a scheduler would start something; see `Store.expired`. */
export function expiredConversations(
  database: Database,
  now: number,
  limit: number,
): { readonly free: readonly string[]; readonly overlong: readonly string[] } {
  const rows = database.all<(LeaseRow | { sessionId: null }) & Checked & Expired>(
    expiredQuery,
    now,
    now,
    limit,
  );
  const read = onlyIntact(rows, (row) => {
    if (row.sessionId !== null) intact(row);
    return row;
  });
  const idsOf = (overlong: number) =>
    read.filter((row) => row.overlong === overlong).map((row) => row.conversation);
  return { free: idsOf(0), overlong: idsOf(1) };
}

interface Expired {
  readonly conversation: string;
  readonly overlong: number;
}

/** The statement that lists the conversations that need an owner, and those whose lease is too long. */
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
  SELECT conversation, ${leaseColumns}, coalesce(lease.held = 1 AND lease.until > ? + lease.ttl, 0) AS overlong
  FROM work LEFT JOIN leases AS lease ON lease.session_id = conversation
  WHERE overlong OR lease.session_id IS NULL OR lease.held = 0 OR lease.until <= ?
  ORDER BY overlong, coalesce(lease.until, 0), conversation
  LIMIT ?`;
