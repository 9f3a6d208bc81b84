import { closed } from "../fold/item.ts";
import type { Annotation, Item, ItemStatus, MessageItem, WireBlock } from "../task.ts";

/** An item that a writer has opened; its fields change with the events of the item. */
export class WrittenItem {
  readonly id: string;
  /** The position in the task's `output`. */
  readonly index: number;
  type: Item["type"];
  readonly callId: string | undefined;
  readonly name: string | undefined;
  readonly messageId: string | undefined;
  readonly purpose: MessageItem["purpose"];
  /** Whether it is the result of a call that has started a child. */
  hasChild = false;
  readonly parts: WrittenPart[] = [];
  /** Absent on a discarded item. */
  status: ItemStatus | undefined;

  /** A new item, without parts. */
  constructor(item: Item, index: number) {
    this.id = item.id;
    this.index = index;
    this.type = item.type;
    this.callId = "call_id" in item ? item.call_id : undefined;
    this.name = "name" in item ? item.name : undefined;
    this.messageId = "message_id" in item ? item.message_id : undefined;
    this.purpose = "purpose" in item ? item.purpose : undefined;
    this.status = item.status;
  }

  /** An item that the fold has read, with its parts. */
  static from(item: Item, index: number): WrittenItem {
    const written = new WrittenItem(item, index);
    written.#addParts(item);
    return written;
  }

  get isOpen(): boolean {
    return this.status === "in_progress";
  }

  partsOf(kind: WrittenPart["kind"]): readonly WrittenPart[] {
    return this.parts.filter((part) => part.kind === kind);
  }

  /** The blocks of a message or a result. */
  get blocks(): readonly WireBlock[] {
    const hasBlocks = this.type === "message" || this.type === "tool_result";
    return hasBlocks ? this.parts.map(({ block }) => block as WireBlock) : [];
  }

  /** The arguments of a call so far. */
  get arguments(): string {
    return this.parts[0]?.text ?? "";
  }

  /** The index of the next part of a kind: blocks share one list. */
  lengthOf(kind: WrittenPart["kind"]): number {
    if (this.type !== "reasoning") return this.parts.length;
    return (this.parts.findLast((part) => part.kind === kind)?.index ?? -1) + 1;
  }

  addPart(kind: WrittenPart["kind"], isOpen: boolean, block?: WireBlock): WrittenPart {
    const part = new WrittenPart(this, kind, this.lengthOf(kind), block);
    part.isOpen = isOpen;
    this.parts.push(part);
    return part;
  }

  #addParts(item: Item): void {
    if (item.type === "message" || item.type === "tool_result") {
      for (const block of item.block_list) {
        const kind = block.type === "text" || block.type === "image" ? block.type : "block";
        this.addPart(kind, block.status !== undefined, block);
      }
    } else if (item.type === "reasoning") {
      for (const { text, status } of item.summary)
        this.addPart("summary", status !== undefined).text = text;
      for (const { text, status } of item.content ?? [])
        this.addPart("content", status !== undefined).text = text;
    } else if (item.type === "tool_call") {
      const isOpen = this.isOpen && item.arguments_status === undefined;
      if (!isOpen || item.arguments !== "") this.addPart("arguments", isOpen).text = item.arguments;
    }
  }
}

/** A part of an item: a block, a paragraph of a summary, raw reasoning, or the arguments of a call. */
export class WrittenPart {
  readonly item: WrittenItem;
  readonly kind: "text" | "image" | "block" | "summary" | "content" | "arguments";
  /** The position in the list of the item that holds the part. */
  readonly index: number;
  isOpen = true;
  /** The text so far. */
  text = "";
  /** The first half of a surrogate pair, written together with the second half. */
  held = "";
  /** The number of the next preview of an image. */
  preview = 0;
  #annotations: Annotation[] | undefined;
  #block: WireBlock | undefined;

  constructor(item: WrittenItem, kind: WrittenPart["kind"], index: number, block?: WireBlock) {
    this.item = item;
    this.kind = kind;
    this.index = index;
    this.block = closed(block);
    if (block?.type === "image") this.preview = (block.partial_image_index ?? -1) + 1;
  }

  /** The block so far; undefined if the part is not one. */
  get block(): WireBlock | undefined {
    const block = this.#block;
    if (this.kind !== "text") return block;
    const { text } = this;
    const annotations = this.#annotations;
    const isWhole = block?.type === "text" && block.text === text;
    if (isWhole && block.annotations?.length === annotations?.length) return block;
    return { ...block, type: "text", text, ...(annotations && { annotations }) };
  }

  set block(block: WireBlock | undefined) {
    this.#block = block;
    if (block?.type !== "text") return;
    this.text = block.text;
    this.#annotations = block.annotations && [...block.annotations];
  }

  get annotations(): readonly Annotation[] {
    return this.#annotations ?? [];
  }

  addAnnotation(annotation: Annotation): void {
    this.#annotations ??= [];
    this.#annotations.push(annotation);
  }

  /** The id of the block. */
  get id(): string | undefined {
    return this.#block?.id;
  }

  /** Whether the image of the part has not arrived. */
  get isEmptyImage(): boolean {
    return this.#block?.type === "image" && this.#block.image_url.url === "";
  }
}

/** The place of the child that a result holds. */
export function childPlace({
  id: item_id,
  index: output_index,
  callId: call_id = "",
}: WrittenItem) {
  return { child_task_id: call_id, call_id, item_id, output_index };
}

/** Whether a text of an item cites another item of the task. */
export function cites({ parts }: WrittenItem, { id }: WrittenItem, taskId: string): boolean {
  const targets = parts.flatMap(({ annotations }) => annotations.map(({ target }) => target));
  return targets.some((target) => target?.item_id === id && target.task_id === taskId);
}
