import type { ErrorShape } from "../../base/error.ts";
import { isSame } from "../../base/plain.ts";
import { type Block, toWireBlock } from "../../contract/index.ts";
import type { ItemStatus, Progress, WireBlock, WireImageBlock } from "../../protocol/index.ts";
import { halfAtEnd } from "../../protocol/index.ts";
import { placeholders } from "../base/prompts.ts";
import type { ItemPlace, TaskEmitter } from "./emit.ts";

/** The end of a tool result. */
export interface ResultEnd {
  readonly status: ItemStatus;
  /** Blocks for people, appended to the streamed blocks. */
  readonly display: readonly WireBlock[];
  readonly referenceId?: number;
  readonly error?: ErrorShape;
  readonly childTaskId?: string;
}

/** The most characters of text that one result streams; a reader refuses events of several megabytes. */
export const maxStreamedCharacters = 1_000_000;
const maxProgressCharacters = 4_000;

/** Emits the result item of one call while its tool runs: text, images with previews, files and progress. */
export class ResultEmitter {
  readonly #emitter: TaskEmitter;
  place: ItemPlace;
  readonly #callId: string;
  readonly #reserve: (() => number) | undefined;
  #referenceId: number | undefined;
  /** All blocks of the item. Those from before the call's suspension come first. */
  #blocks: WireBlock[];
  #earlierCount: number;
  #repeated: RepeatedOutput;
  #openBlock: "text" | "image" | undefined;
  #previewCount = 0;
  /** The first half of a surrogate pair, emitted together with the second half. */
  #heldHalf = "";
  #streamed = 0;
  #hasEnded = false;

  /** `reserve` returns the reference number of a citable result; streamed blocks carry it from the start. */
  constructor(emitter: TaskEmitter, place: ItemPlace, callId: string, reserve?: () => number) {
    this.#emitter = emitter;
    this.place = place;
    this.#callId = callId;
    this.#reserve = reserve;
    this.#blocks = (place.blocks ?? []).map(({ status: _, ...block }) => block);
    this.#earlierCount = this.#blocks.length;
    this.#repeated = new RepeatedOutput(this.#blocks);
  }

  get referenceId(): number | undefined {
    return this.#referenceId;
  }

  /** Whether the result gets a number that answers can cite. */
  get isCitable(): boolean {
    return this.#reserve !== undefined;
  }

  get hasStreamed(): boolean {
    return this.#blocks.length > this.#earlierCount;
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
    if (block.type === "image" && (partial || this.#openBlock === "image")) {
      this.#addPreview(block);
      if (!partial) this.#closeBlock();
    } else {
      this.#closeBlock();
      this.#pushBlock(this.#withReference(block), block !== given);
    }
  }

  /** Discards the item and continues in a new one; the reference number stays. */
  startOver(open: () => ItemPlace): void {
    this.#emitter.discardItem(this.place, "tool_retry");
    this.place = open();
    this.#blocks = [];
    this.#earlierCount = 0;
    this.#repeated = new RepeatedOutput([]);
    this.#openBlock = undefined;
    this.#heldHalf = "";
    this.#streamed = 0;
  }

  /** Closes the open block and returns the place where the call continues after its suspension. */
  pause(): ItemPlace {
    this.#closeBlock();
    this.#hasEnded = true;
    return { ...this.place, blocks: this.#blocks };
  }

  /** Returns false after the end of the item. */
  progress({ progress, total, message }: Progress): boolean {
    if (this.#hasEnded) return false;
    this.#emitter.emit({
      type: "task.tool_result.progress",
      item_id: this.place.id,
      output_index: this.place.index,
      call_id: this.#callId,
      progress,
      ...(Number.isFinite(total) && { total }),
      ...(typeof message === "string" && { message: message.slice(0, maxProgressCharacters) }),
    });
    return true;
  }

  end({ status, display, referenceId, error, childTaskId }: ResultEnd): void {
    if (this.#hasEnded) return;
    this.#closeBlock();
    this.#hasEnded = true;
    for (const displayed of display) {
      // A task block is the place of the child that this call started, and of no other task.
      if (displayed.type === "task" && displayed.task_id !== this.#callId) continue;
      const block = this.#emitter.storeBytes(displayed);
      this.#pushBlock(withReference(block, referenceId), block !== displayed);
    }
    const done = { type: "tool_result", id: this.place.id, call_id: this.#callId, status } as const;
    this.#emitter.closeItem(this.place, {
      ...done,
      ...(error && { error }),
      // Readers find a child's output through its task, so the item keeps the blocks it has.
      ...(childTaskId === undefined
        ? { block_list: this.#blocks.map((block) => withReference(block, referenceId)) }
        : { child_task_id: childTaskId }),
    });
  }

  #addText(text: string): void {
    if (this.#openBlock === "image") this.#closeBlock();
    const room = maxStreamedCharacters - this.#streamed;
    if (room <= 0) return;
    const isCut = text.length > room;
    this.#streamed += text.length;
    const whole = this.#heldHalf + (isCut ? text.slice(0, room) + placeholders.streamCut : text);
    const cut = whole.length - halfAtEnd(whole);
    this.#heldHalf = whole.slice(cut);
    const delta = whole.slice(0, cut);
    if (delta === "") return;
    const index = this.#blocks.length - (this.#openBlock === "text" ? 1 : 0);
    if (this.#openBlock !== "text") {
      const item = this.#withReference({ type: "text", text: "" });
      this.#emitter.emit({ type: "task.text.added", ...this.#at(index), item });
      this.#blocks.push(item);
      this.#openBlock = "text";
    }
    const block = this.#blocks[index] as WireBlock & { type: "text" };
    this.#blocks[index] = { ...block, text: block.text + delta };
    this.#emitter.textDelta(this.place, index, delta);
  }

  /** A large image is announced, so that a reader can show its place while it loads. */
  #pushBlock(block: WireBlock, isLarge: boolean): void {
    if (isLarge && block.type === "image") {
      const item = { ...block, image_url: { url: "" } };
      this.#emitter.emit({ type: "task.image.added", ...this.#at(this.#blocks.length), item });
    }
    this.#emitter.block(this.place, this.#blocks.length, block);
    this.#blocks.push(block);
  }

  /** Emits an image that stays open; the next one takes its place. */
  #addPreview(unnumbered: WireImageBlock): void {
    if (this.#openBlock !== "image") {
      this.#closeBlock();
      const item = this.#withReference({ ...unnumbered, image_url: { url: "" } });
      this.#emitter.emit({ type: "task.image.added", ...this.#at(this.#blocks.length), item });
      this.#blocks.push(item);
      this.#openBlock = "image";
      this.#previewCount = 0;
    }
    const item = this.#withReference(unnumbered);
    const index = this.#blocks.length - 1;
    this.#blocks[index] = item;
    const partial_image_index = this.#previewCount++;
    this.#emitter.emit({ type: "task.image.delta", ...this.#at(index), partial_image_index, item });
  }

  /** Emits the open block whole: the text so far, or the last image. */
  #closeBlock(): void {
    if (this.#heldHalf !== "") {
      this.#heldHalf = "";
      this.#addText("\uFFFD"); // the second half never came
    }
    if (this.#openBlock === undefined) return;
    const index = this.#blocks.length - 1;
    this.#emitter.block(this.place, index, this.#blocks[index] as WireBlock);
    this.#openBlock = undefined;
  }

  #withReference<B extends WireBlock>(block: B): B {
    this.#referenceId ??= this.#reserve?.();
    return withReference(block, this.#referenceId);
  }

  #at(index: number) {
    return { item_id: this.place.id, output_index: this.place.index, block_index: index };
  }
}

/** Sets a block's reference number, or removes it when the result has none. */
function withReference<B extends WireBlock>(block: B, referenceId: number | undefined): B {
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
