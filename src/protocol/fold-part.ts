import type { Draft, Mutable, MutableItem, Verdict } from "./draft.ts";
import { editEntry, editItem, editList, editTask, pick, putItem } from "./draft.ts";
import type {
  BlockDone,
  ImageAdded,
  ImageDelta,
  ImageDone,
  ReasoningSummaryItemAdded,
  ReasoningSummaryItemDone,
  ReasoningSummaryTextDelta,
  ReasoningTextDelta,
  ReasoningTextDone,
  ReferenceAdded,
  TextAdded,
  TextAnnotationAdded,
  TextDelta,
  TextDone,
  ToolCallArgumentsDelta,
  ToolCallArgumentsDone,
  ToolResultProgress,
} from "./event.ts";
import type { FoldOptions } from "./fold.ts";
import { closed, leaveOut, normalBlock, ownPart, reach } from "./fold-item.ts";
import { at } from "./pages.ts";
import { isObject } from "./shape.ts";
import type { Item, ReasoningText, SummaryEntry, WireBlock } from "./task.ts";

type BlockEvent =
  | TextAdded
  | TextDelta
  | TextAnnotationAdded
  | TextDone
  | ImageAdded
  | ImageDelta
  | ImageDone
  | BlockDone;
type ReasoningEvent =
  | ReasoningSummaryItemAdded
  | ReasoningSummaryTextDelta
  | ReasoningSummaryItemDone
  | ReasoningTextDelta
  | ReasoningTextDone;
type ToolCallEvent = ToolCallArgumentsDelta | ToolCallArgumentsDone | ToolResultProgress;
type Part = { readonly type: string; readonly text?: string; readonly status?: "in_progress" };

const omittedBlock: WireBlock = { type: "omitted" };

/** Folds the events of blocks of a message or a tool result. */
export function foldBlock(draft: Draft, event: BlockEvent, options: FoldOptions): Verdict {
  const item = openItem(draft, event, "message", options);
  if (item === undefined || !Array.isArray(item.block_list)) return "ignored";
  const blocks = editList(draft, item.block_list as WireBlock[]);
  item.block_list = blocks;
  const index = event.block_index;
  if (index > blocks.length) {
    if (!options.filtered || !leaveOut(draft, index - blocks.length)) return "ignored";
    while (blocks.length < index) blocks.push(omittedBlock);
  }
  switch (event.type) {
    case "task.text.delta":
      return append(draft, blocks as Part[], index, "text", event.delta);
    case "task.text.annotation.added": {
      if (!isOpenPart(blocks[index], "text")) return "ignored";
      const block = editEntry(draft, blocks, index) as Mutable<WireBlock & { type: "text" }>;
      const annotations = editList(draft, block.annotations ?? []);
      if (event.annotation_index !== annotations.length) return "ignored";
      annotations.push(event.annotation);
      block.annotations = annotations;
      return "applied";
    }
    case "task.image.delta": {
      const block = blocks[index] as { partial_image_index?: number } | undefined;
      const image = normalBlock(event.item, item.type);
      const preview = { ...image, partial_image_index: event.partial_image_index } as WireBlock;
      if (block === undefined) return open(blocks, index, preview);
      if (!isOpenPart(block, "image")) return "ignored";
      if (event.partial_image_index > (block.partial_image_index ?? -1)) {
        blocks[index] = { ...preview, status: "in_progress" };
      }
      return "applied";
    }
    case "task.text.added":
    case "task.image.added":
      if (isOpenPart(blocks[index])) return "applied";
      return open(blocks, index, normalBlock<WireBlock>(event.item, item.type));
    default:
      return put(blocks, index, normalBlock<WireBlock>(event.item, item.type));
  }
}

/** Folds the events of a reasoning's summary and raw text. */
export function foldReasoning(draft: Draft, event: ReasoningEvent, options: FoldOptions): Verdict {
  const item = openItem(draft, event, "reasoning", options) as
    | Mutable<Item & { type: "reasoning" }>
    | undefined;
  if (item === undefined || item.type !== "reasoning") return "ignored";
  if (event.type === "task.reasoning_text.delta" || event.type === "task.reasoning_text.done") {
    const content = editList<ReasoningText>(draft, item.content ?? []);
    const type = "reasoning_text";
    const verdict =
      event.type === "task.reasoning_text.delta"
        ? append(draft, content, event.content_index, type, event.delta)
        : put(content, event.content_index, { type, text: event.text });
    if (verdict === "applied") item.content = content;
    return verdict;
  }
  const summary = editList<SummaryEntry>(draft, item.summary);
  item.summary = summary;
  const index = event.summary_index;
  if (event.type === "task.reasoning_summary_text.delta") {
    return append(draft, summary, index, "text", event.delta);
  }
  if (event.type === "task.reasoning_summary_item.done") return put(summary, index, event.item);
  return isOpenPart(summary[index]) ? "applied" : open(summary, index, event.item);
}

/** Folds the arguments of a tool call and the progress of a tool result. */
export function foldToolCall(draft: Draft, event: ToolCallEvent, options: FoldOptions): Verdict {
  const progress = event.type === "task.tool_result.progress";
  const item = openItem(draft, event, progress ? "tool_result" : "tool_call", options);
  if (item === undefined) return "ignored";
  if (progress) {
    if (item.type !== "tool_result") return "ignored";
    item.progress = pick(event, "progress", "total", "message");
    return "applied";
  }
  if (item.type !== "tool_call" || item.arguments_status === "completed") return "ignored";
  if (event.type === "task.tool_call_arguments.done") {
    item.arguments = event.arguments;
    item.arguments_status = "completed";
    return "applied";
  }
  item.arguments = (item.arguments as string) + event.delta;
  return "applied";
}

/** Folds a source of any item. */
export function foldReference(draft: Draft, event: ReferenceAdded, options: FoldOptions): Verdict {
  const item = openItem(draft, event, "message", options);
  if (item === undefined) return "ignored";
  const references = editList(draft, item.references ?? []);
  references.push(event.reference);
  item.references = references;
  return "applied";
}

/** The open item of a part, for editing. */
function openItem(
  draft: Draft,
  event: BlockEvent | ReasoningEvent | ToolCallEvent | ReferenceAdded,
  implied: "message" | "reasoning" | "tool_call" | "tool_result",
  options: FoldOptions,
): MutableItem | undefined {
  const index = event.output_index;
  const task = editTask(draft, event.task_id);
  let item = at(task.output, index);
  if (item === undefined && options.legacy) {
    if (!reach(draft, task, index, options)) return undefined;
    item = impliedItem(event.item_id, implied);
    putItem(draft, task, index, item);
  }
  return item?.status === "in_progress" ? editItem(draft, task, index) : undefined;
}

/** The item for a part that comes before it, which producers of the first form may send. */
function impliedItem(
  id: string,
  type: "message" | "reasoning" | "tool_call" | "tool_result",
): Item {
  const status = "in_progress";
  if (type === "reasoning") return { type, id, status, summary: [] };
  if (type === "tool_call") return { type, id, status, call_id: "", name: "", arguments: "" };
  if (type === "tool_result") return { type, id, status, call_id: "", block_list: [] };
  return { type, id, status, role: "assistant", block_list: [] };
}

function append(draft: Draft, parts: Part[], at: number, type: string, delta: string): Verdict {
  const part = parts[at];
  if (part === undefined) return open(parts, at, { type, text: delta });
  if (part?.status !== "in_progress" || typeof part.text !== "string") return "ignored";
  const editable = editEntry(draft, parts, at);
  editable.text = part.text + delta;
  return "applied";
}

function open<T extends object>(parts: T[], at: number, part: T): Verdict {
  if (at !== parts.length) return "ignored";
  parts.push(ownPart({ ...part, status: "in_progress" }));
  return "applied";
}

/** Replaces an assembled part with the whole one. */
function put<T extends object>(parts: T[], at: number, part: T): Verdict {
  if (at === parts.length) parts.push(closed(part));
  else if (isOpenPart(parts[at])) parts[at] = closed(part);
  else return "ignored";
  return "applied";
}

function isOpenPart(part: unknown, type?: string): boolean {
  if (!isObject(part) || part.status !== "in_progress") return false;
  return type === undefined || part.type === type;
}
