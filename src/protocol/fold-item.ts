import type { Draft, Mutable, Verdict } from "./draft.ts";
import { editOutput, editTask, isObject } from "./draft.ts";
import type { OutputItemAdded, OutputItemDiscarded, OutputItemDone } from "./event.ts";
import { isItem } from "./fits.ts";
import type { FoldOptions } from "./fold.ts";
import { linkByItem } from "./link.ts";
import type { Item, Task } from "./task.ts";

/** How far beyond the end an index may lie where a stream leaves things out. */
const maxHole = 10_000;
/** How many places a tree may keep for what was left out: enough for any, too few for a bomb of small events. */
const maxHoles = 1_000_000;
const omittedItem: Item = { type: "omitted", id: "" };

/** Items open, close and are taken back. */
export function foldItem(
  draft: Draft,
  event: OutputItemAdded | OutputItemDone | OutputItemDiscarded,
  options: FoldOptions,
): Verdict {
  const index = event.output_index;
  const task = editTask(draft, event.task_id);
  const present = task.output[index];
  const known = present?.type === "omitted" ? undefined : present;
  if (event.type === "task.output_item.discarded") {
    if (!reach(draft, task, index, options)) return "ignored";
    editOutput(draft, task)[index] = { type: "discarded", id: event.item_id, reason: event.reason };
    return "applied";
  }
  if (event.type === "task.output_item.added") {
    if (known !== undefined) return known.status === "in_progress" ? "applied" : "ignored";
    if (!reach(draft, task, index, options)) return "ignored";
    const item = ownItem({ ...event.item, status: event.item.status ?? "in_progress" });
    editOutput(draft, task)[index] = item;
    if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
    return "applied";
  }
  if (known !== undefined && known.status !== "in_progress") return "ignored";
  if (!reach(draft, task, index, options)) return "ignored";
  const merged = { ...known, ...event.item } as Item;
  // It may close as another type than it opened with; what was assembled must then be right for that as well.
  if (known !== undefined && known.type !== merged.type && !isItem(merged)) return "ignored";
  const item = close(merged, event.item.status);
  editOutput(draft, task)[index] = item;
  if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
  return "applied";
}

/** Makes room for an index: the next one always, a later one only where items may be left out. */
export function reach(
  draft: Draft,
  task: Mutable<Task>,
  index: number,
  options: FoldOptions,
): boolean {
  if (index <= task.output.length) return true;
  if (!options.filtered && !options.legacy) return false;
  return leaveOut(draft, editOutput(draft, task), index, omittedItem);
}

/** Fills a list up to an index with what stands for things left out; false where that would be too much. */
export function leaveOut<T>(draft: Draft, list: T[], index: number, omitted: T): boolean {
  const missing = index - list.length;
  if (missing > maxHole || draft.holes + missing > maxHoles) return false;
  draft.holes += missing;
  while (list.length < index) list.push(omitted);
  return true;
}

/** An item with collections of its own: later events edit it, and what an event brought is never changed. */
export function ownItem(item: Item): Item {
  const own = { ...item } as Record<string, unknown>;
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

/** A part that may still grow, with a list of its own where it has one. */
export function ownPart<T>(part: T): T {
  if (!isObject(part) || part.status !== "in_progress") return part;
  return {
    ...part,
    ...(Array.isArray(part.annotations) && { annotations: [...part.annotations] }),
  };
}

/** What was assembled and what the closing event says, with nothing left open in it. */
function close(merged: Item, status: Item["status"]): Item {
  const item = ownItem(merged) as unknown as Record<string, unknown>;
  if (status === undefined || status === "in_progress") item.status = "completed";
  delete item.progress;
  delete item.arguments_status;
  const lists = merged.type === "reasoning" ? ["summary", "content"] : ["block_list"];
  for (const name of lists) if (Array.isArray(item[name])) item[name] = item[name].map(closed);
  return item as unknown as Item;
}

/** A part that takes nothing more. */
export function closed<T>(part: T): T {
  if (!isObject(part)) return part;
  if (part.status === undefined && part.partial_image_index === undefined) return part;
  const { status: _, partial_image_index: __, ...rest } = part;
  return rest as T;
}

/** Older producers say `image_url` for an image and put the reference number into `id`. */
export function normalBlock<T>(block: T, holder: string): T {
  if (!isObject(block)) return block;
  if (block.type !== "image_url" && typeof block.id !== "number") return block;
  const { id, ...normal } = block as Record<string, unknown>;
  if (block.type === "image_url") normal.type = "image";
  if (typeof id !== "number") normal.id = id;
  else if (holder === "tool_result") normal.reference_id ??= id;
  return normal as T;
}
