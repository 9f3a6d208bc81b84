import { readInput, readText } from "../base/argument.ts";
import type { TaskSnapshot } from "./event.ts";
import { snapshotFields } from "./fold/task.ts";
import { readTree, taskOf } from "./select.ts";
import { isCursor, isIndex } from "./shape.ts";
import type { SnapshotTask, Task, Tree } from "./task.ts";

/** The `task.snapshot` of a task; folding it and the events after it gives the same tree. */
export function snapshotOf(
  tree: Tree,
  taskId: string,
  through: { readonly sequenceNumber: number; readonly createdAt: number },
): TaskSnapshot | undefined {
  const expected = "an object with the numbers sequenceNumber and createdAt";
  const fits = () => isCursor(through.sequenceNumber) && isIndex(through.createdAt);
  readInput("through", expected, through, fits);
  return readTree(tree, () => {
    const task = taskOf(tree, readText("taskId", taskId));
    if (task === undefined || task.status === "unknown") return undefined;
    return {
      type: "task.snapshot",
      task_id: task.id,
      through_sequence_number: through.sequenceNumber,
      through_task_seq: task.appliedSeq,
      created_at: through.createdAt,
      ...(task.source !== undefined && { source: task.source }),
      task: { ...taskObject(task, task.status), output: task.output },
    };
  });
}

function taskObject(task: Task, status: SnapshotTask["status"]): SnapshotTask {
  const linked = [
    ...snapshotFields,
    ["parent_task_id", "parentTaskId"],
    ["parent_call_id", "callId"],
    ["parent_item_id", "parentItemId"],
    ["parent_output_index", "parentOutputIndex"],
    ["mode", "mode"],
    ["hints", "hints"],
    ["state", "state"],
  ] as const;
  const present = linked.flatMap(([name, ownName]) => {
    const value = task[ownName as keyof Task];
    return value === undefined ? [] : [[name, value]];
  });
  const { approvals, incompleteReason: reason } = task;
  return {
    id: task.id,
    object: "task",
    status,
    ...(Object.fromEntries(present) as Partial<SnapshotTask>),
    ...(approvals.length > 0 && { approvals }),
    ...(reason !== undefined && { incomplete_details: { reason } }),
  };
}
