import type { Draft } from "./draft.ts";
import { editList, editTask } from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import { isId } from "./shape.ts";
import type { Task, ToolResultItem } from "./task.ts";

/** How a child is linked to its parent; either of them may send it, in any order. */
export interface Link {
  readonly parentTaskId: string;
  readonly callId?: string;
  readonly itemId?: string;
  readonly outputIndex?: number;
}

/** Links a child to its parent; returns false and changes nothing if it is its own parent or has a different one. */
export function link(draft: Draft, childId: string, to: Link): boolean {
  const parentId = draft.table.get(childId)?.parentTaskId;
  if (childId === to.parentTaskId) return false;
  if (parentId !== undefined && parentId !== to.parentTaskId) return false;
  const child = editTask(draft, childId);
  child.parentTaskId = to.parentTaskId;
  if (to.callId !== undefined) child.callId = to.callId;
  if (to.itemId !== undefined) child.parentItemId = to.itemId;
  const index = to.outputIndex ?? child.parentOutputIndex ?? findItem(draft, child);
  if (parentId === undefined) place(draft, child.id, index);
  else if (index !== child.parentOutputIndex) move(draft, child.id, index);
  draft.table.links.addWaiting(child);
  return true;
}

/** Gives the children that wait for a tool result their place. */
export function linkByItem(
  draft: Draft,
  taskId: string,
  item: ToolResultItem,
  index: number,
  options: FoldOptions,
): void {
  const { links } = draft.table;
  links.addResult(taskId, item, index);
  for (const id of [item.id, item.call_id]) {
    for (const childId of links.waitingFor(taskId, id)) {
      const child = draft.table.get(childId);
      if (child?.parentTaskId !== taskId || child.parentOutputIndex !== undefined) continue;
      if (isItemOf(item, child)) move(draft, childId, index);
    }
  }
  // A producer without links: the call id of a tool result in a different task is the id of the child.
  if (options.legacy && item.call_id !== taskId && isId(item.call_id)) {
    if (draft.table.get(item.call_id)?.parentTaskId === undefined) {
      link(draft, item.call_id, {
        parentTaskId: taskId,
        callId: item.call_id,
        itemId: item.id,
        outputIndex: index,
      });
    }
  }
}

/** The index of the last tool result that a child names. */
function findItem(draft: Draft, child: Task): number | undefined {
  const parentId = child.parentTaskId as string;
  const { links } = draft.table;
  const byItem = links.resultAt(parentId, child.parentItemId) ?? -1;
  const index = Math.max(byItem, links.resultAt(parentId, child.callId) ?? -1);
  if (index < 0) return undefined;
  const output = draft.table.get(parentId)?.output ?? [];
  if (isItemOf(output[index], child)) return index;
  // The item was discarded, or belongs to a different version of the tree.
  const found = output.findLastIndex((item) => isItemOf(item, child));
  return found < 0 ? undefined : found;
}

function isItemOf(item: Task["output"][number] | undefined, child: Task): boolean {
  if (item?.type !== "tool_result") return false;
  return item.id === child.parentItemId || item.call_id === child.callId;
}

/** Inserts a child into its parent's list, which is ordered by item, then by id, and never by arrival. */
function place(draft: Draft, childId: string, index: number | undefined): void {
  const child = editTask(draft, childId);
  const parent = editTask(draft, child.parentTaskId as string);
  if (index !== undefined) child.parentOutputIndex = index;
  const children = editList(draft, parent.children);
  parent.children = children;
  children.splice(positionOf(draft, children, child), 0, childId);
}

function move(draft: Draft, childId: string, index: number | undefined): void {
  const child = draft.table.get(childId) as Task;
  const parent = editTask(draft, child.parentTaskId as string);
  const children = editList(draft, parent.children);
  parent.children = children;
  children.splice(positionOf(draft, children, child), 1);
  place(draft, childId, index);
}

/** The position of a child in the ordered list, or where to insert it. */
function positionOf(draft: Draft, children: readonly string[], child: Task): number {
  let low = 0;
  let high = children.length;
  while (low < high) {
    // Most children come last, so the search begins there.
    const middle = high === children.length ? high - 1 : (low + high) >>> 1;
    if (comesBefore(draft.table.get(children[middle] as string) as Task, child)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function comesBefore(first: Task, second: Task): boolean {
  const left = first.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  const right = second.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  return left === right ? first.id < second.id : left < right;
}
