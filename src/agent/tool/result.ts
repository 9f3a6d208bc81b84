import { reasonOf } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import {
  type Block,
  type MediaBlock,
  type MediaSource,
  type TextBlock,
  type ToolResultBlock,
  type ToolUseBlock,
  toWireBlock,
} from "../../contract/index.ts";
import type { WireBlock } from "../../protocol/index.ts";
import { placeholders, toolErrors } from "../base/prompts.ts";

/** A result for the model and for people. */
export interface ShownResult {
  /** The blocks for the model. */
  readonly content: readonly Block[];
  /** The blocks for people; absent: the same as for the model. */
  readonly display?: readonly WireBlock[];
}

/** The value that a tool returned, or why it cannot be shown. */
export type ToolReturn =
  | (ShownResult & { readonly ok: true })
  | { readonly ok: false; readonly message: string };

type ContentBlock = TextBlock | MediaBlock;

/** The most characters of a tool result that the model reads, and that people see. */
export const maxResultCharacters = 80_000;

const emptyContent: readonly ContentBlock[] = [{ type: "text", text: placeholders.noOutput }];

/** Reads a returned string, blocks, `{ content, display }` (or its wire form), or any value as JSON. Never throws. */
export function readResult(returned: unknown, maxCharacters = maxResultCharacters): ToolReturn {
  try {
    const { content, display } = audiencesOf(returned);
    const forPeople = display === undefined ? undefined : displayOf(display);
    return { ok: true, ...show(contentOf(content), forPeople, maxCharacters) };
  } catch (error) {
    return { ok: false, message: toolErrors.notJson(reasonOf(error)) };
  }
}

/** A result that consists of text. */
export function textResult(text: string, maxCharacters = maxResultCharacters): ShownResult {
  return show([{ type: "text", text }], undefined, maxCharacters);
}

function show(
  content: readonly ContentBlock[],
  display: readonly WireBlock[] | undefined,
  maxCharacters: number,
): ShownResult {
  const visible = content.filter((block) => block.type !== "text" || block.text.trim() !== "");
  const blocks = cutText(visible, maxCharacters);
  const maxShown = Math.min(maxCharacters, maxResultCharacters);
  return {
    content: blocks.length > 0 ? blocks : emptyContent,
    ...(display && { display: cutText(display, maxShown) }),
  };
}

/** The parts for the model and for people; an object with any other field is a plain value. */
function audiencesOf(returned: unknown): { content: unknown; display?: unknown } {
  if (!isObject(returned)) return { content: returned };
  const fields = Object.keys(returned);
  const has = (content: string, display: string) =>
    fields.includes(content) && fields.every((field) => field === content || field === display);
  if (has("content", "display")) return { content: returned.content, display: returned.display };
  if (has("message_content", "block_list")) {
    return { content: returned.message_content, display: returned.block_list };
  }
  return { content: returned };
}

function contentOf(value: unknown): readonly ContentBlock[] {
  if (value === undefined) return [];
  if (typeof value === "string") return [{ type: "text", text: value }];
  return blocksOf(value) ?? [{ type: "text", text: jsonOf(value) }];
}

/** A block or an array of blocks, ours or in wire form; undefined for any other value. */
function blocksOf(value: unknown): readonly ContentBlock[] | undefined {
  const list = Array.isArray(value) ? value : [value];
  const blocks = list.flatMap((entry) => blockOf(entry) ?? []);
  return blocks.length === list.length ? blocks : undefined;
}

function blockOf(value: unknown): ContentBlock | undefined {
  if (!isObject(value)) return undefined;
  const { type, text, source, image_url: image, url, mime_type: mime } = value;
  if (type === "text") return typeof text === "string" ? { type, text } : undefined;
  if (type === "image" || type === "image_url") {
    const from = isObject(image) ? sourceOf(image.url, mime) : mediaSourceOf(source);
    return from && { type: "image", source: from };
  }
  if (type === "audio" || type === "video" || type === "file") {
    const from = url === undefined ? mediaSourceOf(source) : sourceOf(url, mime);
    return from && { type, source: from };
  }
  return undefined;
}

function mediaSourceOf(source: unknown): MediaSource | undefined {
  if (!isObject(source)) return undefined;
  const { data, mimeType, url } = source;
  if (typeof data !== "string") return sourceOf(url, mimeType);
  return typeof mimeType === "string" ? { data, mimeType } : undefined;
}

/** Converts a data URL to bytes, because models take bytes. */
function sourceOf(url: unknown, mimeType: unknown): MediaSource | undefined {
  if (typeof url !== "string") return undefined;
  const comma = url.startsWith("data:") ? url.indexOf(",") : -1;
  if (comma < 0) return typeof mimeType === "string" ? { url, mimeType } : { url };
  const [type, ...parameters] = url.slice("data:".length, comma).split(";");
  const body = url.slice(comma + 1);
  const data = parameters.includes("base64")
    ? body
    : Buffer.from(decodeURIComponent(body)).toString("base64");
  return { data, mimeType: type || "text/plain" };
}

function displayOf(value: unknown): readonly WireBlock[] {
  const list = Array.isArray(value) ? value : [value];
  return list.flatMap((entry) => {
    if (isObject(entry) && entry.type === "task" && typeof entry.task_id === "string") {
      return [{ type: "task" as const, task_id: entry.task_id }];
    }
    return contentOf(entry).map((block) => withDetails(toWireBlock(block), entry));
  });
}

function withDetails(block: WireBlock, entry: unknown): WireBlock {
  if (block.type === "text" || !isObject(entry)) return block;
  const { width, height, filename } = entry;
  return {
    ...block,
    ...(typeof width === "number" && { width }),
    ...(typeof height === "number" && { height }),
    ...(typeof filename === "string" && { filename }),
  };
}

/** A value as JSON; throws, naming the value and its place, if JSON would silently lose a part of it. */
export function jsonOf(value: unknown): string {
  const places = new Map<object, string>();
  const text = JSON.stringify(value, function (this: object, key, shown) {
    const original = Reflect.get(this, key) as unknown;
    const place = [places.get(this), key].filter(Boolean).join(".");
    if (isUnreadable(original, shown)) {
      throw new Error(`${nameOf(original)}${place === "" ? "" : ` at ${place}`}`);
    }
    if (typeof shown === "object" && shown !== null) places.set(shown, place);
    return shown;
  });
  if (text === undefined) throw new Error(`a ${typeof value}`);
  return text;
}

/** Whether JSON would lose a value: bytes, and objects without enumerable fields such as a Map, an Error or a Response. */
function isUnreadable(original: unknown, shown: unknown): boolean {
  if (typeof original === "bigint") return original === shown;
  if (typeof original !== "object" || original === null) return false;
  if (ArrayBuffer.isView(original)) return true;
  if (original !== shown || Array.isArray(original)) return false; // it has a toJSON method
  if (original instanceof Error) return true;
  const isPlain = (original.constructor?.name ?? "Object") === "Object";
  const isBoxed = typeof original.valueOf?.() !== "object";
  return !isPlain && !isBoxed && Object.keys(original).length === 0;
}

function nameOf(value: unknown): string {
  if (ArrayBuffer.isView(value)) return "bytes, which belong in a file or image block";
  return `a ${(value as object).constructor?.name ?? "value"}`;
}

/** Replaces the middle of a too long text, counted over all text blocks, with a notice. */
export function cutText<B extends Block | WireBlock>(
  blocks: readonly B[],
  maxCharacters = maxResultCharacters,
): readonly B[] {
  const total = blocks.reduce((sum, block) => sum + lengthOf(block), 0);
  if (total <= maxCharacters) return blocks;
  const kept = Math.max(0, maxCharacters - placeholders.cut(total, total).length);
  const headEnd = Math.ceil(kept / 2);
  const tailStart = total - Math.floor(kept / 2);
  let end = 0;
  return blocks.flatMap((block) => {
    const start = end;
    end += lengthOf(block);
    if (block.type !== "text" || end <= headEnd || start >= tailStart) return [block];
    const head = block.text.slice(0, Math.max(0, headEnd - start));
    const tail = block.text.slice(Math.max(0, tailStart - start));
    const middle = start <= headEnd ? placeholders.cut(total - kept, total) : "";
    const text = (head + middle + tail).toWellFormed(); // a cut may split a surrogate pair
    return text === "" ? [] : [{ ...block, text }];
  });
}

function lengthOf(block: Block | WireBlock): number {
  return block.type === "text" ? block.text.length : 0;
}

/** A call as it ran. */
export type RanCall = Pick<ToolUseBlock, "name" | "input" | "raw">;

interface RanMark {
  readonly ran?: RanCall | null;
}

/** Marks a result that did not come from the tool. */
export const notRun: RanMark = Object.freeze({ ran: null });

/** Marks a result whose call ran differently from how the model sent it, or, with `ran` undefined, did not run. */
export function ranMark(sent: ToolUseBlock, ran: RanCall | undefined): RanMark {
  if (ran === undefined) return notRun;
  const { name, input } = ran;
  return name === sent.name && input === sent.input ? {} : { ran: { name, input } };
}

/** How a call with a result ran; undefined when the result did not come from the tool. */
export function ranCall(sent: ToolUseBlock, result: ToolResultBlock): RanCall | undefined {
  const { ran = sent } = (result.metadata ?? {}) as RanMark;
  return ran ?? undefined;
}
