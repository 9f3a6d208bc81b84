import type { ApprovalChange } from "./session-facts.ts";

/** The approvals that expire and have no answer, by the session that asks for them. */
export class DueApprovals {
  readonly #sessions = new Map<string, Map<string, number>>();

  /** Notes what an append asks for and answers. */
  change(sessionId: string, changes: readonly ApprovalChange[]): void {
    for (const { approvalId, dueAt } of changes) {
      const due = this.#sessions.get(sessionId) ?? new Map<string, number>();
      if (dueAt === undefined) due.delete(approvalId);
      else due.set(approvalId, dueAt);
      if (due.size > 0) this.#sessions.set(sessionId, due);
      else this.#sessions.delete(sessionId);
    }
  }

  /** Forgets the approvals of a session. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /** The sessions with an approval that expires by a time. */
  by(time: number): string[] {
    const isDue = (due: ReadonlyMap<string, number>) => [...due.values()].some((at) => at <= time);
    return [...this.#sessions].flatMap(([sessionId, due]) => (isDue(due) ? [sessionId] : []));
  }
}
