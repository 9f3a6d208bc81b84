import type { ApprovalChange } from "../session-facts.ts";
import { ignoreDamage } from "./damage.ts";
import type { Database } from "./database.ts";

/** Notes the approvals that messages of a session ask for and answer. */
export function changeDue(
  database: Database,
  sessionId: string,
  changes: readonly ApprovalChange[],
): void {
  for (const { approvalId, dueAt } of changes) {
    const approval = JSON.stringify(approvalId);
    ignoreDamage(() => {
      database.run("DELETE FROM due WHERE session_id = ? AND approval = ?", sessionId, approval);
      if (dueAt === undefined) return;
      database.run(
        "INSERT INTO due (session_id, approval, due_at) VALUES (?, ?, ?)",
        sessionId,
        approval,
        dueAt,
      );
    });
  }
}

/** Forgets the approvals of a session. */
export function forgetDue(database: Database, sessionId: string): void {
  ignoreDamage(() => database.run("DELETE FROM due WHERE session_id = ?", sessionId));
}
