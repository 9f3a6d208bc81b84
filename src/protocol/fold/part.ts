import type {
  LogEvent,
  ReferenceAdded,
  TextAnnotationAdded,
  ToolCallArgumentsDelta,
  ToolCallArgumentsDone,
  ToolResultProgress,
} from "../event.ts";
import { impliedItem, normalBlock } from "../first-form.ts";
import { isText } from "../shape.ts";
import type { Annotation } from "../task.ts";
import {
  type Draft,
  editEntry,
  editItem,
  editList,
  editTask,
  type MutableItem,
  pick,
  putItem,
} from "./draft.ts";
import type { FoldOptions } from "./fold.ts";
import { closed, leaveOut, ownPart, reach } from "./item.ts";
import { at } from "./pages.ts";

/** The events that build the blocks of an item, its summary or its raw reasoning. */
type PartEvent = Extract<
  LogEvent,
  | { readonly block_index: number }
  | { readonly summary_index: number }
  | { readonly content_index: number }
>;
interface Indexes {
  readonly block_index: number;
  readonly summary_index: number;
  readonly content_index: number;
}
type ToolCallEvent = ToolCallArgumentsDelta | ToolCallArgumentsDone | ToolResultProgress;
/** A block, a paragraph of a summary or a piece of raw reasoning. */
interface Part {
  readonly type: string;
  readonly text?: string;
  readonly status?: "in_progress";
  readonly annotations?: readonly Annotation[];
  readonly partial_image_index?: number;
}

const omittedBlock: Part = { type: "omitted" };
const status = "in_progress";

/** Folds the events of parts: a part opens, grows, and is replaced with the whole one. */
export function foldPart(draft: Draft, event: PartEvent, options: FoldOptions): boolean {
  // By its type: an event may carry indexes that it does not need.
  const isBlock = !event.type.startsWith("task.reasoning");
  const isContent = event.type.startsWith("task.reasoning_text");
  const item = openItem(draft, event, isBlock ? "message" : "reasoning", options);
  if (item === undefined) return false;
  const name = isBlock ? "block_list" : isContent ? "content" : "summary";
  const list = item[name] as readonly Part[] | undefined;
  if (isBlock ? !Array.isArray(list) : item.type !== "reasoning") return false;
  const parts = editList(draft, list ?? []);
  const { block_index, summary_index, content_index } = event as unknown as Indexes;
  const index = isBlock ? block_index : isContent ? content_index : summary_index;
  const missing = index - parts.length;
  if (missing > 0) {
    if (!isBlock || !options.filtered || !leaveOut(draft, missing)) return false;
    while (parts.length < index) parts.push(omittedBlock);
  }
  item[name] = parts;
  return changePart(draft, event, parts, index, item.type);
}

function changePart(
  draft: Draft,
  event: PartEvent,
  parts: Part[],
  index: number,
  itemType: string,
): boolean {
  const part = parts[index];
  const isOpen = part?.status === status;
  switch (event.type) {
    case "task.text.delta":
    case "task.reasoning_summary_text.delta":
    case "task.reasoning_text.delta":
      if (part === undefined) {
        const type = event.type === "task.reasoning_text.delta" ? "reasoning_text" : "text";
        parts.push({ type, text: event.delta, status });
        return true;
      }
      if (!isOpen || !isText(part.text)) return false;
      editEntry(draft, parts, index).text = part.text + event.delta;
      return true;
    case "task.text.annotation.added":
      return isOpen && annotate(draft, parts, index, event);
    case "task.image.delta": {
      const { partial_image_index } = event;
      if (part !== undefined && (!isOpen || part.type !== "image")) return false;
      if (partial_image_index > (part?.partial_image_index ?? -1)) {
        parts[index] = { ...normalBlock(event.item, itemType), partial_image_index, status };
      }
      return true;
    }
    case "task.reasoning_text.done":
      return place(parts, index, { type: "reasoning_text", text: event.text }, false);
    case "task.reasoning_summary_item.added":
      return place(parts, index, event.item, true);
    case "task.reasoning_summary_item.done":
      return place(parts, index, event.item, false);
    default: {
      const block = normalBlock<Part>(event.item, itemType);
      return place(parts, index, block, event.type.endsWith("added"));
    }
  }
}

/** Adds an annotation to an open part of text, in their order. */
function annotate(draft: Draft, parts: Part[], index: number, event: TextAnnotationAdded): boolean {
  const { type, annotations: before = [] } = parts[index] as Part;
  if (type !== "text" || !Array.isArray(before)) return false;
  if (event.annotation_index !== before.length) return false;
  const annotations = editList(draft, before);
  annotations.push(event.annotation);
  editEntry(draft, parts, index).annotations = annotations;
  return true;
}

/** Opens a part, or replaces an open part with the whole one. */
function place(parts: Part[], index: number, sent: Part, opens: boolean): boolean {
  const part = parts[index];
  const isOpen = part?.status === status;
  if (opens && isOpen) return true;
  if (part !== undefined && (opens || !isOpen)) return false;
  parts[index] = opens ? ownPart({ ...sent, status }) : closed(sent);
  return true;
}

/** Folds the arguments of a tool call and the progress of a tool result. */
export function foldToolCall(draft: Draft, event: ToolCallEvent, options: FoldOptions): boolean {
  const type = event.type === "task.tool_result.progress" ? "tool_result" : "tool_call";
  const item = openItem(draft, event, type, options);
  if (item?.type !== type || item.arguments_status === "completed") return false;
  if (event.type === "task.tool_result.progress") {
    item.progress = pick(event, "progress", "total", "message");
  } else if (event.type === "task.tool_call_arguments.done") {
    item.arguments = event.arguments;
    item.arguments_status = "completed";
  } else {
    item.arguments = (item.arguments as string) + event.delta;
  }
  return true;
}

/** Folds a source of any item. */
export function foldReference(draft: Draft, event: ReferenceAdded, options: FoldOptions): boolean {
  const item = openItem(draft, event, "message", options);
  if (item === undefined) return false;
  const references = editList(draft, item.references ?? []);
  references.push(event.reference);
  item.references = references;
  return true;
}

/** The open item of a part, for editing. */
function openItem(
  draft: Draft,
  event: PartEvent | ToolCallEvent | ReferenceAdded,
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
  return item?.status === status ? editItem(draft, task, index) : undefined;
}
