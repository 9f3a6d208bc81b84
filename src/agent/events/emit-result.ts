import type { ErrorShape } from "../../base/error.ts";
import { isSame } from "../../base/plain.ts";
import { type Block, toWireBlock } from "../../contract/index.ts";
import type {
  ItemStatus,
  Progress,
  WireBlock,
  WireImageBlock,
  WrittenItem,
  WrittenPart,
} from "../../protocol/index.ts";
import { placeholders } from "../base/prompts.ts";
import type { TaskEmitter } from "./emit.ts";

/** The end of a tool result. */
export interface ResultEnd {
  readonly status: ItemStatus;
  /** Blocks for people, appended to the streamed blocks. */
  readonly display: readonly WireBlock[];
  readonly referenceId?: number;
  readonly error?: ErrorShape;
  /** Whether the call has started a child. */
  readonly hasChild?: boolean;
}

/** The most characters of text that one result streams; a reader refuses events of several megabytes. */
export const maxStreamedCharacters = 1_000_000;
const maxProgressCharacters = 4_000;

/** Emits the result item of one call while its tool runs: text, images with previews, files and progress. */
export class ResultEmitter {
  readonly #emitter: TaskEmitter;
  item: WrittenItem;
  readonly #reserve: (() => number) | undefined;
  /** The number of a citable result, from its first streamed block on. */
  referenceId: number | undefined;
  /** How many parts the item had before the call's suspension; they come first. */
  #earlierCount: number;
  #repeated: RepeatedOutput;
  #part: WrittenPart | undefined;
  #streamed = 0;
  #hasEnded = false;

  /** `reserve` returns the reference number of a citable result; streamed blocks carry it from the start. */
  constructor(emitter: TaskEmitter, item: WrittenItem, reserve?: () => number) {
    this.#emitter = emitter;
    this.item = item;
    this.#reserve = reserve;
    this.#earlierCount = item.parts.length;
    this.#repeated = new RepeatedOutput(item.blocks);
    for (const part of item.parts) part.isOpen = false; // a process that is gone may have left one open
  }

  /** Whether the result gets a number that answers can cite. */
  get isCitable(): boolean {
    return this.#reserve !== undefined;
  }

  get hasStreamed(): boolean {
    return this.item.parts.length > this.#earlierCount;
  }

  /** `partial`: the next image replaces this one. */
  emit(chunk: string | Block, { partial = false }: { readonly partial?: boolean } = {}): void {
    if (this.#hasEnded) return;
    if (typeof chunk === "string" || chunk.type === "text") {
      this.#addText(this.#repeated.dropFrom(typeof chunk === "string" ? chunk : chunk.text));
      return;
    }
    const given = toWireBlock(chunk);
    const block = this.#emitter.storeBytes(given);
    if (this.#repeated.drops(block)) return;
    if (block.type === "image" && (partial || this.#part?.kind === "image")) {
      this.#addPreview(this.#withReference(block));
      if (!partial) this.#closePart();
    } else {
      this.#closePart();
      this.#addBlock(this.#withReference(block), block !== given);
    }
  }

  /** Discards the item and continues in a new one; the reference number stays. */
  startOver(open: () => WrittenItem): void {
    this.#emitter.discardItem(this.item, "tool_retry");
    this.item = open();
    this.#earlierCount = 0;
    this.#repeated = new RepeatedOutput([]);
    this.#part = undefined;
    this.#streamed = 0;
  }

  /** Closes the open part; the call continues in its item after its suspension. */
  pause(): void {
    this.#closePart();
    this.#hasEnded = true;
  }

  /** Returns false after the end of the item. */
  progress({ progress, total, message }: Progress): boolean {
    if (this.#hasEnded) return false;
    this.#emitter.progress(this.item, {
      progress,
      ...(Number.isFinite(total) && { total }),
      ...(typeof message === "string" && { message: message.slice(0, maxProgressCharacters) }),
    });
    return true;
  }

  end({ status, display, referenceId, error, hasChild = false }: ResultEnd): void {
    if (this.#hasEnded) return;
    this.#closePart();
    this.#hasEnded = true;
    const { item } = this;
    for (const displayed of display) {
      // A task block is the place of the child that this call started, and of no other task.
      if (displayed.type === "task" && displayed.task_id !== item.callId) continue;
      const block = this.#emitter.storeBytes(displayed);
      this.#addBlock(withReference(block, referenceId), block !== displayed);
    }
    item.hasChild = hasChild;
    for (const part of item.parts)
      if (part.block && part.block.reference_id !== referenceId)
        part.block = withReference(part.block, referenceId);
    this.#emitter.closeItem(item, { status, ...(error && { error }) });
  }

  #addText(text: string): void {
    if (this.#part?.kind === "image") this.#closePart();
    const room = maxStreamedCharacters - this.#streamed;
    if (room <= 0 || text === "") return;
    this.#streamed += text.length;
    this.#part ??= this.#emitter.openPart(this.item, this.#withReference({}));
    const isCut = text.length > room;
    const shown = isCut ? text.slice(0, room).toWellFormed() + placeholders.streamCut : text;
    this.#append(this.#part, shown);
  }

  #append(part: WrittenPart, text: string): void {
    part.text += this.#emitter.appendText(part, text);
  }

  /** A large image is announced, so that a reader can show its place while it loads. */
  #addBlock(block: WireBlock, isLarge: boolean): void {
    if (isLarge && block.type === "image")
      this.#emitter.closePart(this.#emitter.openPart(this.item, block), block);
    else this.#emitter.addBlock(this.item, block);
  }

  /** Emits an image that stays open; the next one takes its place. */
  #addPreview(image: WireImageBlock): void {
    if (this.#part?.kind !== "image") {
      this.#closePart();
      this.#part = this.#emitter.openPart(this.item, image);
    }
    this.#emitter.previewImage(this.#part, image);
  }

  /** Emits the open part whole: the text so far, or the last image. */
  #closePart(): void {
    const part = this.#part;
    if (part === undefined) return;
    this.#part = undefined;
    if (part.held !== "") {
      part.held = "";
      this.#append(part, "\uFFFD"); // the second half never came
    }
    this.#emitter.closePart(part);
  }

  #withReference<B extends { readonly reference_id?: number }>(block: B): B {
    this.referenceId ??= this.#reserve?.();
    return withReference(block, this.referenceId);
  }
}

/** Sets a block's reference number, or removes it when the result has none. */
function withReference<B extends { readonly reference_id?: number }>(
  block: B,
  referenceId: number | undefined,
): B {
  const { reference_id: _, ...bare } = block;
  return (referenceId === undefined ? bare : { ...bare, reference_id: referenceId }) as B;
}

/** The output that a call streamed before its suspension; when the tool runs again, repetitions are dropped. */
export class RepeatedOutput {
  #expected: readonly WireBlock[];

  constructor(blocks: readonly WireBlock[]) {
    this.#expected = blocks;
  }

  /** Returns the part of a text that is new. */
  dropFrom(text: string): string {
    const [next, ...rest] = this.#expected;
    if (next?.type === "text" && next.text.startsWith(text)) {
      const left = next.text.slice(text.length);
      this.#expected = left === "" ? rest : [{ ...next, text: left }, ...rest];
      return "";
    }
    if (next?.type === "text" && text.startsWith(next.text)) {
      this.#expected = rest;
      return this.dropFrom(text.slice(next.text.length));
    }
    this.#expected = [];
    return text;
  }

  /** Returns true when a block repeats the expected one, apart from the reference number. */
  drops(block: WireBlock): boolean {
    const [next, ...rest] = this.#expected;
    const { reference_id: _, ...expected } = next ?? {};
    const isRepeated = isSame(expected, block);
    this.#expected = isRepeated ? rest : [];
    return isRepeated;
  }
}
