import { flat } from "../fold/pages.ts";
import { checkCalls } from "./calls.ts";
import type { Check, CheckedTask } from "./checked.ts";
import { hasEnded, itemOf, report } from "./checked.ts";
import { show } from "./problem.ts";

/** Checks what only the end of the stream can show. */
export function checkEnd(check: Check): void {
  checkCycles(check);
  if (check.options.partial) return;
  for (const task of check.tasks.values()) {
    if (check.options.legacy) checkItemsClosed(check, task);
    else if (!hasEnded(task)) report(check, "L3", `${show(task.id)} never ended`, task.lastIndex);
    if (check.options.legacy) checkCalls(check, task, true);
    checkHolder(check, task);
    if (task.sent.parent_task_id === undefined || check.lenient || check.children.has(task.id))
      continue;
    report(check, "link", `no task.child.started names ${show(task.id)}`, task.linkedAt);
  }
  if (check.lenient) return;
  for (const [id, { index }] of check.children) {
    if (!check.tasks.has(id))
      report(check, "link", `${show(id)} was started and has no events`, index);
  }
}

/** The item that a child names is the result of its call. */
function checkHolder(check: Check, task: CheckedTask): void {
  const { parent_task_id: parentId = "", parent_item_id: itemId } = task.sent;
  const parent = check.tasks.get(parentId);
  if (parent === undefined || check.options.filtered) return;
  const item = itemOf(parent, itemId);
  if (item?.call_id === task.id || item?.type === "discarded") return;
  report(check, "link", `${show(itemId)} does not hold ${show(task.id)}`, task.linkedAt);
}

/** A producer without a lifecycle closes its items as well. */
function checkItemsClosed(check: Check, task: CheckedTask): void {
  for (const item of flat(task.node.output)) {
    if (item.status === "in_progress")
      report(check, "L3", `${show(item.id)} is never done`, check.sentAt.get(item));
  }
}

/** Follows every task to its root, visiting each task once, to find cycles. */
function checkCycles(check: Check): void {
  const settled = new Set<CheckedTask>();
  for (const start of check.tasks.values()) {
    const path = new Set<CheckedTask>();
    let task: CheckedTask | undefined = start;
    while (task !== undefined && !settled.has(task) && !path.has(task)) {
      path.add(task);
      task = check.tasks.get(task.sent.parent_task_id ?? "");
    }
    // A task that is its own parent was reported at its event.
    if (task !== undefined && path.has(task) && task.sent.parent_task_id !== task.id)
      report(check, "link", `${show(task.id)} is its own ancestor`, task.linkedAt);
    for (const seen of path) settled.add(seen);
  }
}
