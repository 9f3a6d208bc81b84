import type { Store } from "../../contract/index.ts";
import { type Task, TaskTree, taskOf } from "../../protocol/index.ts";
import { readPages } from "../../store/index.ts";
import { type Used, usedBy } from "../base/budget.ts";

/** A task's state according to its log, and the usage of its subtree; snapshots replace a trimmed beginning. */
export async function foldTask(
  store: Store,
  { taskId, rootTaskId }: { readonly taskId: string; readonly rootTaskId: string },
): Promise<{ readonly task: Task | undefined; readonly used: Used }> {
  const modelCalls = new Map<string, number>();
  const folded = new TaskTree();
  for await (const { frames } of readPages(store, rootTaskId)) {
    folded.apply(frames);
    for (const { type, task_id = "" } of frames)
      if (type === "task.usage") modelCalls.set(task_id, (modelCalls.get(task_id) ?? 0) + 1);
  }
  const { tree } = folded;
  return { task: taskOf(tree, taskId), used: usedBy(tree, taskId, modelCalls) };
}
