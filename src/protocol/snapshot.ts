import type { TaskSnapshot } from "./event.ts";
import { taskOf } from "./select.ts";
import type { SnapshotTask, Task, Tree } from "./task.ts";

/** A task as `task.snapshot` carries it: a reader that folds it and the events after it misses nothing. */
export function snapshotOf(
  tree: Tree,
  taskId: string,
  through: { readonly sequenceNumber: number; readonly createdAt: number },
): TaskSnapshot | undefined {
  const task = taskOf(tree, taskId);
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
}

function taskObject(task: Task, status: SnapshotTask["status"]): SnapshotTask {
  const all: SnapshotTask = {
    id: task.id,
    object: "task",
    status,
    agent_id: task.agentId,
    session_id: task.sessionId,
    parent_task_id: task.parentTaskId,
    parent_call_id: task.callId,
    parent_item_id: task.parentItemId,
    parent_output_index: task.parentOutputIndex,
    mode: task.mode,
    remote: task.remote,
    created_at: task.createdAt,
    completed_at: task.completedAt,
    usage: task.usage,
    subtree_usage: task.subtreeUsage,
    cost: task.cost,
    error: task.error,
    reason: task.reason,
    incomplete_details:
      task.incompleteReason === undefined ? undefined : { reason: task.incompleteReason },
    generate_reason: task.generateReason,
    structured: task.structured,
    metadata: task.metadata,
    approvals: task.approvals.length > 0 ? task.approvals : undefined,
    cancelling: task.cancelling,
    suspension: task.suspension,
    state: task.state,
  };
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => value !== undefined),
  ) as unknown as SnapshotTask;
}
