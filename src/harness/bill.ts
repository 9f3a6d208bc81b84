import type { Store, TaskRecord } from "../contract/index.ts";
import {
  addBills,
  type Bill,
  type BilledTask,
  type BillOptions,
  billOf,
  dayOf,
} from "../protocol/index.ts";

/** The most sessions that one page of a bill reads. */
const sessionsPerPage = 100;
/** A page with this many rows ends, because each session can add as many as it has tasks. */
const enoughRows = 1_000;

/** The bill of some sessions, and where the next ones begin. */
export interface BillPage {
  readonly bill: Bill;
  /** The id of the last session of the page; absent on the last page. */
  readonly next?: string;
}

/** The task of a record, for a bill. */
export function billedRecord(record: TaskRecord): BilledTask {
  const { agentId: agent, path, tool, userId: user, createdAt, usage, cost, byModel } = record;
  const [session = ""] = path.split("/", 1);
  return {
    ...{ agent, path, session, createdAt },
    ...(tool !== undefined && { tool }),
    ...(user !== undefined && { user }),
    ...(usage && { usage }),
    ...(cost && { cost }),
    ...(byModel && { byModel }),
  };
}

/** The bill of the next sessions, newest first, of a user or of all users. */
export async function billSessions(
  store: Store,
  page: { readonly userId?: string | null; readonly before?: string },
  options: BillOptions,
): Promise<BillPage> {
  const { from = "" } = options;
  const listed = await store.sessions({ ...page, limit: sessionsPerPage });
  let bill = billOf([], options);
  for (const [index, { sessionId, updatedAt }] of listed.entries()) {
    if (dayOf(updatedAt) < from) continue;
    const records = await store.tasks({ conversation: sessionId });
    bill = addBills([bill, billOf(records.map(billedRecord), options)]);
    const isLast = index === listed.length - 1;
    if (bill.rows.length >= enoughRows && !isLast) return { bill, next: sessionId };
  }
  const next = listed.length === sessionsPerPage ? listed.at(-1)?.sessionId : undefined;
  return { bill, ...(next !== undefined && { next }) };
}
