import type { Draft, Mutable, MutableItem, Verdict } from "./draft.ts";
import { editEntry, editItem, editList, editTask, pick } from "./draft.ts";
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
  const at = event.block_index;
  if (at > blocks.length) {
    if (!options.filtered || !leaveOut(draft, blocks, at, omittedBlock)) return "ignored";
  }
  switch (event.type) {
    case "task.text.delta":
      return append(draft, blocks as Part[], at, "text", event.delta);
    case "task.text.annotation.added": {
      if (!isOpenPart(blocks[at], "text")) return "ignored";
      const block = editEntry(draft, blocks, at) as Mutable<WireBlock & { type: "text" }>;
      const annotations = editList(draft, block.annotations ?? []);
      if (event.annotation_index !== annotations.length) return "ignored";
      annotations.push(event.annotation);
      block.annotations = annotations;
      return "applied";
    }
    case "task.image.delta": {
      const block = blocks[at] as { partial_image_index?: number } | undefined;
      const image = normalBlock(event.item, item.type);
      const preview = { ...image, partial_image_index: event.partial_image_index } as WireBlock;
      if (block === undefined) return open(blocks, at, preview);
      if (!isOpenPart(block, "image")) return "ignored";
      if (event.partial_image_index > (block.partial_image_index ?? -1)) {
        blocks[at] = { ...preview, status: "in_progress" };
      }
      return "applied";
    }
    case "task.text.added":
    case "task.image.added":
      if (isOpenPart(blocks[at])) return "applied";
      return open(blocks, at, normalBlock<WireBlock>(event.item, item.type));
    default:
      return put(blocks, at, normalBlock<WireBlock>(event.item, item.type));
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
  const at = event.summary_index;
  if (event.type === "task.reasoning_summary_text.delta") {
    return append(draft, summary, at, "text", event.delta);
  }
  if (event.type === "task.reasoning_summary_item.done") return put(summary, at, event.item);
  return isOpenPart(summary[at]) ? "applied" : open(summary, at, event.item);
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

/** The open item of a part, for editing. */
function openItem(
  draft: Draft,
  event: BlockEvent | ReasoningEvent | ToolCallEvent,
  implied: "message" | "reasoning" | "tool_call" | "tool_result",
  options: FoldOptions,
): MutableItem | undefined {
  const at = event.output_index;
  const task = editTask(draft, event.task_id);
  if (task.output[at] === undefined && options.legacy) {
    if (!reach(draft, task, at, options)) return undefined;
    const output = editList(draft, task.output);
    output.push(impliedItem(event.item_id, implied));
    task.output = output;
  }
  return task.output[at]?.status === "in_progress" ? editItem(draft, task, at) : undefined;
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
