import type { Draft, Mutable, Verdict } from "./draft.ts";
import { editEntry, editList, editTask } from "./draft.ts";
import type {
  ApprovalRequested,
  ApprovalResolved,
  ChildFinished,
  ChildPromoted,
  ChildStarted,
  TaskCancelled,
  TaskCancelling,
  TaskCompleted,
  TaskCreated,
  TaskCustom,
  TaskFailed,
  TaskIncomplete,
  TaskInProgress,
  TaskResumed,
  TaskSnapshot,
  TaskSuspended,
  TaskUsage,
} from "./event.ts";
import type { FoldOptions } from "./fold.ts";
import { ownItem } from "./fold-item.ts";
import { link, linkByItem } from "./link.ts";
import type { ApprovalState, SnapshotTask, Suspension, Task, TaskStatus } from "./task.ts";
import { isTerminal } from "./task.ts";

type LifecycleEvent =
  | TaskCreated
  | TaskInProgress
  | TaskCompleted
  | TaskFailed
  | TaskCancelled
  | TaskIncomplete;
type TaskLevelEvent =
  | TaskSuspended
  | TaskResumed
  | TaskCancelling
  | ChildStarted
  | ChildFinished
  | ChildPromoted
  | ApprovalRequested
  | ApprovalResolved
  | TaskUsage
  | TaskCustom;

const statusOf = {
  "task.created": "queued",
  "task.in_progress": "in_progress",
  "task.completed": "completed",
  "task.failed": "failed",
  "task.cancelled": "cancelled",
  "task.incomplete": "incomplete",
} as const satisfies Record<LifecycleEvent["type"], TaskStatus>;

/** A task begins, works and ends; its status is the event's name, whatever the payload claims. */
export function foldLifecycle(draft: Draft, event: LifecycleEvent, options: FoldOptions): Verdict {
  if (event.type === "task.created" && event.task_seq > 0) return "ignored"; // It has begun already.
  if (!linkParent(draft, event.task_id, event.task)) return "ignored";
  const task = editTask(draft, event.task_id);
  task.status = statusOf[event.type];
  if (isTerminal(task.status)) endWait(task);
  takeOver(draft, task, event.task, options);
  return "applied";
}

/** Everything else that happens to a task as a whole. */
export function foldTask(draft: Draft, event: TaskLevelEvent): Verdict {
  const task = editTask(draft, event.task_id);
  switch (event.type) {
    case "task.suspended":
      task.status = "suspended";
      task.suspension = suspensionOf(event);
      if (event.generate_reason !== undefined) task.generateReason = event.generate_reason;
      return "applied";
    case "task.resumed":
      task.status = "in_progress";
      delete task.suspension;
      delete task.generateReason;
      return "applied";
    case "task.cancelling":
      task.cancelling = true;
      return "applied";
    case "task.child.started":
    case "task.child.finished":
    case "task.child.promoted":
      return foldChild(draft, event);
    case "task.approval.requested":
      return requestApproval(draft, task, event);
    case "task.approval.resolved":
      return resolveApproval(draft, task, event);
    case "task.usage":
      task.usage = event.usage;
      if (event.cost !== undefined) task.cost = event.cost;
      return "applied";
    case "task.custom":
      task.state = { ...task.state, [event.name]: event.value };
      return "applied";
  }
}

/** A server's word on where a task stands replaces what was assembled; children stay, they have their own. */
export function foldSnapshot(draft: Draft, event: TaskSnapshot, options: FoldOptions): Verdict {
  const sent = event.task;
  if (!linkParent(draft, event.task_id, sent)) return "ignored";
  const task = editTask(draft, event.task_id);
  const { children, parked, parentTaskId, callId, parentItemId, parentOutputIndex, mode } = task;
  for (const key of Object.keys(task)) delete (task as unknown as Record<string, unknown>)[key];
  Object.assign(task, {
    id: event.task_id,
    status: sent.status,
    output: [],
    children,
    approvals: sent.approvals?.map((approval) => ({ ...approval })) ?? [],
    appliedSeq: event.through_task_seq,
    ...(parked !== undefined && { parked }),
    ...(parentTaskId !== undefined && { parentTaskId }),
    ...(callId !== undefined && { callId }),
    ...(parentItemId !== undefined && { parentItemId }),
    ...(parentOutputIndex !== undefined && { parentOutputIndex }),
    ...(mode !== undefined && { mode }),
    ...(event.source !== undefined && { source: event.source }),
    ...(sent.cancelling !== undefined && { cancelling: sent.cancelling }),
    ...(sent.suspension !== undefined && { suspension: sent.suspension }),
    ...(sent.cost !== undefined && { cost: sent.cost }),
    ...(sent.state !== undefined && { state: sent.state }),
  } satisfies Partial<Task>);
  takeOver(draft, task, sent, options);
  return "applied";
}

/** What a child itself says of its parent; false when that cannot be. */
function linkParent(draft: Draft, taskId: string, sent: Partial<SnapshotTask>): boolean {
  if (sent.parent_task_id === undefined) return true;
  return link(draft, taskId, {
    parentTaskId: sent.parent_task_id,
    callId: sent.parent_call_id,
    itemId: sent.parent_item_id,
    outputIndex: sent.parent_output_index,
  });
}

/** The parts of a task that its lifecycle events and snapshots may carry. */
function takeOver(
  draft: Draft,
  task: Mutable<Task>,
  sent: Partial<SnapshotTask>,
  options: FoldOptions,
): void {
  if (sent.agent_id !== undefined) task.agentId = sent.agent_id;
  if (sent.session_id !== undefined) task.sessionId = sent.session_id;
  // A promotion may be told by the parent before the child says how it began.
  if (sent.mode !== undefined && task.mode !== "background") task.mode = sent.mode;
  if (sent.remote !== undefined) task.remote = sent.remote;
  if (sent.created_at !== undefined) task.createdAt = sent.created_at;
  if (sent.completed_at !== undefined) task.completedAt = sent.completed_at;
  if (sent.usage !== undefined) task.usage = sent.usage;
  if (sent.subtree_usage !== undefined) task.subtreeUsage = sent.subtree_usage;
  if (sent.error !== undefined) task.error = sent.error;
  if (sent.reason !== undefined) task.reason = sent.reason;
  if (sent.incomplete_details !== undefined) task.incompleteReason = sent.incomplete_details.reason;
  if (sent.generate_reason !== undefined) task.generateReason = sent.generate_reason;
  if (sent.structured !== undefined) task.structured = sent.structured;
  if (sent.metadata !== undefined) task.metadata = sent.metadata;
  if (task.output.length > 0 || sent.output === undefined) return;
  const output = sent.output.map(ownItem);
  task.output = output;
  output.forEach((item, index) => {
    if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
  });
}

/** A parent speaks of its child: it links them, and fills in what the child itself has not said yet. */
function foldChild(draft: Draft, event: ChildStarted | ChildFinished | ChildPromoted): Verdict {
  const linked = link(draft, event.child_task_id, {
    parentTaskId: event.task_id,
    callId: event.call_id,
    itemId: event.item_id,
    outputIndex: event.output_index,
  });
  if (!linked) return "ignored";
  const child = editTask(draft, event.child_task_id);
  switch (event.type) {
    case "task.child.started":
      child.mode ??= event.mode;
      if (event.remote !== undefined) child.remote ??= event.remote;
      if (event.agent !== undefined) child.agentId ??= event.agent.id;
      return "applied";
    case "task.child.promoted":
      child.mode = "background";
      return "applied";
    case "task.child.finished":
      if (child.appliedSeq < 0) {
        child.status = event.status;
        if (event.usage !== undefined) child.usage = event.usage;
      }
      return "applied";
  }
}

function requestApproval(draft: Draft, task: Mutable<Task>, event: ApprovalRequested): Verdict {
  if (task.approvals.some((known) => known.approval_id === event.approval_id)) return "ignored";
  const { type, task_id, sequence_number, task_seq, prev_task_seq, created_at, source, ...asked } =
    event;
  const approvals = editList(draft, task.approvals);
  approvals.push(asked);
  task.approvals = approvals;
  return "applied";
}

function resolveApproval(draft: Draft, task: Mutable<Task>, event: ApprovalResolved): Verdict {
  const at = task.approvals.findIndex((known) => known.approval_id === event.approval_id);
  if (at < 0 || (task.approvals[at] as ApprovalState).decision !== undefined) return "ignored";
  const approvals = editList(draft, task.approvals);
  task.approvals = approvals;
  const approval = editEntry(draft, approvals, at);
  approval.decision = event.decision;
  if (event.by !== undefined) approval.by = event.by;
  if (event.reason !== undefined) approval.reason = event.reason;
  return "applied";
}

function suspensionOf(event: TaskSuspended): Suspension {
  const { reason, approval_ids, waiting_on, expires_at } = event;
  return {
    reason,
    ...(approval_ids !== undefined && { approval_ids }),
    ...(waiting_on !== undefined && { waiting_on }),
    ...(expires_at !== undefined && { expires_at }),
  };
}

function endWait(task: Mutable<Task>): void {
  delete task.suspension;
  delete task.cancelling;
}
