import type { Block, MediaBlock, MediaSource, TextBlock } from "../../protocol/message.ts";
import type { WireBlock } from "../../protocol/task.ts";
import { isRecord } from "../plain.ts";

/** A result for its two audiences. */
export interface ShownResult {
  /** What the model reads. */
  readonly content: readonly Block[];
  /** What people see, when the tool itself said so; else it is what the model reads. */
  readonly display?: readonly WireBlock[];
  /** How long the model's text was before it was cut; absent: it was not. */
  readonly cutFrom?: number;
}

/** What a tool returned, or why it cannot be shown. */
export type ToolReturn =
  | (ShownResult & { readonly ok: true })
  | { readonly ok: false; readonly message: string };

type ContentBlock = TextBlock | MediaBlock;

/** The longest text that a tool result brings before the model, and the longest that people see of it. */
export const maxResultCharacters = 80_000;

const noOutput: readonly ContentBlock[] = [{ type: "text", text: "(no output)" }];

/**
 * Brings whatever `execute` returned into one form: a string, blocks, `{ content, display }`, the same as
 * `{ message_content, block_list }`, or any other value as JSON. Never throws.
 */
export function readResult(returned: unknown, maxCharacters = maxResultCharacters): ToolReturn {
  try {
    const { content, display } = audiencesOf(returned);
    const shown = show(
      contentOf(content),
      display === undefined ? undefined : displayOf(display),
      maxCharacters,
    );
    return { ok: true, ...shown };
  } catch (error) {
    return { ok: false, message: `its result is not JSON (${reasonOf(error)})` };
  }
}

/** A text as a result. */
export function textResult(text: string, maxCharacters = maxResultCharacters): ShownResult {
  return show([{ type: "text", text }], undefined, maxCharacters);
}

function show(
  content: readonly ContentBlock[],
  display: readonly WireBlock[] | undefined,
  maxCharacters: number,
): ShownResult {
  const { blocks, cutFrom } = cutText(content.filter(isNotBlank), maxCharacters);
  const read = blocks.length > 0 ? blocks : noOutput;
  const maxShown = Math.min(maxCharacters, maxResultCharacters);
  return {
    content: read,
    ...(display && { display: cutText(display, maxShown).blocks }),
    ...(cutFrom !== undefined && { cutFrom }),
  };
}

/** A block as people see it; bytes become a data URL. */
export function toWireBlock(block: Block): WireBlock {
  if ("source" in block) {
    const { type, source } = block;
    const url = "url" in source ? source.url : `data:${source.mimeType};base64,${source.data}`;
    const mime = source.mimeType === undefined ? {} : { mime_type: source.mimeType };
    return type === "image" ? { type, image_url: { url }, ...mime } : { type, url, ...mime };
  }
  return { type: "text", text: "text" in block ? block.text : JSON.stringify(block) };
}

/** What a thrown value says, whatever it is. Never throws. */
export function reasonOf(thrown: unknown): string {
  try {
    if (typeof thrown === "object" && thrown !== null) {
      const { message, name } = thrown as { message?: unknown; name?: unknown };
      if (typeof message === "string" && message !== "") return message;
      return typeof name === "string" && name !== "" ? name : JSON.stringify(thrown);
    }
    return typeof thrown === "string" && thrown !== "" ? thrown : `${String(thrown)} was thrown`;
  } catch {
    return "what was thrown cannot be read";
  }
}

/** The model's part and people's part. An object with any other field is a value like every other. */
function audiencesOf(returned: unknown): { content: unknown; display?: unknown } {
  if (!isRecord(returned)) return { content: returned };
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

/** A block or a list of blocks, ours or in the wire's shape; undefined when it is something else. */
function blocksOf(value: unknown): readonly ContentBlock[] | undefined {
  const list = Array.isArray(value) ? value : [value];
  const blocks = list.flatMap((entry) => blockOf(entry) ?? []);
  return blocks.length === list.length ? blocks : undefined;
}

function blockOf(value: unknown): ContentBlock | undefined {
  if (!isRecord(value)) return undefined;
  const { type, text, source, image_url: image, url, mime_type: mime } = value;
  if (type === "text") return typeof text === "string" ? { type, text } : undefined;
  if (type === "image" || type === "image_url") {
    const from = isRecord(image) ? sourceOf(image.url, mime) : mediaSourceOf(source);
    return from && { type: "image", source: from };
  }
  if (type === "audio" || type === "video" || type === "file") {
    const from = url === undefined ? mediaSourceOf(source) : sourceOf(url, mime);
    return from && { type, source: from };
  }
  return undefined;
}

function mediaSourceOf(source: unknown): MediaSource | undefined {
  if (!isRecord(source)) return undefined;
  const { data, mimeType, url } = source;
  if (typeof data !== "string") return sourceOf(url, mimeType);
  return typeof mimeType === "string" ? { data, mimeType } : undefined;
}

/** A data URL becomes bytes, since models take bytes and people's clients take URLs. */
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
    if (isRecord(entry) && entry.type === "task" && typeof entry.task_id === "string") {
      return [{ type: "task" as const, task_id: entry.task_id }];
    }
    return contentOf(entry).map((block) => withDetails(toWireBlock(block), entry));
  });
}

/** What people's side can say of an image or a file, and the model's side cannot. */
function withDetails(block: WireBlock, entry: unknown): WireBlock {
  if (block.type === "text" || !isRecord(entry)) return block;
  const { width, height, filename } = entry;
  return {
    ...block,
    ...(typeof width === "number" && { width }),
    ...(typeof height === "number" && { height }),
    ...(typeof filename === "string" && { filename }),
  };
}

/** A value as JSON; throws, with words for what and where, when JSON would lose something of it in silence. */
export function jsonOf(value: unknown): string {
  const places = new Map<object, string>();
  const text = JSON.stringify(value, function (this: object, key, shown) {
    const original = Reflect.get(this, key) as unknown;
    const place = [places.get(this), key].filter(Boolean).join(".");
    if (isUnreadable(original, shown)) throw new Error(`${nameOf(original)}${at(place)}`);
    if (typeof shown === "object" && shown !== null) places.set(shown, place);
    return shown;
  });
  if (text === undefined) throw new Error(`a ${typeof value}`);
  return text;
}

/** Bytes, and what has nothing that JSON would show: a Map, a Set, an Error, a Response. */
function isUnreadable(original: unknown, shown: unknown): boolean {
  if (typeof original === "bigint") return original === shown;
  if (typeof original !== "object" || original === null) return false;
  if (ArrayBuffer.isView(original)) return true;
  if (original !== shown || Array.isArray(original)) return false; // it says itself what is shown
  if (original instanceof Error) return true;
  const isPlain = (original.constructor?.name ?? "Object") === "Object";
  const isBoxed = typeof original.valueOf?.() !== "object";
  return !isPlain && !isBoxed && Object.keys(original).length === 0;
}

function nameOf(value: unknown): string {
  if (ArrayBuffer.isView(value)) return "bytes belong into a file or image block";
  return `a ${(value as object).constructor?.name ?? "thing"}`;
}

function at(place: string): string {
  return place === "" ? "" : ` at ${place}`;
}

/** Cuts the middle out of a text that is too long, over all text blocks together, and says so in its place. */
export function cutText<B extends Block | WireBlock>(
  blocks: readonly B[],
  maxCharacters = maxResultCharacters,
): { readonly blocks: readonly B[]; readonly cutFrom?: number } {
  const total = blocks.reduce((sum, block) => sum + lengthOf(block), 0);
  if (total <= maxCharacters) return { blocks };
  const notice = (kept: number) => `\n\n[${total - kept} of ${total} characters left out]\n\n`;
  const kept = Math.max(0, maxCharacters - notice(0).length);
  const headEnd = Math.ceil(kept / 2);
  const tailStart = total - Math.floor(kept / 2);
  let end = 0;
  const left = blocks.flatMap((block) => {
    const start = end;
    end += lengthOf(block);
    if (block.type !== "text" || end <= headEnd || start >= tailStart) return [block];
    const head = block.text.slice(0, Math.max(0, headEnd - start));
    const tail = block.text.slice(Math.max(0, tailStart - start));
    const middle = start <= headEnd ? notice(kept) : "";
    const text = (head + middle + tail).toWellFormed(); // a cut may split a pair
    return text === "" ? [] : [{ ...block, text }];
  });
  return { blocks: left, cutFrom: total };
}

function lengthOf(block: Block | WireBlock): number {
  return block.type === "text" ? block.text.length : 0;
}

function isNotBlank(block: ContentBlock): boolean {
  return block.type !== "text" || block.text.trim() !== "";
}
