import type { Draft, Mutable, Verdict } from "./draft.ts";
import { editOutput, editTask, isId, isIndex, isObject } from "./draft.ts";
import type { OutputItemAdded, OutputItemDiscarded, OutputItemDone } from "./event.ts";
import type { FoldOptions } from "./fold.ts";
import { linkByItem } from "./link.ts";
import type { Item, SummaryEntry, Task, WireBlock } from "./task.ts";

/** How far beyond the end an index may lie where a stream leaves things out: enough for any, too little for a bomb. */
export const maxHole = 10_000;

/** Items open, close and are taken back. */
export function foldItem(
  draft: Draft,
  event: OutputItemAdded | OutputItemDone | OutputItemDiscarded,
  options: FoldOptions,
): Verdict {
  const index = event.output_index;
  if (!isIndex(index)) return "ignored";
  const task = editTask(draft, event.task_id);
  const present = task.output[index];
  const known = present?.type === "omitted" ? undefined : present;
  if (event.type === "task.output_item.discarded") {
    if (!reach(draft, task, index, options)) return "ignored";
    editOutput(draft, task)[index] = { type: "discarded", id: event.item_id, reason: event.reason };
    return "applied";
  }
  const sent = event.item as unknown;
  if (!isObject(sent) || !isId(sent.type) || !isId(sent.id)) return "ignored";
  if (event.type === "task.output_item.added") {
    if (known !== undefined) return known.status === "in_progress" ? "applied" : "ignored";
    if (!reach(draft, task, index, options)) return "ignored";
    const item = shell(event.item);
    editOutput(draft, task)[index] = item;
    if (item.type === "tool_result") linkByItem(draft, task.id, item, index, options);
    return "applied";
  }
  if (known !== undefined && known.status !== "in_progress") return "ignored";
  if (!reach(draft, task, index, options)) return "ignored";
  const item = close(known ?? shell(event.item as Item), sent);
  editOutput(draft, task)[index] = item;
  if (item.type === "tool_result" && known === undefined) {
    linkByItem(draft, task.id, item, index, options);
  }
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
  if (index > task.output.length + maxHole) return false;
  const output = editOutput(draft, task);
  while (output.length < index) output.push({ type: "omitted", id: "" });
  return true;
}

/** A new item with its own empty collections: what an event brought is never changed later. */
function shell(item: Item): Item {
  const open = { ...item, status: item.status ?? "in_progress" } as Mutable<Item>;
  switch (open.type) {
    case "reasoning":
      return { ...open, summary: list<SummaryEntry>(open.summary) };
    case "tool_call":
      return { ...open, arguments: typeof open.arguments === "string" ? open.arguments : "" };
    case "tool_result":
    case "message":
      return { ...open, block_list: blocks(open.block_list, open.type) };
    default:
      return open;
  }
}

/** What was assembled, with everything that the closing event says in its place. */
function close(assembled: Item, sent: Record<string, unknown>): Item {
  const item = { ...assembled, ...sent } as Record<string, unknown>;
  if (sent.status === undefined || sent.status === "in_progress") item.status = "completed";
  delete item.progress;
  delete item.arguments_status;
  const type = item.type as Item["type"];
  if (type === "tool_result" || type === "message") {
    item.block_list = blocks(item.block_list, type).map(closed);
  } else if (type === "reasoning") {
    item.summary = list<SummaryEntry>(item.summary).map(closed);
    if (item.content !== undefined) item.content = list<SummaryEntry>(item.content).map(closed);
  }
  return item as unknown as Item;
}

function closed<T extends { readonly status?: string; readonly partial_image_index?: number }>(
  part: T,
): T {
  if (part.status === undefined && part.partial_image_index === undefined) return part;
  const { status: _, partial_image_index: __, ...rest } = part;
  return rest as T;
}

function list<T>(value: unknown): T[] {
  return Array.isArray(value) ? (value.filter(isObject) as T[]) : [];
}

function blocks(value: unknown, holder: "tool_result" | "message"): WireBlock[] {
  return list<WireBlock>(value).map((block) => normalBlock(block, holder));
}

/** Older producers say `image_url` for an image and put the reference number into `id`. */
export function normalBlock(block: WireBlock, holder: string): WireBlock {
  const sent = block as unknown as Record<string, unknown>;
  if (sent.type !== "image_url" && typeof sent.id !== "number") return block;
  const { id, ...normal } = sent;
  if (sent.type === "image_url") normal.type = "image";
  if (typeof id !== "number") normal.id = id;
  else if (holder === "tool_result") normal.reference_id ??= id;
  return normal as unknown as WireBlock;
}
