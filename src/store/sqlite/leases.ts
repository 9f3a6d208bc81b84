import type { Lease } from "../../protocol/store.ts";
import type { Database } from "./database.ts";

interface LeaseRow {
  readonly fence: number;
  readonly held: number;
  /** When the lease ends or ended. */
  readonly until: number;
}

/** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
export function acquireLease(
  database: Database,
  request: { readonly sessionId: string; readonly owner: string; readonly ttlMs: number },
  now: number,
): Lease | undefined {
  const { sessionId, owner, ttlMs } = request;
  if (isOwned(database, sessionId, now)) return undefined;
  const expiresAt = now + ttlMs;
  const row = database.get<Pick<LeaseRow, "fence">>(
    `INSERT INTO leases (session_id, fence, held, until) VALUES (?, 1, 1, ?)
     ON CONFLICT (session_id) DO UPDATE SET fence = fence + 1, held = 1, until = excluded.until
     RETURNING fence`,
    sessionId,
    expiresAt,
  ) as LeaseRow;
  return { sessionId, owner, fence: row.fence, expiresAt };
}

/** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
export function renewLeases(
  database: Database,
  leases: readonly Lease[],
  expiresAt: number,
): readonly Lease[] {
  return leases.flatMap((lease) => {
    const renewed = database.run(
      "UPDATE leases SET until = ? WHERE session_id = ? AND fence = ? AND held = 1",
      expiresAt,
      lease.sessionId,
      lease.fence,
    );
    return renewed === 1 ? [{ ...lease, expiresAt }] : [];
  });
}

/** Ends a lease; returns false when it no longer holds. */
export function releaseLease(database: Database, lease: Lease, now: number): boolean {
  const released = database.run(
    `UPDATE leases SET held = 0, until = min(until, ?)
     WHERE session_id = ? AND fence = ? AND held = 1`,
    now,
    lease.sessionId,
    lease.fence,
  );
  return released === 1;
}

/** Ends all leases of a conversation, so that the store rejects late commits. */
export function voidLeases(database: Database, sessionId: string, now: number): void {
  database.run(
    "UPDATE leases SET fence = fence + 1, held = 0, until = min(until, ?) WHERE session_id = ?",
    now,
    sessionId,
  );
}

/** Whether this is the newest lease of its conversation and not released. */
export function holds(database: Database, lease: Lease): boolean {
  const row = rowOf(database, lease.sessionId);
  return row?.held === 1 && row.fence === lease.fence;
}

/** Whether a conversation has a live lease. */
export function isOwned(database: Database, sessionId: string, now: number): boolean {
  return readOwner(database, sessionId, now) !== undefined;
}

/** The live lease on a conversation. */
export function readOwner(
  database: Database,
  sessionId: string,
  now: number,
): { readonly leftMs: number } | undefined {
  const row = rowOf(database, sessionId);
  const leftMs = row?.held === 1 ? row.until - now : 0;
  return leftMs > 0 ? { leftMs } : undefined;
}

function rowOf(database: Database, sessionId: string): LeaseRow | undefined {
  return database.get("SELECT fence, held, until FROM leases WHERE session_id = ?", sessionId);
}

/** Conversations without a live owner in which a scheduler would start something; see `Store.expired`. */
export function expiredConversations(database: Database, now: number, limit: number): string[] {
  return database
    .all<{ conversation: string }>(expiredQuery, now, limit)
    .map((row) => row.conversation);
}

/** The statement that lists the conversations that need an owner. */
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
  SELECT conversation
  FROM work LEFT JOIN leases AS lease ON lease.session_id = conversation
  WHERE lease.session_id IS NULL OR lease.held = 0 OR lease.until <= ?
  ORDER BY coalesce(lease.until, 0), conversation
  LIMIT ?`;
