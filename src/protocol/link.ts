import type { Draft } from "./draft.ts";
import { editList, editTask, isId } from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import type { Task, ToolResultItem } from "./task.ts";

/** What is known of how a child hangs on its parent; either side may tell it, in any order. */
export interface Link {
  readonly parentTaskId: string;
  readonly callId?: string;
  readonly itemId?: string;
  readonly outputIndex?: number;
}

/** Hangs a child on its parent; false, and nothing changed, when it is its own parent or has another one. */
export function link(draft: Draft, childId: string, to: Link): boolean {
  const known = draft.table.get(childId)?.parentTaskId;
  if (childId === to.parentTaskId) return false;
  if (known !== undefined && known !== to.parentTaskId) return false;
  const child = editTask(draft, childId);
  child.parentTaskId = to.parentTaskId;
  if (to.callId !== undefined) child.callId = to.callId;
  if (to.itemId !== undefined) child.parentItemId = to.itemId;
  const index = to.outputIndex ?? child.parentOutputIndex ?? findItem(draft, child);
  if (known === undefined) place(draft, child.id, index);
  else if (index !== child.parentOutputIndex) move(draft, child.id, index);
  draft.table.links.addWaiting(child);
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
  const { links } = draft.table;
  links.addResult(taskId, item, index);
  for (const id of [item.id, item.call_id]) {
    for (const childId of links.waitingFor(taskId, id)) {
      const child = draft.table.get(childId);
      if (child?.parentTaskId !== taskId || child.parentOutputIndex !== undefined) continue;
      if (isItemOf(item, child)) move(draft, childId, index);
    }
  }
  // A producer without links: the child's task id is the call id, in any task but the child itself.
  if (options.legacy && item.call_id !== taskId && isId(item.call_id)) {
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

/** The index of the last result that a child names. */
function findItem(draft: Draft, child: Task): number | undefined {
  const parentId = child.parentTaskId as string;
  const { links } = draft.table;
  const byItem = links.resultAt(parentId, child.parentItemId) ?? -1;
  const index = Math.max(byItem, links.resultAt(parentId, child.callId) ?? -1);
  if (index < 0) return undefined;
  const output = draft.table.get(parentId)?.output ?? [];
  if (isItemOf(output[index], child)) return index;
  // It was taken back, or belongs to another future of an earlier tree.
  const found = output.findLastIndex((item) => isItemOf(item, child));
  return found < 0 ? undefined : found;
}

function isItemOf(item: Task["output"][number] | undefined, child: Task): boolean {
  if (item?.type !== "tool_result") return false;
  return item.id === child.parentItemId || item.call_id === child.callId;
}

/** Enters a child among its parent's, ordered by their items, then by their ids: never by arrival. */
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

/** Where a child stands, or would stand, in the ordered list. */
function positionOf(draft: Draft, children: readonly string[], child: Task): number {
  let low = 0;
  let high = children.length;
  while (low < high) {
    // Most children come last, so that is where the search begins.
    const middle = high === children.length ? high - 1 : (low + high) >>> 1;
    if (comesBefore(draft.table.get(children[middle] as string) as Task, child)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function comesBefore(one: Task, other: Task): boolean {
  const left = one.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  const right = other.parentOutputIndex ?? Number.POSITIVE_INFINITY;
  return left === right ? one.id < other.id : left < right;
}
