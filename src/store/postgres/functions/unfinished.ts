import { unfinishedStatuses } from "../../task-queue.ts";

/** The statuses of a task that has not ended, as SQL. */
export const unfinished = `(${unfinishedStatuses.map((status) => `'${status}'`).join()})`;
