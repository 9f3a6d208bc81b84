import { checkCalls } from "./calls.ts";
import type { Check, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

/** Checks what only the end of the stream can show. */
export function checkEnd(check: Check): void {
  checkCycles(check);
  if (check.options.partial) return;
  for (const task of check.tasks.values()) {
    if (check.options.legacy) checkItemsClosed(check, task);
    else if (!task.ended) report(check, "L3", `${show(task.id)} never ended`, task.lastIndex);
    if (check.options.legacy) checkCalls(check, task, true);
    checkHolder(check, task);
    if (task.parentId === undefined || check.lenient || check.children.has(task.id)) continue;
    report(check, "link", `no task.child.started names ${show(task.id)}`, task.linkedAt);
  }
  if (check.lenient) return;
  for (const [id, { index }] of check.children) {
    if (!check.tasks.has(id))
      report(check, "link", `${show(id)} was started and has no events`, index);
  }
}

/** The item that a child names is the result of its call. */
function checkHolder(check: Check, task: TaskState): void {
  const parent = check.tasks.get(task.parentId ?? "");
  if (parent === undefined || check.options.filtered) return;
  const item = parent.itemById.get(task.parentItemId ?? "");
  if (item?.callId === task.id || item?.state === "discarded") return;
  report(check, "link", `${show(task.parentItemId)} does not hold ${show(task.id)}`, task.linkedAt);
}

/** A producer without a lifecycle closes its items as well. */
function checkItemsClosed(check: Check, task: TaskState): void {
  for (const item of task.itemAt.values()) {
    if (item.state === "open") report(check, "L3", `${show(item.id)} is never done`, item.openedAt);
  }
}

/** Follows every task to its root, visiting each task once, to find cycles. */
function checkCycles(check: Check): void {
  const settled = new Set<TaskState>();
  for (const start of check.tasks.values()) {
    const path = new Set<TaskState>();
    let task: TaskState | undefined = start;
    while (task !== undefined && !settled.has(task) && !path.has(task)) {
      path.add(task);
      task = task.parentId === undefined ? undefined : check.tasks.get(task.parentId);
    }
    // A task that is its own parent was reported at its event.
    if (task !== undefined && path.has(task) && task.parentId !== task.id)
      report(check, "link", `${show(task.id)} is its own ancestor`, task.linkedAt);
    for (const seen of path) settled.add(seen);
  }
}
