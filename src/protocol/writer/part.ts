import { readText } from "../../base/argument.ts";
import type { LogEvent } from "../event.ts";
import { pick } from "../fold/draft.ts";
import { closed } from "../fold/item.ts";
import type { WireBlock, WireImageBlock } from "../task.ts";
import { type EventBody, halfAtEnd, piecesOf } from "./delta.ts";
import type { WrittenItem, WrittenPart } from "./item.ts";
import { copyOf, readBody, refuse } from "./rules.ts";
import type { WriterState } from "./state.ts";

/** A part to open: text, an image, or a piece of raw reasoning. */
export interface PartStart extends Partial<Omit<WireImageBlock, "type">> {
  readonly type?: "text" | "image" | "reasoning_text";
  readonly annotations?: readonly unknown[];
}

/** The events of the parts, and the name of their index. */
const names = {
  text: ["task.text", "block_index"],
  image: ["task.image", "block_index"],
  block: ["task.block", "block_index"],
  summary: ["task.reasoning_summary_item", "summary_index"],
  content: ["task.reasoning_text", "content_index"],
  arguments: ["task.tool_call_arguments", ""],
} as const;

/** The event of a part, if it fits. */
function partBody(
  { item, kind, index }: Pick<WrittenPart, "item" | "kind" | "index">,
  phase: "added" | "delta" | "done",
  value: object,
): EventBody {
  const [prefix, indexName] = names[kind];
  const isParagraph = kind === "summary" && phase === "delta";
  const type = `${isParagraph ? "task.reasoning_summary_text" : prefix}.${phase}`;
  const at = {
    item_id: item.id,
    output_index: item.index,
    ...(indexName && { [indexName]: index }),
  };
  if (phase === "delta" && kind !== "image") return { type, ...at, ...value } as EventBody;
  return readBody(type as LogEvent["type"], { ...at, ...value } as never);
}

/** Opens a part at the end of an item. The first delta opens arguments and raw reasoning. */
export function openPart(state: WriterState, item: WrittenItem, start: PartStart): WrittenPart {
  const given = copyOf("part", start);
  const { type = "text", annotations, ...rest } = closed(given) as PartStart;
  if (item.type === "tool_call") {
    if (item.parts.length > 0) refuse(`${item.id} has its arguments.`, "Open them once.");
    return item.addPart("arguments", true);
  }
  const isReasoning = item.type === "reasoning";
  if (isReasoning && type === "reasoning_text") {
    const last = item.partsOf("content").at(-1);
    if (last?.isOpen) closePart(state, last, {}); // a piece without a delta would take the place of the next
    return item.addPart("content", true);
  }
  const isImage = type === "image" && !isReasoning;
  const text = { type: "text", text: "", ...(annotations && { annotations: [] }) } as const;
  const block: WireBlock = isReasoning
    ? { type: "text", text: "" }
    : isImage
      ? { ...rest, type, image_url: { url: "" } }
      : { ...rest, ...text };
  const kind = isReasoning ? "summary" : isImage ? "image" : "text";
  state.append(partBody({ item, kind, index: item.lengthOf(kind) }, "added", { item: block }));
  return item.addPart(kind, true, block);
}

/** Appends a text, without half a surrogate pair at its end. */
export function appendText(state: WriterState, part: WrittenPart, text: string): void {
  if (part.kind === "image") refuse("An image has no text.", "Call `preview`.");
  const whole = part.held + text;
  const cut = whole.length - halfAtEnd(whole);
  part.held = whole.slice(cut);
  grow(state, part, whole.slice(0, cut));
}

function grow(state: WriterState, part: WrittenPart, text: string): void {
  for (const delta of piecesOf(text.toWellFormed())) {
    part.text += delta;
    state.append(partBody(part, "delta", { delta }));
  }
}

/** Shows an image that replaces the last one of its part. */
export function previewImage(state: WriterState, part: WrittenPart, image: WireImageBlock): void {
  const item = imageOf(part, image);
  state.append(partBody(part, "delta", { partial_image_index: part.preview, item }));
  part.preview += 1;
  part.block = item;
}

function imageOf(part: WrittenPart, image: object): WireImageBlock {
  if (part.kind !== "image") refuse("The part is not an image.", "Open it as an image.");
  const given = copyOf("image", image);
  const named = pick(part.block as WireImageBlock, "id", "reference_id");
  const item = closed({ ...given, ...named, type: "image" });
  return checkImage((partBody(part, "done", { item }) as { item: WireBlock }).item);
}

function checkImage(block: WireBlock): WireImageBlock {
  if (block.type !== "image" || block.image_url.url === "")
    return refuse("The image has no url.", "Pass the url of the image.");
  return block;
}

/** Adds a whole block. */
export function addBlock(state: WriterState, item: WrittenItem, block: WireBlock): WrittenPart {
  if (item.type !== "message" && item.type !== "tool_result")
    refuse(`${item.id} is a ${item.type}.`, "Pass a message or a result.");
  const given = closed(copyOf("block", block));
  const kind = given.type === "text" || given.type === "image" ? given.type : "block";
  const body = partBody({ item, kind, index: item.lengthOf(kind) }, "done", { item: given });
  const { item: read } = body as { item: WireBlock };
  state.checkBlock(item, read);
  if (kind === "image") checkImage(read);
  state.append(body);
  return item.addPart(kind, false, read);
}

/** Closes a part. The text of a part without deltas is the one that is given. */
export function closePart(state: WriterState, part: WrittenPart, whole: object): void {
  const { kind } = part;
  const given = copyOf("part", whole);
  if (kind === "image") {
    const item = imageOf(part, { ...part.block, ...given });
    state.append(partBody(part, "done", { item }));
    part.block = item;
  } else {
    if (part.held !== "") grow(state, part, part.held);
    part.held = "";
    const sent = readText("part.text", ((given as { text?: string }).text ?? "") as string);
    const text = part.text === "" ? sent.toWellFormed() : part.text;
    const own = part.annotations.length > 0 && { annotations: part.annotations };
    const item = closed({ ...given, ...part.block, ...own, type: "text", text });
    const value = {
      content: { text },
      arguments: { arguments: text },
      summary: { item: { type: "text", text } },
    };
    const body = partBody(
      part,
      "done",
      kind === "text" || kind === "block" ? { item } : value[kind],
    );
    if (kind === "text") {
      const { item: read } = body as { item: WireBlock };
      state.checkBlock(part.item, read);
      part.block = read;
    }
    state.append(body);
    part.text = text;
  }
  part.isOpen = false;
}
