import { TaskTree } from "../protocol/reduce.ts";
import { taskOf } from "../protocol/select.ts";
import type { Store } from "../protocol/store.ts";
import type { Task } from "../protocol/task.ts";
import { readFrames } from "../store/index.ts";
import { type Used, usedBy } from "./budget.ts";

const pageSize = 1_000;

/** Where its log says a task stands, and what its subtree has used. */
export interface FoldedTask {
  readonly task: Task | undefined;
  readonly used: Used;
}

/** Reads a root task's log, from what stands for its beginning when that was trimmed, and folds it. */
export async function foldTask(
  store: Store,
  { taskId, rootTaskId }: { readonly taskId: string; readonly rootTaskId: string },
): Promise<FoldedTask> {
  const tree = new TaskTree();
  const modelCalls = new Map<string, number>();
  for (let after = -1; ; ) {
    const { frames, through } = await readFrames(store, rootTaskId, after, pageSize);
    if (through === after) break;
    tree.apply(frames);
    for (const { type, task_id } of frames) {
      if (type === "task.usage") modelCalls.set(task_id, (modelCalls.get(task_id) ?? 0) + 1);
    }
    after = through;
  }
  return { task: taskOf(tree.tree, taskId), used: usedBy(tree.tree, taskId, modelCalls) };
}
