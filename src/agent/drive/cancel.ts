import { notFound } from "../../protocol/error.ts";
import { userMessage } from "../../protocol/message.ts";
import type { Post, Store, TaskRecord } from "../../protocol/store.ts";
import { isTerminal } from "../../protocol/task.ts";
import { refOf } from "../loop/ending.ts";
import { unfinishedBelow } from "./plan.ts";

/** The row that cancels a task; with `ifQueued` only if the task has not begun. */
export function cancelRow(record: TaskRecord, reason: string, ifQueued = false): Post {
  const id = `${ifQueued ? "withdraw" : "cancel"}:${record.taskId}`;
  const row = { id, kind: "cancel", ...refOf(record), message: userMessage(reason) } as const;
  return ifQueued ? { ...row, ifQueued } : row;
}

/** Cancels a task or, if it has ended, its unfinished descendants; returns the tasks that will end. */
export async function postCancel(
  store: Store,
  taskId: string,
  reason: string,
): Promise<readonly TaskRecord[]> {
  const record = await store.task(taskId);
  if (record === undefined) throw notFound("task", taskId);
  const targets = isTerminal(record.status)
    ? unfinishedBelow(await store.tasks({ rootTaskId: record.rootTaskId }), taskId)
    : [record];
  if (targets.length > 0) await store.post(targets.map((target) => cancelRow(target, reason)));
  return targets;
}
