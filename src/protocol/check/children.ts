import type { ChildFinished, ChildPromoted, ChildStarted } from "../event.ts";
import { checkParentSource } from "./envelope.ts";
import type { Check, ChildState, ItemState, TaskState } from "./state.ts";
import { isSame, report, show } from "./state.ts";

/** Checks a parent's event about a child. */
export function checkChild(
  check: Check,
  task: TaskState,
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
  const itemId = task.itemAt.get(event.output_index)?.id ?? event.item_id;
  if (link.itemId !== event.item_id || link.itemId !== itemId)
    report(check, "I3", `${show(link.itemId)} holds the child, not ${show(itemId)}`);
  if (link.mode === "background" || link.finished) {
    const state = link.finished ? "has finished" : "is in the background";
    report(check, "child", `${event.type} on ${show(id)}, which ${state}`);
    return;
  }
  const child = check.tasks.get(id);
  if (event.type === "task.child.promoted") {
    link.mode = "background";
    if (event.reason !== "sync_timeout")
      report(check, "reason", `${show(event.reason)} is not a reason to promote a child`);
    if (child?.ended) report(check, "child", `${show(id)} is promoted after its end`);
    if (child !== undefined) child.mode = "background";
    return;
  }
  link.finished = true;
  if (child === undefined ? !check.lenient : !child.ended) {
    report(check, "child", `${show(id)} has not ended`);
  } else if (child !== undefined && child.status !== event.status) {
    report(check, "child", `${show(id)} is ${child.status}, not ${event.status}`);
  }
  if (child?.ended && event.usage && child.usage && !isSame(event.usage, child.usage))
    report(check, "usage", `the usage differs from the one at the end of ${show(id)}`);
}

/** The state of a child whose start the stream left out. */
function unshown(
  check: Check,
  task: TaskState,
  { child_task_id: id, item_id: itemId }: ChildFinished | ChildPromoted,
): ChildState | undefined {
  if (!check.lenient) return undefined;
  const link: ChildState = {
    parentId: task.id,
    itemId,
    index: check.index,
    mode: "sync",
    finished: false,
  };
  check.children.set(id, link);
  return link;
}

function checkStarted(check: Check, task: TaskState, event: ChildStarted): void {
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
  if (child?.parentId !== undefined && child.parentId !== task.id) {
    report(check, "link", `${show(id)} names ${show(child.parentId)} as its parent`);
  } else if (child?.mode !== undefined && child.mode !== event.mode) {
    report(check, "link", `the mode of ${show(id)} is ${child.mode}, not ${event.mode}`);
  } else if (child?.source !== undefined) checkParentSource(check, child, child.source);
  const item = task.itemAt.get(event.output_index);
  if (item === undefined) {
    if (!check.options.filtered)
      report(check, "I3", `no item at output_index ${event.output_index}`);
    return;
  }
  if (item.id !== itemId || item.type !== "tool_result" || item.callId !== event.call_id)
    report(check, "I3", `${show(itemId)} is not the tool result of the call at its output_index`);
  if (item.state !== "open") report(check, "I14", `${show(item.id)} is not open`);
  if (item.childId !== undefined)
    report(check, "I12", `${show(item.id)} holds the child ${show(item.childId)} already`);
  item.childId = id;
}

/** A synchronous child has events only while its item is open. */
export function checkInside(check: Check, task: TaskState): void {
  if (task.outsideReported) return;
  const item = containerOf(check, task);
  if (item === undefined || (item === "unknown" ? check.lenient : item.state === "open")) return;
  task.outsideReported = true;
  const problem =
    item === "unknown"
      ? `the item of ${show(task.id)} was not opened`
      : `${show(task.id)} has an event after its item ${show(item.id)} was closed`;
  report(check, "I14", problem);
}

/** The item that must be open while this task runs. */
function containerOf(check: Check, task: TaskState): ItemState | "unknown" | undefined {
  if (check.options.legacy) {
    const result = check.results.get(task.id);
    return result === undefined || result.task === task ? undefined : result.item;
  }
  const mode = check.children.get(task.id)?.mode ?? task.mode;
  if (task.parentId === undefined || task.parentItemId === undefined || mode !== "sync") {
    return undefined;
  }
  return check.tasks.get(task.parentId)?.itemById.get(task.parentItemId) ?? "unknown";
}

/** The item of a synchronous child closes after the child has ended. */
export function checkOutlived(check: Check, item: ItemState): void {
  if (item.childId === undefined || check.children.get(item.childId)?.mode !== "sync") return;
  const child = check.tasks.get(item.childId);
  if (child === undefined || child.ended || child.outsideReported) return;
  child.outsideReported = true;
  report(check, "I14", `${show(item.id)} is closed before its child ${show(child.id)} has ended`);
}
