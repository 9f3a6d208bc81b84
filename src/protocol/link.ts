import type { Draft, Mutable } from "./draft.ts";
import { editTask } from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import type { Task, ToolResultItem } from "./task.ts";

/** What is known of how a child hangs on its parent; either side may tell it, in any order. */
export interface Link {
  readonly parentTaskId: string;
  readonly callId?: string;
  readonly itemId?: string;
  readonly outputIndex?: number;
}

/** Hangs a child on its parent; false when it would be its own parent. */
export function link(draft: Draft, childId: string, to: Link): boolean {
  if (childId === to.parentTaskId) return false;
  const child = editTask(draft, childId);
  if (child.parentTaskId !== undefined && child.parentTaskId !== to.parentTaskId) return false;
  const parent = editTask(draft, to.parentTaskId);
  child.parentTaskId = to.parentTaskId;
  if (to.callId !== undefined) child.callId = to.callId;
  if (to.itemId !== undefined) child.parentItemId = to.itemId;
  const index = to.outputIndex ?? child.parentOutputIndex ?? findItem(parent, child);
  if (index !== undefined) child.parentOutputIndex = index;
  place(draft, parent, child);
  return true;
}

/** A tool result's item has arrived: children that were waiting to know its place get it. */
export function linkByItem(
  draft: Draft,
  taskId: string,
  item: ToolResultItem,
  index: number,
  options: FoldOptions,
): void {
  const task = editTask(draft, taskId);
  for (const childId of task.children) {
    const child = draft.table.get(childId);
    if (child === undefined || child.parentOutputIndex !== undefined) continue;
    if (child.parentItemId !== item.id && child.callId !== item.call_id) continue;
    const editable = editTask(draft, childId);
    editable.parentOutputIndex = index;
    place(draft, task, editable);
  }
  // A producer without links: the child's task id is the call id, in any task but the child itself.
  if (options.legacy && item.call_id !== taskId && item.call_id !== "") {
    const known = draft.table.get(item.call_id);
    if (known === undefined || known.parentTaskId === undefined) {
      link(draft, item.call_id, {
        parentTaskId: taskId,
        callId: item.call_id,
        itemId: item.id,
        outputIndex: index,
      });
    }
  }
}

function findItem(parent: Task, child: Task): number | undefined {
  const index = parent.output.findLastIndex(
    (item) =>
      item.type === "tool_result" &&
      (item.id === child.parentItemId || item.call_id === child.callId),
  );
  return index < 0 ? undefined : index;
}

/** Keeps children in the order of their items, then of their ids: never of arrival. */
function place(draft: Draft, parent: Mutable<Task>, child: Task): void {
  const others = parent.children.filter((id) => id !== child.id);
  let at = others.length;
  while (at > 0 && comesAfter(draft.table.get(others[at - 1] as string) as Task, child)) at--;
  others.splice(at, 0, child.id);
  parent.children = others;
}

function comesAfter(one: Task, other: Task): boolean {
  const left = one.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  const right = other.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  return left === right ? one.id > other.id : left > right;
}
