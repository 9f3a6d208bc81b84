import { waitingTasks } from "../../agent/index.ts";
import type { Approval, SessionInfo, Store } from "../../contract/index.ts";

/** How many sessions are read at once, and how many a page looks at. */
const [atOnce, most] = [50, 1_000];

/** Which approvals to list: those of the newest sessions come first. */
export interface ApprovalQuery {
  /** Only those of this user; null: only those without a user; without it, those of all users. */
  readonly userId?: string | null;
  /** A page ends with the session that fills it. */
  readonly limit: number;
  /** The `next` of the previous page. */
  readonly before?: string;
}

/** An approval with the session that waits for it. */
export interface SessionApproval {
  readonly approval: Approval;
  readonly session: SessionInfo;
}

/** Lists what waits for a person in all sessions; `next` is there if older sessions were not looked at. */
export async function listApprovals(
  store: Store,
  { userId, limit, before }: ApprovalQuery,
): Promise<{ readonly found: readonly SessionApproval[]; readonly next?: string }> {
  const found: SessionApproval[] = [];
  const whose = userId === undefined ? {} : { userId };
  let next = before;
  for (let seen = 0; seen < most; seen += atOnce) {
    const place = next === undefined ? {} : { before: next };
    const sessions = await store.sessions({ ...whose, ...place, limit: atOnce });
    for (const session of sessions) {
      const waiting = await waitingTasks(store, { conversation: session.sessionId });
      for (const approval of waiting.flatMap(({ approvals }) => approvals))
        found.push({ approval, session });
      next = session.sessionId;
      if (found.length >= limit) return { found, next };
    }
    if (sessions.length < atOnce) return { found };
  }
  return { found, ...(next !== undefined && { next }) };
}
