import type { LogEvent, TaskCreated } from "../event.ts";
import type { TaskStatus } from "../task.ts";
import { isTerminal } from "../task.ts";
import type { Check, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

/** From where a task may come to each state; `task.resumed` alone leads out of a suspension. */
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

/** A task begins, waits, goes on and ends, along the legal edges only. */
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
      checkAllClosed(check, task);
      move(check, task, event.task.status);
      return;
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

/** The first thing that a task says must be that it exists. */
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
    report(check, "link", `${show(task.id)} claims to be its own parent`);
    return;
  }
  if (!check.tasks.has(parent_task_id) && !check.lenient) {
    report(check, "link", `the parent ${show(parent_task_id)} is not in the log`);
  }
  const told = check.children.get(task.id);
  if (told !== undefined && told.parentId !== parent_task_id) {
    report(check, "link", `${show(told.parentId)} started it, ${show(parent_task_id)} is named`);
  } else if (told !== undefined && told.itemId !== parent_item_id) {
    report(check, "link", `${show(told.itemId)} holds it, ${show(parent_item_id)} is named`);
  } else if (told?.mode === "sync" && mode === "background") {
    report(check, "link", `${show(told.parentId)} started it as sync, it says background`);
  }
}

function checkRoot(check: Check, task: TaskState): void {
  if (check.children.has(task.id)) {
    report(check, "link", `the child ${show(task.id)} does not name its parent`);
  } else if (check.rootId !== undefined && !check.lenient) {
    report(check, "link", `a second task without a parent; the root is ${show(check.rootId)}`);
  } else {
    check.rootId = task.id;
  }
}

/** What a suspended task waits for must be known. */
function checkWaits(check: Check, approvals: readonly string[], tasks: readonly string[]): void {
  if (check.lenient) return;
  for (const id of approvals) {
    if (!check.approvals.has(id)) {
      report(check, "approval", `waits for the approval ${show(id)}, which nobody requested`);
    }
  }
  for (const id of tasks) {
    if (!check.tasks.has(id)) report(check, "link", `waits for the unknown task ${show(id)}`);
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
