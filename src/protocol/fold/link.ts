import { isId } from "../shape.ts";
import type { Item, ToolResultItem } from "../task.ts";
import { type Draft, editTask, type TaskNode } from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import { at, find, splice } from "./pages.ts";

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
  if (parentId === undefined || index !== child.parentOutputIndex) place(draft, child, index);
  draft.links.addWaiting(child);
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
  const { links } = draft;
  links.addResult(taskId, item, index);
  for (const id of [item.id, item.call_id]) {
    for (const childId of links.waitingFor(taskId, id)) {
      const child = draft.table.get(childId);
      if (child?.parentTaskId !== taskId || child.parentOutputIndex !== undefined) continue;
      if (isItemOf(item, child)) place(draft, editTask(draft, childId), index);
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
function findItem(draft: Draft, child: TaskNode): number | undefined {
  const parentId = child.parentTaskId as string;
  const { links } = draft;
  const byItem = links.resultAt(parentId, child.parentItemId) ?? -1;
  let index = Math.max(byItem, links.resultAt(parentId, child.callId) ?? -1);
  const { output = [] } = draft.table.get(parentId) ?? {};
  // An item that does not fit was discarded, or belongs to a different version of the tree.
  while (index >= 0 && !isItemOf(at(output, index), child)) index--;
  return index < 0 ? undefined : index;
}

function isItemOf(item: Item | undefined, child: TaskNode): boolean {
  if (item?.type !== "tool_result") return false;
  return item.id === child.parentItemId || item.call_id === child.callId;
}

/** Puts a child at its place in its parent's lists, which does not depend on the order of arrival. */
function place(draft: Draft, child: TaskNode, index: number | undefined): void {
  const parent = editTask(draft, child.parentTaskId as string);
  const { owned, table } = draft;
  const isLower = (id: string) => id < child.id;
  const isBefore = (id: string) => comesBefore(table.get(id) as TaskNode, child);
  if (child.parentOutputIndex !== undefined) {
    parent.children = splice(parent.children, owned, isBefore, 1);
  } else if (parent.unplaced !== undefined && find(parent.unplaced, isLower) === child.id) {
    parent.unplaced = splice(parent.unplaced, owned, isLower, 1);
    if (parent.unplaced.length === 0) delete parent.unplaced;
  }
  if (index === undefined) {
    parent.unplaced = splice(parent.unplaced ?? [], owned, isLower, 0, child.id);
  } else {
    child.parentOutputIndex = index;
    parent.children = splice(parent.children, owned, isBefore, 0, child.id);
  }
}

function comesBefore(first: TaskNode, second: TaskNode): boolean {
  const left = first.parentOutputIndex as number;
  const right = second.parentOutputIndex as number;
  return left === right ? first.id < second.id : left < right;
}
