import type { ApprovalRequested, ApprovalResolved } from "../event.ts";
import type { AnyItem, Check, CheckedTask } from "./checked.ts";
import { itemAt, report } from "./checked.ts";
import { isSame, show } from "./problem.ts";

/** A result belongs to one call of its task, and a call has one result. */
export function checkResult(
  check: Check,
  task: CheckedTask,
  { call_id: callId = "" }: AnyItem,
): void {
  if (!task.calls.has(callId) && !check.options.filtered) {
    report(check, "call", `the task has no call ${show(callId)}`);
  } else if (task.results.has(callId)) {
    report(check, "call", `the call ${show(callId)} has a result already`);
  }
}

/** At its end a task has a call for every result, and, if it was not interrupted, a result for every call. */
export function checkCalls(check: Check, task: CheckedTask, isFinished: boolean): void {
  if (check.options.filtered) return;
  for (const [callId, at] of task.calls) {
    const call = itemAt(task, at);
    if (isFinished && call?.status === "completed" && !task.results.has(callId))
      report(check, "call", `the call ${show(call.id)} has no result`);
  }
  for (const [callId, at] of task.results) {
    if (!task.calls.has(callId))
      report(check, "call", `the result ${show(itemAt(task, at)?.id)} has no call`);
  }
}

/** An approval is requested once, for a call that has no result yet, and resolved once. */
export function checkApproval(
  check: Check,
  task: CheckedTask,
  event: ApprovalRequested | ApprovalResolved,
): void {
  const id = event.approval_id;
  const known = check.approvals.get(id);
  if (event.type === "task.approval.requested") {
    if (known !== undefined) report(check, "approval", `${show(id)} was already requested`);
    else check.approvals.set(id, { taskId: task.id, resolved: false });
    checkAsked(check, task, event);
  } else if (known === undefined) {
    if (!check.options.filtered) report(check, "approval", `${show(id)} was never requested`);
  } else if (known.taskId !== task.id) {
    report(check, "approval", `${show(id)} was requested by ${show(known.taskId)}`);
  } else if (known.resolved) {
    report(check, "approval", `${show(id)} was already resolved`);
  } else {
    known.resolved = true;
  }
}

/** An approval shows the call that waits; only a stop may be about no call. */
function checkAsked(check: Check, task: CheckedTask, event: ApprovalRequested): void {
  const { kind, call_id: callId = "", output_index: at, item_id: itemId } = event;
  if (kind === "stop" && callId === "") return;
  const call = itemAt(task, task.calls.get(callId));
  const item = itemAt(task, at);
  if (item?.id !== itemId && (item !== undefined || !check.options.filtered))
    report(check, "I3", `${show(itemId)} is not the item at ${show(at)}`);
  if (call === undefined) {
    if (!check.options.filtered)
      report(check, "approval", `the task has no call ${show(callId)} to ask about`);
    return;
  }
  if (item !== undefined && item !== call)
    report(check, "approval", `${show(item.id)} is not the call ${show(callId)}`);
  const result = itemAt(task, task.results.get(callId));
  if (result && result.status !== "in_progress")
    report(check, "approval", `the call ${show(callId)} has a result already`);
  // A call that started a child may ask for one of the child's calls.
  if (!event.edited && !check.children.has(callId) && !isShown(call, event))
    report(check, "approval", `the approval shows another tool or input than ${show(call.id)}`);
}

function isShown(call: AnyItem, { name, arguments: input = "" }: ApprovalRequested): boolean {
  return name === call.name && isSameInput(call.arguments ?? "", input);
}

/** Whether two arguments are the same JSON. */
export function isSameInput(left: string, right: string): boolean {
  return left === right || isSame(parsed(left), parsed(right));
}

/** Arguments that are not JSON are compared as text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text === "" ? {} : text;
  }
}
