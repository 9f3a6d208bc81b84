import type { TaskRecord } from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";

/**
 * Whom to drive so that a session moves: the task of it that has not ended, or the topmost of the parents that wait for
 * that one in turn. A background task waits for nobody's call. `unfinished` are the records of one tree.
 */
export function driverOf(
  unfinished: readonly TaskRecord[],
  sessionId: string,
): TaskRecord | undefined {
  let driver = unfinished.find((record) => record.sessionId === sessionId);
  while (driver?.mode === "sync") {
    const { parentTaskId } = driver;
    const parent = unfinished.find((record) => record.taskId === parentTaskId);
    if (parent === undefined) break;
    driver = parent;
  }
  return driver;
}

/** Whether one task is above another, by the records of their tree. */
export function isAbove(
  records: ReadonlyMap<string, TaskRecord>,
  taskId: string,
  below: TaskRecord,
): boolean {
  for (
    let parent = below.parentTaskId;
    parent !== undefined;
    parent = records.get(parent)?.parentTaskId
  ) {
    if (parent === taskId) return true;
  }
  return false;
}

/** The tasks below one that have not ended, without those that are below another of them. */
export function unfinishedBelow(
  tree: readonly TaskRecord[],
  taskId: string,
): readonly TaskRecord[] {
  const byId = new Map(tree.map((record) => [record.taskId, record]));
  const open = tree.filter((record) => !isTerminal(record.status) && isAbove(byId, taskId, record));
  return open.filter((one) => !open.some((other) => isAbove(byId, other.taskId, one)));
}

/** What a task can be before it has ended. */
export const unfinished = ["queued", "in_progress", "suspended"] as const;
