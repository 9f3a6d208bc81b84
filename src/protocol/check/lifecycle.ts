import type { LogEvent, TaskCreated } from "../event.ts";
import type { TaskStatus } from "../task.ts";
import { isTerminal } from "../task.ts";
import type { Check, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

/** The states from which a task may enter each state; only `task.resumed` ends a suspension. */
const comesFrom: Readonly<Record<Exclude<TaskStatus, "queued">, readonly TaskStatus[]>> = {
  in_progress: ["queued"],
  suspended: ["in_progress"],
  completed: ["in_progress"],
  incomplete: ["in_progress"],
  failed: ["queued", "in_progress", "suspended"],
  cancelled: ["queued", "in_progress", "suspended"],
};

type LifecycleEvent = Extract<
  LogEvent,
  {
    readonly type:
      | "task.created"
      | "task.in_progress"
      | "task.suspended"
      | "task.resumed"
      | "task.completed"
      | "task.failed"
      | "task.cancelled"
      | "task.incomplete";
  }
>;

/** Checks the lifecycle of a task. */
export function checkLifecycle(check: Check, task: TaskState, event: LifecycleEvent): void {
  switch (event.type) {
    case "task.created":
      checkCreated(check, task, event);
      return;
    case "task.in_progress":
      move(check, task, "in_progress");
      return;
    case "task.resumed":
      if (task.status !== "suspended" && event.reason !== "recovered") {
        report(check, "edge", `task.resumed on a task that is ${task.status}`);
      }
      task.status = "in_progress";
      return;
    case "task.suspended":
      checkWaits(check, event.approval_ids ?? [], event.waiting_on ?? []);
      move(check, task, "suspended");
      return;
    default:
      checkUsage(check, task, event.task.usage?.total_tokens);
      checkCause(check, event);
      checkAllClosed(check, task);
      move(check, task, event.task.status);
      return;
  }
}

/** A task that fails or is incomplete gives the reason. */
function checkCause(
  check: Check,
  { type, task }: LifecycleEvent & { readonly task: object },
): void {
  if (type === "task.failed" && task.error === undefined) {
    report(check, "L3", "task.failed has no task.error");
  } else if (type === "task.incomplete" && task.incomplete_details === undefined) {
    report(check, "L3", "task.incomplete has no task.incomplete_details");
  }
}

/** Usage only grows. */
export function checkUsage(check: Check, task: TaskState, total: number | undefined): void {
  if (total === undefined) return;
  if (total < task.totalTokens) {
    report(check, "usage", `total_tokens ${total} is less than ${task.totalTokens} before`);
  }
  task.totalTokens = total;
}

/** The first event of a task is `task.created`. */
export function checkBegun(check: Check, task: TaskState, type: string): void {
  if (task.status !== undefined || type === "task.created") return;
  report(check, "edge", `the first event of ${show(task.id)} is ${show(type)}, not task.created`);
  task.status = type === "task.in_progress" ? "queued" : "in_progress";
}

function checkCreated(check: Check, task: TaskState, event: TaskCreated): void {
  if (task.status !== undefined) {
    report(check, "edge", `${show(task.id)} was already created`);
    return;
  }
  const { parent_task_id, parent_call_id, parent_item_id, mode, session_id } = event.task;
  task.status = "queued";
  task.sessionId = session_id;
  task.linkedAt = check.index;
  if (parent_task_id === undefined) {
    checkRoot(check, task);
    return;
  }
  task.parentId = parent_task_id;
  task.parentItemId = parent_item_id;
  task.mode = mode;
  if (parent_call_id === undefined || parent_item_id === undefined || mode === undefined) {
    report(check, "link", "a child's task.created needs parent_call_id, parent_item_id and mode");
  }
  if (parent_call_id !== undefined && parent_call_id !== task.id) {
    report(check, "link", `${show(task.id)} is not the id of the call ${show(parent_call_id)}`);
  }
  if (parent_task_id === task.id) {
    report(check, "link", `${show(task.id)} is its own parent`);
    return;
  }
  if (!check.tasks.has(parent_task_id) && !check.lenient) {
    report(check, "link", `the parent ${show(parent_task_id)} is not in the log`);
  }
  const link = check.children.get(task.id);
  if (link !== undefined && link.parentId !== parent_task_id) {
    report(check, "link", `the parent is ${show(link.parentId)}, not ${show(parent_task_id)}`);
  } else if (link !== undefined && link.itemId !== parent_item_id) {
    report(check, "link", `the item is ${show(link.itemId)}, not ${show(parent_item_id)}`);
  } else if (link?.mode === "sync" && mode === "background") {
    report(check, "link", "the mode is sync, not background");
  }
}

function checkRoot(check: Check, task: TaskState): void {
  if (check.children.has(task.id)) {
    report(check, "link", `the child ${show(task.id)} does not name its parent`);
  } else if (check.rootId !== undefined && !check.lenient) {
    report(check, "link", `${show(task.id)} has no parent, but the root is ${show(check.rootId)}`);
  } else {
    check.rootId = task.id;
  }
}

/** A suspended task waits for approvals and tasks of this stream. */
function checkWaits(check: Check, approvals: readonly string[], tasks: readonly string[]): void {
  if (check.lenient) return;
  for (const id of approvals) {
    if (!check.approvals.has(id)) {
      report(check, "approval", `the approval ${show(id)} was not requested`);
    }
  }
  for (const id of tasks) {
    if (!check.tasks.has(id)) report(check, "link", `the task ${show(id)} is unknown`);
  }
}

function checkAllClosed(check: Check, task: TaskState): void {
  const open = [...task.itemAt.values()].filter((item) => item.state === "open");
  if (open.length === 0) return;
  const more = open.length > 1 ? ` and ${open.length - 1} more` : "";
  report(check, "L3", `the task ends while ${show(open[0]?.id)}${more} is open`);
}

function move(check: Check, task: TaskState, to: Exclude<TaskStatus, "queued">): void {
  const from = task.status;
  if (from === undefined || !comesFrom[to].includes(from)) {
    report(check, "edge", `a task cannot go from ${from} to ${to}`);
  }
  task.status = to;
  task.ended = isTerminal(to);
}
