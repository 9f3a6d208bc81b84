import type { ChildFinished, ChildPromoted, ChildStarted } from "../event.ts";
import type { AnyItem, Check, CheckedTask, ChildLink } from "./checked.ts";
import { hasEnded, itemAt, itemOf, report } from "./checked.ts";
import { checkParentSource } from "./envelope.ts";
import { isSame, show } from "./problem.ts";

/** Checks a parent's event about a child. */
export function checkChild(
  check: Check,
  task: CheckedTask,
  event: ChildStarted | ChildFinished | ChildPromoted,
): void {
  const id = event.child_task_id;
  if (event.call_id !== id)
    report(check, "link", `child_task_id ${show(id)} is not the call_id ${show(event.call_id)}`);
  if (event.type === "task.child.started") {
    checkStarted(check, task, event);
    return;
  }
  const link = check.children.get(id) ?? unshown(check, task, event);
  if (link === undefined) {
    report(check, "child", `${show(id)} was never started`);
    return;
  }
  if (link.parentId !== task.id) {
    report(check, "link", `${show(id)} was started by ${show(link.parentId)}`);
    return;
  }
  const itemId = itemAt(task, event.output_index)?.id ?? event.item_id;
  if (link.itemId !== event.item_id || link.itemId !== itemId)
    report(check, "I3", `${show(link.itemId)} holds the child, not ${show(itemId)}`);
  if (link.mode === "background" || link.finished) {
    const state = link.finished ? "has finished" : "is in the background";
    report(check, "child", `${event.type} on ${show(id)}, which ${state}`);
    return;
  }
  if (event.type === "task.child.promoted") {
    link.mode = "background";
    checkPromoted(check, event);
  } else {
    link.finished = true;
    checkFinished(check, event);
  }
}

function checkPromoted(check: Check, { child_task_id: id, reason }: ChildPromoted): void {
  if (reason !== "sync_timeout")
    report(check, "reason", `${show(reason)} is not a reason to promote a child`);
  const child = check.tasks.get(id);
  if (child === undefined) return;
  if (hasEnded(child)) report(check, "child", `${show(id)} is promoted after its end`);
  child.mode = "background";
}

function checkFinished(check: Check, event: ChildFinished): void {
  const { child_task_id: id } = event;
  const child = check.tasks.get(id);
  if (child === undefined ? !check.lenient : !hasEnded(child)) {
    report(check, "child", `${show(id)} has not ended`);
  } else if (child !== undefined && child.node.status !== event.status) {
    report(check, "child", `${show(id)} is ${child.node.status}, not ${event.status}`);
  }
  const { usage } = child?.node ?? {};
  if (child && hasEnded(child) && event.usage && usage && !isSame(event.usage, usage))
    report(check, "usage", `the usage differs from the one at the end of ${show(id)}`);
}

/** The state of a child whose start the stream left out. */
function unshown(
  check: Check,
  task: CheckedTask,
  { child_task_id: id, item_id: itemId }: ChildFinished | ChildPromoted,
): ChildLink | undefined {
  if (!check.lenient) return undefined;
  const link: ChildLink = {
    parentId: task.id,
    itemId,
    index: check.index,
    mode: "sync",
    finished: false,
  };
  check.children.set(id, link);
  return link;
}

function checkStarted(check: Check, task: CheckedTask, event: ChildStarted): void {
  const { child_task_id: id, item_id: itemId } = event;
  if (check.children.has(id)) {
    report(check, "child", `${show(id)} was already started`);
    return;
  }
  check.children.set(id, {
    parentId: task.id,
    itemId,
    index: check.index,
    agent: event.agent,
    mode: event.mode,
    finished: false,
  });
  if (id === task.id) report(check, "link", `${show(id)} is its own parent`);
  const child = check.tasks.get(id);
  const parentId = child?.sent.parent_task_id;
  if (parentId !== undefined && parentId !== task.id) {
    report(check, "link", `${show(id)} names ${show(parentId)} as its parent`);
  } else if (child?.mode !== undefined && child.mode !== event.mode) {
    report(check, "link", `the mode of ${show(id)} is ${child.mode}, not ${event.mode}`);
  } else if (child?.node.source !== undefined) checkParentSource(check, child, child.node.source);
  const item = itemAt(task, event.output_index);
  if (item === undefined) {
    if (!check.options.filtered)
      report(check, "I3", `no item at output_index ${event.output_index}`);
    return;
  }
  if (item.id !== itemId || item.type !== "tool_result" || item.call_id !== event.call_id)
    report(check, "I3", `${show(itemId)} is not the tool result of the call at its output_index`);
  if (item.status !== "in_progress") report(check, "I14", `${show(item.id)} is not open`);
  const held = check.held.get(item);
  if (held !== undefined)
    report(check, "I12", `${show(item.id)} holds the child ${show(held)} already`);
  check.held.set(item, id);
}

/** A synchronous child has events only while its item is open. */
export function checkInside(check: Check, task: CheckedTask): void {
  if (task.outsideReported) return;
  const item = containerOf(check, task);
  if (item === undefined || (item === "unknown" ? check.lenient : item.status === "in_progress"))
    return;
  task.outsideReported = true;
  const problem =
    item === "unknown"
      ? `the item of ${show(task.id)} was not opened`
      : `${show(task.id)} has an event after its item ${show(item.id)} was closed`;
  report(check, "I14", problem);
}

/** The item that must be open while this task runs. */
function containerOf(check: Check, task: CheckedTask): AnyItem | "unknown" | undefined {
  if (check.options.legacy) {
    const { parentTaskId = "", parentOutputIndex } = task.node;
    const parent = check.tasks.get(parentTaskId);
    return parent && itemAt(parent, parentOutputIndex);
  }
  const mode = check.children.get(task.id)?.mode ?? task.mode;
  const { parent_task_id: parentId, parent_item_id: itemId } = task.sent;
  if (parentId === undefined || itemId === undefined || mode !== "sync") return undefined;
  const parent = check.tasks.get(parentId);
  return (parent && itemOf(parent, itemId)) ?? "unknown";
}

/** The item of a synchronous child closes after the child has ended. */
export function checkOutlived(check: Check, item: AnyItem): void {
  const childId = check.held.get(item) ?? "";
  const child = check.tasks.get(childId);
  if (child === undefined || check.children.get(childId)?.mode !== "sync") return;
  if (hasEnded(child) || child.outsideReported) return;
  child.outsideReported = true;
  report(check, "I14", `${show(item.id)} is closed before its child ${show(child.id)} has ended`);
}
