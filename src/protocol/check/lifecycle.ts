import type { LogEvent, TaskCreated, TaskResumed, TaskSuspended } from "../event.ts";
import { flat } from "../fold/pages.ts";
import type { TaskObject, TaskStatus, Usage } from "../task.ts";
import { checkCalls } from "./calls.ts";
import type { Check, CheckedTask } from "./checked.ts";
import { foldInto, hasEnded, report } from "./checked.ts";
import { causeFlaws, type Flaw, reasonFlaws, resumeReasons, usageFlaws } from "./flaws.ts";
import { show } from "./problem.ts";

/** The states from which a task may enter each state; only `task.resumed` ends a suspension. */
const comesFrom: Readonly<Record<Exclude<TaskStatus, "queued">, readonly TaskStatus[]>> = {
  in_progress: ["queued"],
  suspended: ["in_progress"],
  completed: ["in_progress"],
  incomplete: ["in_progress"],
  failed: ["queued", "in_progress", "suspended"],
  cancelled: ["queued", "in_progress", "suspended"],
};

/** Events that only a working task emits; a suspended task may still close items and be answered. */
const work =
  /^task\.(text|image|block|reasoning|tool_call|tool_result|child\.(started|promoted))|\.requested$|item\.added$/;

type LifecycleEvent = TaskSuspended | TaskResumed | Extract<LogEvent, { readonly task: object }>;

/** Checks the lifecycle of a task. */
export function checkLifecycle(check: Check, task: CheckedTask, event: LifecycleEvent): void {
  if ("task" in event) checkIdentity(check, task, event.task);
  switch (event.type) {
    case "task.created":
      checkCreated(check, task, event);
      return;
    case "task.in_progress":
      move(check, task, event, "in_progress");
      return;
    case "task.resumed":
      if (!resumeReasons.includes(event.reason))
        report(check, "reason", `${show(event.reason)} is not a reason to resume`);
      if (task.node.status !== "suspended" && event.reason !== "recovered")
        report(check, "edge", `task.resumed on a task that is ${task.node.status}`);
      foldInto(check, event);
      return;
    case "task.suspended":
      reportAll(check, reasonFlaws("suspended", event.generate_reason));
      checkWaits(check, task, event);
      move(check, task, event, "suspended");
      return;
    default:
      checkUsage(check, task, event.task.usage);
      reportAll(check, causeFlaws(event.task));
      checkEnded(check, task, event.task.status);
      move(check, task, event, event.task.status);
      return;
  }
}

/** Usage only grows. */
export function checkUsage(check: Check, task: CheckedTask, usage: Usage | undefined): void {
  reportAll(check, usageFlaws(usage, task.node.usage));
}

function reportAll(check: Check, flaws: readonly Flaw[]): void {
  for (const { rule, message } of flaws) report(check, rule, message);
}

/** A task works only while it is in progress. */
export function checkWorks(check: Check, task: CheckedTask, type: string): void {
  const { status } = task.node;
  if ((status === "queued" || status === "suspended") && work.test(type))
    report(check, "edge", `${show(type)} while the task is ${status}`);
}

/** Later events do not change what a task is. */
function checkIdentity(check: Check, task: CheckedTask, sent: TaskObject): void {
  const links = ["parent_task_id", "parent_call_id", "parent_item_id"] as const;
  for (const name of ["agent_id", "session_id", ...links] as const) {
    const [before, now] = [task.sent[name], sent[name]];
    if (before !== undefined && now !== undefined && before !== now)
      report(check, "link", `task.${name} is ${show(now)}, but was ${show(before)}`);
  }
}
/** The first event of a task is `task.created`. */
export function checkBegun(check: Check, task: CheckedTask, type: string): void {
  if (task.node.status !== "unknown" || type === "task.created") return;
  report(check, "edge", `the first event of ${show(task.id)} is ${show(type)}, not task.created`);
  task.node.status = type === "task.in_progress" ? "queued" : "in_progress";
}

function checkCreated(check: Check, task: CheckedTask, event: TaskCreated): void {
  if (task.node.status !== "unknown") {
    report(check, "edge", `${show(task.id)} was already created`);
    return;
  }
  const { parent_task_id, parent_call_id, parent_item_id, mode } = event.task;
  task.sent = event.task;
  enter(check, task, { ...event, task_seq: 0 }, "queued");
  check.sessionIds.add(event.task.session_id ?? "");
  task.linkedAt = check.index;
  if (parent_task_id === undefined) {
    checkRoot(check, task);
    return;
  }
  task.mode = mode;
  if (parent_call_id === undefined || parent_item_id === undefined || mode === undefined)
    report(check, "link", "a child's task.created needs parent_call_id, parent_item_id and mode");
  if (parent_call_id !== undefined && parent_call_id !== task.id)
    report(check, "link", `${show(task.id)} is not the id of the call ${show(parent_call_id)}`);
  if (parent_task_id === task.id) {
    report(check, "link", `${show(task.id)} is its own parent`);
    return;
  }
  if (!check.tasks.has(parent_task_id) && !check.lenient)
    report(check, "link", `the parent ${show(parent_task_id)} is not in the log`);
  const link = check.children.get(task.id);
  if (link !== undefined && link.parentId !== parent_task_id) {
    report(check, "link", `the parent is ${show(link.parentId)}, not ${show(parent_task_id)}`);
  } else if (link !== undefined && link.itemId !== parent_item_id) {
    report(check, "link", `the item is ${show(link.itemId)}, not ${show(parent_item_id)}`);
  } else if (link?.mode === "sync" && mode === "background") {
    report(check, "link", "the mode is sync, not background");
  }
}

/** There is one root, the one that `stream.opened` names. */
export function checkRoot(check: Check, task: CheckedTask): void {
  const rootId = check.rootId ?? check.openedRootId ?? task.id;
  if (check.children.has(task.id)) {
    report(check, "link", `the child ${show(task.id)} does not name its parent`);
  } else if (rootId === task.id) {
    check.rootId = task.id;
  } else {
    const rule = check.rootId === undefined ? "frame" : "link";
    report(check, rule, `${show(task.id)} has no parent, but the root is ${show(rootId)}`);
  }
}

/** A suspended task waits for approvals that have no decision and for its children. */
function checkWaits(check: Check, task: CheckedTask, event: TaskSuspended): void {
  const { reason, approval_ids: approvals = [], waiting_on: tasks = [] } = event;
  const count = approvals.length + (reason === "approval" ? 0 : tasks.length);
  if (count === 0 && reason !== "stop_requested")
    report(check, "approval", `the task is suspended for ${reason}, but waits for nothing`);
  for (const id of approvals) {
    const known = check.approvals.get(id);
    if (known === undefined ? !check.lenient : known.resolved)
      report(check, "approval", `the task waits for ${show(id)}, which is not an open approval`);
  }
  for (const id of tasks) {
    const child = check.tasks.get(id);
    const parentId = check.children.get(id)?.parentId ?? child?.sent.parent_task_id;
    const isOther = child === undefined ? !check.lenient : hasEnded(child);
    if (isOther || (parentId ?? task.id) !== task.id)
      report(check, "link", `the task waits for ${show(id)}, which is not a running child`);
  }
}

/** At its end a task has no open item, no call without a result and no approval without a decision. */
export function checkEnded(check: Check, task: CheckedTask, status: TaskStatus): void {
  const open = flat(task.node.output).filter((item) => item.status === "in_progress");
  const more = open.length > 1 ? ` and ${open.length - 1} more` : "";
  if (open.length > 0)
    report(check, "L3", `the task ends while ${show(open[0]?.id)}${more} is open`);
  for (const { approval_id: id, decision } of task.node.approvals) {
    if (decision === undefined)
      report(check, "approval", `the task ends, but ${show(id)} has no decision`);
  }
  checkCalls(check, task, status === "completed" || status === "incomplete");
}

function move(
  check: Check,
  task: CheckedTask,
  event: LifecycleEvent,
  to: Exclude<TaskStatus, "queued">,
): void {
  const from = task.node.status as TaskStatus;
  if (!comesFrom[to].includes(from))
    report(check, "edge", `a task cannot go from ${from} to ${to}`);
  enter(check, task, event, to);
}

/** Folds an event that changes the status; the output of a task comes from its items alone. */
function enter(check: Check, { node }: CheckedTask, event: LifecycleEvent, to: TaskStatus): void {
  const { output } = node;
  foldInto(check, event);
  node.output = output;
  node.status = to;
}
