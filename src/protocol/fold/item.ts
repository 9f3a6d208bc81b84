import { isObject } from "../../base/plain.ts";
import type { OutputItemAdded, OutputItemDiscarded, OutputItemDone } from "../event.ts";
import { normalBlock } from "../first-form.ts";
import { itemChange } from "../grammar/index.ts";
import { readerOf } from "../shape.ts";
import type { Item } from "../task.ts";
import { type Draft, editTask, putItem, type TaskNode } from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import { linkByItem } from "./link.ts";
import { at } from "./pages.ts";

/** How far beyond the end of a list an index may be on a filtered stream. */
const maxHole = 10_000;
/** The maximum number of placeholders in a tree, so that small events cannot exhaust the memory. */
const maxHoles = 1_000_000;
const readChange = readerOf(itemChange);
const omittedItem: Item = { type: "omitted", id: "" };

/** Folds the events that open, close and discard items. */
export function foldItem(
  draft: Draft,
  event: OutputItemAdded | OutputItemDone | OutputItemDiscarded,
  options: FoldOptions,
): boolean {
  const index = event.output_index;
  const task = editTask(draft, event.task_id);
  const present = at(task.output, index);
  const known = present?.type === "omitted" ? undefined : present;
  const isOpen = known === undefined || known.status === "in_progress";
  if (event.type === "task.output_item.discarded") {
    if (!reach(draft, task, index, options)) return false;
    const { item_id: id, reason } = event;
    putItem(draft, task, index, { type: "discarded", id, reason });
    return true;
  }
  if (!isOpen || (known === undefined && !reach(draft, task, index, options))) return false;
  const { status } = event.item;
  let item: Item;
  if (event.type === "task.output_item.done") {
    const merged = { ...known, ...event.item } as Item;
    // An item may change its type when it closes; what was assembled must then fit that type.
    if (known && known.type !== merged.type && !readChange(merged, options)) return false;
    item = closedItem(merged, status);
  } else if (known === undefined) {
    item = ownItem({ ...event.item, status: status ?? "in_progress" });
  } else {
    return true;
  }
  putItem(draft, task, index, item);
  if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
  return true;
}

/** Makes room for an index; only a filtered or legacy stream may skip indexes. */
export function reach(draft: Draft, task: TaskNode, index: number, options: FoldOptions): boolean {
  const { length } = task.output;
  if (index <= length) return true;
  if ((!options.filtered && !options.legacy) || !leaveOut(draft, index - length)) return false;
  for (let hole = length; hole < index; hole++) putItem(draft, task, hole, omittedItem);
  return true;
}

/** Counts placeholders; returns false beyond the limits. */
export function leaveOut(draft: Draft, missing: number): boolean {
  if (missing > maxHole || draft.holes + missing > maxHoles) return false;
  draft.holes += missing;
  return true;
}

/** Copies the lists of an item, because later events edit them and must not change the event that sent them. */
export function ownItem(item: Item): Item {
  const own = { ...item } as Record<string, unknown>;
  if (item.references !== undefined) own.references = item.references.slice();
  if (item.type === "reasoning") {
    own.summary = ownParts(item.summary);
    if (item.content !== undefined) own.content = ownParts(item.content);
  } else if (item.type === "tool_call") {
    own.arguments ??= "";
  } else if (
    item.type === "tool_result" ||
    item.type === "message" ||
    Array.isArray(own.block_list)
  ) {
    own.block_list = ownParts(own.block_list).map((block) => normalBlock(block, item.type));
  }
  return own as unknown as Item;
}

function ownParts(parts: unknown): unknown[] {
  return Array.isArray(parts) ? parts.map(ownPart) : [];
}

/** Copies a part that is still open, with its list of annotations. */
export function ownPart<T>(part: T): T {
  if (!isObject(part) || part.status !== "in_progress") return part;
  return {
    ...part,
    ...(Array.isArray(part.annotations) && { annotations: [...part.annotations] }),
  };
}

/** Closes an item and all its parts. */
export function closedItem(merged: Item, status: Item["status"]): Item {
  const item = ownItem(merged) as unknown as Record<string, unknown>;
  if (status === undefined || status === "in_progress") item.status = "completed";
  delete item.progress;
  delete item.arguments_status;
  const lists = merged.type === "reasoning" ? ["summary", "content"] : ["block_list"];
  for (const name of lists) if (Array.isArray(item[name])) item[name] = item[name].map(closed);
  return item as unknown as Item;
}

/** Closes a part. */
export function closed<T>(part: T): T {
  if (!isObject(part)) return part;
  if (part.status === undefined && part.partial_image_index === undefined) return part;
  const { status: _, partial_image_index: __, ...rest } = part;
  return rest as T;
}
