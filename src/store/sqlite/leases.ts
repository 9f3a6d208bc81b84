import type { Lease } from "../../protocol/store.ts";
import type { Database } from "./database.ts";

interface LeaseRow {
  readonly fence: number;
  readonly held: number;
  /** When the last lease ends, or ended. */
  readonly until: number;
}

/** A live lease keeps its own owner out too: two loops of one process must not both write. */
export function acquireLease(
  database: Database,
  asked: { readonly sessionId: string; readonly owner: string; readonly ttlMs: number },
  now: number,
): Lease | undefined {
  const { sessionId, owner, ttlMs } = asked;
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

/** An expired lease that nobody has taken over still holds. */
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

/** False when the lease no longer holds and so nothing is released. */
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

/** Ends every lease there ever was, so that no late commit comes through. */
export function voidLeases(database: Database, sessionId: string, now: number): void {
  database.run(
    "UPDATE leases SET fence = fence + 1, held = 0, until = min(until, ?) WHERE session_id = ?",
    now,
    sessionId,
  );
}

/** Whether nobody else has acquired the conversation since. */
export function holds(database: Database, lease: Lease): boolean {
  const row = rowOf(database, lease.sessionId);
  return row?.held === 1 && row.fence === lease.fence;
}

/** Whether somebody's lease is live. */
export function isOwned(database: Database, sessionId: string, now: number): boolean {
  const row = rowOf(database, sessionId);
  return row?.held === 1 && now < row.until;
}

function rowOf(database: Database, sessionId: string): LeaseRow | undefined {
  return database.get("SELECT fence, held, until FROM leases WHERE session_id = ?", sessionId);
}

/**
 * Work left is a task that is queued or in progress, an input, or an answer or a cancel to a tree that has not ended;
 * a hint is none. The longest without an owner comes first.
 */
export function expiredConversations(database: Database, now: number, limit: number): string[] {
  const rows = database.all<{ conversation: string }>(
    `WITH
     unfinished AS (
       SELECT task.root_task_id, task.status,
         coalesce(root.session_id, task.session_id) AS conversation
       FROM tasks AS task LEFT JOIN tasks AS root ON root.task_id = task.root_task_id
       WHERE task.status IN ('queued', 'in_progress', 'suspended')
     ),
     asking AS (
       SELECT post.kind, post.root_task_id,
         coalesce(root.session_id, post.session_id) AS conversation
       FROM posts AS post
       LEFT JOIN sessions AS session ON session.session_id = post.session_id
       LEFT JOIN tasks AS root
         ON root.task_id = coalesce(post.root_task_id, session.root_task_id)
       WHERE post.taken = 0 AND post.kind <> 'hint'
     ),
     waiting AS (
       SELECT conversation FROM unfinished WHERE status <> 'suspended'
       UNION
       SELECT conversation FROM asking
       WHERE kind = 'input'
         OR root_task_id IN (SELECT root_task_id FROM unfinished)
         OR root_task_id IS NULL AND conversation IN (SELECT conversation FROM unfinished)
     )
     SELECT conversation
     FROM waiting LEFT JOIN leases AS lease ON lease.session_id = conversation
     WHERE lease.session_id IS NULL OR lease.held = 0 OR lease.until <= ?
     ORDER BY coalesce(lease.until, 0), conversation
     LIMIT ?`,
    now,
    limit,
  );
  return rows.map((row) => row.conversation);
}
