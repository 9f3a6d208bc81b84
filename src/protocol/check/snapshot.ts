import type { TaskSnapshot } from "../event.ts";
import { isTerminal } from "../task.ts";
import { rememberItem } from "./items.ts";
import type { Check, TaskState } from "./state.ts";
import { taskState } from "./state.ts";

/** Replaces the state of a task with a snapshot. */
export function takeSnapshot(check: Check, event: TaskSnapshot): TaskState {
  const { task: sent } = event;
  check.lenient = true;
  check.tasks.delete(event.task_id);
  check.lastSequence = Math.max(check.lastSequence, event.through_sequence_number);
  const task = taskState(check, event.task_id);
  task.status = sent.status;
  task.ended = isTerminal(sent.status);
  task.lastSeq = event.through_task_seq;
  task.sessionId = sent.session_id;
  task.parentId = sent.parent_task_id;
  task.parentItemId = sent.parent_item_id;
  task.mode = sent.mode;
  if (sent.parent_task_id !== undefined && sent.parent_item_id !== undefined) {
    check.children.set(task.id, {
      parentId: sent.parent_task_id,
      itemId: sent.parent_item_id,
      index: check.index,
      mode: sent.mode ?? "sync",
      finished: false,
    });
  }
  task.totalTokens = sent.usage?.total_tokens ?? 0;
  for (const [at, item] of (sent.output ?? []).entries()) {
    if (item.type === "omitted") continue;
    const state = rememberItem(check, task, at, item);
    if (item.type === "discarded") state.state = "discarded";
    else if (item.status !== "in_progress") state.state = "done";
  }
  for (const { approval_id, decision } of sent.approvals ?? []) {
    check.approvals.set(approval_id, { taskId: task.id, resolved: decision !== undefined });
  }
  return task;
}
