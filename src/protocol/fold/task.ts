import type {
  ApprovalRequested,
  ApprovalResolved,
  ChildFinished,
  ChildPromoted,
  ChildStarted,
  HintAdded,
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
} from "../event.ts";
import {
  type Hint,
  isTerminal,
  type SnapshotTask,
  type TaskObject,
  type TaskStatus,
} from "../task.ts";
import {
  type Draft,
  editEntry,
  editList,
  editTask,
  pick,
  stateOf,
  type TaskNode,
} from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import { ownItem } from "./item.ts";
import { link, linkByItem } from "./link.ts";

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
  | HintAdded
  | TaskUsage
  | TaskCustom;

const lifecycleNames = [
  "agent_id",
  "session_id",
  "remote",
  "created_at",
  "completed_at",
  "usage",
  "subtree_usage",
  "error",
  "reason",
  "generate_reason",
  "structured",
  "metadata",
] as const;
/** The fields of a task that lifecycle events carry: name on the wire, name in the tree. */
const lifecycleFields = inBothCases(...lifecycleNames);
/** The fields of a task that snapshots carry. */
export const snapshotFields = inBothCases(
  ...lifecycleNames,
  ...(["cancelling", "suspension", "cost", "by_model"] as const),
);
/** The fields that a snapshot does not remove: the parent's events may have set them. */
const keptFields = [
  "id",
  "children",
  "unplaced",
  "parked",
  "parentTaskId",
  "callId",
  "parentItemId",
  "parentOutputIndex",
  "mode",
  "remote",
  "agentId",
  "usage",
];

function inBothCases(...names: (keyof SnapshotTask)[]): ReadonlyMap<string, string> {
  return new Map(
    names.map((name) => [name, name.replace(/_./g, ([, c]) => (c as string).toUpperCase())]),
  );
}

/** Folds the start and the end of a task; the type of the event sets the status, not its payload. */
export function foldLifecycle(draft: Draft, event: LifecycleEvent, options: FoldOptions): boolean {
  const isCreated = event.type === "task.created";
  if (isCreated && event.task_seq > 0) return false; // The task exists already.
  if (!linkParent(draft, event.task_id, event.task)) return false;
  const task = editTask(draft, event.task_id);
  task.status = isCreated ? "queued" : (event.type.slice("task.".length) as TaskStatus);
  if (isTerminal(task.status)) {
    delete task.suspension;
    delete task.cancelling;
  }
  takeOver(draft, task, event.task, lifecycleFields, options);
  return true;
}

/** Folds the other events of a task as a whole. */
export function foldTask(draft: Draft, event: TaskLevelEvent): boolean {
  const task = editTask(draft, event.task_id);
  switch (event.type) {
    case "task.suspended":
      task.status = "suspended";
      task.suspension = pick(event, "reason", "approval_ids", "waiting_on", "expires_at");
      if (event.generate_reason !== undefined) task.generateReason = event.generate_reason;
      break;
    case "task.resumed":
      task.status = "in_progress";
      delete task.suspension;
      delete task.generateReason;
      break;
    case "task.cancelling":
      task.cancelling = true;
      break;
    case "task.approval.requested":
    case "task.approval.resolved":
      return foldApproval(draft, task, event);
    case "task.hint.added":
      task.hints = editList(draft, task.hints ?? []);
      (task.hints as Hint[]).push(event.hint);
      break;
    case "task.usage":
      task.usage = event.usage;
      if (event.cost !== undefined) task.cost = event.cost;
      if (event.by_model !== undefined) task.byModel = event.by_model;
      break;
    case "task.custom":
      task.state = (task.state ?? stateOf({})).set(event.name, event.value, draft.owned);
      break;
    default:
      return foldChild(draft, event);
  }
  return true;
}

/** Replaces a task with a snapshot, except for its children. */
export function foldSnapshot(draft: Draft, event: TaskSnapshot, options: FoldOptions): boolean {
  const sent = event.task;
  if (!linkParent(draft, event.task_id, sent, sent.parent_output_index)) return false;
  const task = editTask(draft, event.task_id);
  for (const key of Object.keys(task)) {
    if (!keptFields.includes(key)) delete (task as unknown as Record<string, unknown>)[key];
  }
  task.status = sent.status;
  task.output = [];
  task.approvals = sent.approvals?.map((approval) => ({ ...approval })) ?? [];
  task.appliedSeq = event.through_task_seq;
  if (event.source !== undefined) task.source = event.source;
  if (sent.hints !== undefined) task.hints = sent.hints.slice();
  if (sent.state !== undefined) task.state = stateOf(sent.state);
  takeOver(draft, task, sent, snapshotFields, options);
  return true;
}

/** Links a child to the parent that it names; returns false if that is impossible. */
function linkParent(draft: Draft, taskId: string, sent: TaskObject, index?: number): boolean {
  if (sent.parent_task_id === undefined) return true;
  // The parent's own event, before or after this one, says which call started the child.
  const { callId, parentItemId, parentOutputIndex } = draft.table.get(taskId) ?? {};
  return link(draft, taskId, {
    parentTaskId: sent.parent_task_id,
    callId: callId ?? sent.parent_call_id,
    itemId: parentItemId ?? sent.parent_item_id,
    outputIndex: parentOutputIndex ?? index,
  });
}

/** Copies the fields that lifecycle events and snapshots share to the task; the grammar has checked no others. */
function takeOver(
  draft: Draft,
  task: TaskNode,
  sent: TaskObject,
  fields: typeof snapshotFields,
  options: FoldOptions,
): void {
  for (const name in sent) {
    const ownName = fields.get(name);
    const value = sent[name as keyof TaskObject];
    if (ownName === undefined || value === undefined) continue;
    (task as unknown as Record<string, unknown>)[ownName] = value;
  }
  setMode(task, sent.mode);
  if (sent.incomplete_details !== undefined) task.incompleteReason = sent.incomplete_details.reason;
  if (task.output.length > 0 || sent.output === undefined) return;
  const output = sent.output.map(ownItem);
  task.output = output;
  output.forEach((item, index) => {
    if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
  });
}

/** Links a parent and its child, and sets what the child's own events have not set yet. */
function foldChild(draft: Draft, event: ChildStarted | ChildFinished | ChildPromoted): boolean {
  const linked = link(draft, event.child_task_id, {
    parentTaskId: event.task_id,
    callId: event.call_id,
    itemId: event.item_id,
    outputIndex: event.output_index,
  });
  if (!linked) return false;
  const child = editTask(draft, event.child_task_id);
  if (event.type === "task.child.finished") {
    if (child.appliedSeq < 0) child.status = event.status;
    if (event.usage !== undefined) child.usage ??= event.usage;
    return true;
  }
  setMode(child, event.mode);
  if (event.type === "task.child.started") {
    if (event.remote !== undefined) child.remote ??= event.remote;
    child.agentId ??= event.agent.id;
  }
  return true;
}

/** A child in the background does not return to its parent, whichever event arrives first. */
function setMode(task: TaskNode, mode: TaskNode["mode"]): void {
  if (mode !== undefined && task.mode !== "background") task.mode = mode;
}

/** Folds the request and the decision of an approval; there is one of each. */
function foldApproval(
  draft: Draft,
  task: TaskNode,
  event: ApprovalRequested | ApprovalResolved,
): boolean {
  const approvals = editList(draft, task.approvals);
  const at = approvals.findIndex((known) => known.approval_id === event.approval_id);
  if (event.type === "task.approval.requested") {
    if (at >= 0) return false;
    const {
      type,
      task_id,
      sequence_number,
      task_seq,
      prev_task_seq,
      created_at,
      source,
      ...asked
    } = event;
    approvals.push(asked);
  } else {
    if (at < 0 || approvals[at]?.decision !== undefined) return false;
    Object.assign(editEntry(draft, approvals, at), pick(event, "decision", "by", "reason"));
  }
  task.approvals = approvals;
  return true;
}
