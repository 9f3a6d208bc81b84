import type { ErrorShape } from "../protocol/error.ts";
import type { Block } from "../protocol/message.ts";
import type { ItemStatus, Progress, WireBlock, WireImageBlock } from "../protocol/task.ts";
import type { ItemPlace, TaskEmitter } from "./emit.ts";
import { halfAtEnd } from "./half-at-end.ts";
import { SaidBefore } from "./said-before.ts";
import { toWireBlock } from "./tool/result.ts";

/** How a result is closed. */
export interface ResultEnd {
  readonly status: ItemStatus;
  /** What people see; what was streamed stays in front of it. */
  readonly display: readonly WireBlock[];
  readonly referenceId?: number;
  readonly error?: ErrorShape;
  readonly childTaskId?: string;
}

/** Shows one call's result while its tool runs: text grows, images get better, progress is told. */
export class ResultEmitter {
  readonly #emitter: TaskEmitter;
  #place: ItemPlace;
  /** Those from before the call had to wait stand before ours. */
  #blocks: WireBlock[];
  #before: number;
  #saidBefore: SaidBefore;
  #open: "text" | "image" | undefined;
  #held = "";
  #partials = 0;
  #ended = false;

  readonly #callId: string;
  readonly #reserve: (() => number) | undefined;
  #referenceId: number | undefined;

  /** `reserve` gives the number of a result that can be cited: what is streamed has it from the start. */
  constructor(emitter: TaskEmitter, place: ItemPlace, callId: string, reserve?: () => number) {
    this.#emitter = emitter;
    this.#place = place;
    this.#callId = callId;
    this.#reserve = reserve;
    this.#blocks = (place.blocks ?? []).map(({ status: _, ...block }) => block);
    this.#before = this.#blocks.length;
    this.#saidBefore = new SaidBefore(this.#blocks);
  }

  get place(): ItemPlace {
    return this.#place;
  }

  /** The number that was streamed with it. */
  get referenceId(): number | undefined {
    return this.#referenceId;
  }

  /** Whether anything was streamed. */
  get hasShown(): boolean {
    return this.#blocks.length > this.#before;
  }

  emit(chunk: string | Block): void {
    if (this.#ended) return;
    if (typeof chunk === "string" || chunk.type === "text") {
      this.#text(this.#saidBefore.newIn(typeof chunk === "string" ? chunk : chunk.text));
      return;
    }
    const block = toWireBlock(chunk);
    if (!this.#saidBefore.has(block)) this.#block(block);
  }

  /** Takes back what was shown and begins again in an item of its own; the number to cite stays. */
  startOver(open: () => ItemPlace): void {
    const { id, index } = this.#place;
    const reason = "tool_retry";
    const type = "task.output_item.discarded";
    this.#emitter.emit({ type, output_index: index, item_id: id, reason });
    this.#place = open();
    this.#blocks = [];
    this.#before = 0;
    this.#saidBefore = new SaidBefore([]);
    this.#open = undefined;
    this.#held = "";
  }

  /** Closes what is open and says where the call goes on when it has waited. */
  pause(): ItemPlace {
    this.#close();
    this.#ended = true;
    return { ...this.place, blocks: this.#blocks };
  }

  /** What is no number cannot be shown; a tool need not fail for that. */
  progress({ progress, total, message }: Progress): void {
    if (this.#ended || !Number.isFinite(progress)) return;
    this.#emitter.emit({
      type: "task.tool_result.progress",
      item_id: this.place.id,
      output_index: this.place.index,
      call_id: this.#callId,
      progress,
      ...(Number.isFinite(total) && { total }),
      ...(typeof message === "string" && { message }),
    });
  }

  end({ status, display, referenceId, error, childTaskId }: ResultEnd): void {
    if (this.#ended) return;
    this.#close();
    this.#ended = true;
    for (const shown of display) {
      const block = withNumber(shown, referenceId);
      this.#emitter.block(this.place, this.#blocks.length, block);
      this.#blocks.push(block);
    }
    const done = { type: "tool_result", id: this.place.id, call_id: this.#callId, status } as const;
    this.#emitter.closeItem(this.place, {
      ...done,
      ...(error && { error }),
      // A child's work is not repeated: what was assembled stays.
      ...(childTaskId === undefined
        ? { block_list: this.#blocks.map((block) => withNumber(block, referenceId)) }
        : { child_task_id: childTaskId }),
    });
  }

  #text(text: string): void {
    if (this.#open === "image") this.#close();
    const whole = this.#held + text;
    // Half a surrogate pair waits for its other half.
    const cut = whole.length - halfAtEnd(whole);
    this.#held = whole.slice(cut);
    const delta = whole.slice(0, cut);
    if (delta === "") return;
    const index = this.#blocks.length - (this.#open === "text" ? 1 : 0);
    if (this.#open !== "text") {
      const item = this.#numbered({ type: "text", text: "" });
      this.#emitter.emit({ type: "task.text.added", ...this.#at(index), item });
      this.#blocks.push(item);
      this.#open = "text";
    }
    const block = this.#blocks[index] as WireBlock & { type: "text" };
    this.#blocks[index] = { ...block, text: block.text + delta };
    this.#emitter.textDelta(this.place, index, delta);
  }

  #block(shown: WireBlock): void {
    const block = this.#numbered(shown);
    if (block.type !== "image") {
      this.#close();
      this.#emitter.block(this.place, this.#blocks.length, block);
      this.#blocks.push(block);
      return;
    }
    if (this.#open === "text") this.#close();
    const index = this.#blocks.length - (this.#open === "image" ? 1 : 0);
    if (this.#open !== "image") {
      const item: WireImageBlock = { ...block, image_url: { url: "" } };
      this.#emitter.emit({ type: "task.image.added", ...this.#at(index), item });
      this.#open = "image";
      this.#partials = 0;
    }
    this.#blocks[index] = block;
    const partial = { partial_image_index: this.#partials++, item: block };
    this.#emitter.emit({ type: "task.image.delta", ...this.#at(index), ...partial });
  }

  /** Ends the block that is open: the text so far, or the last of the previews. */
  #close(): void {
    // A half that never got its other half is shown as what it is: not a character.
    if (this.#held !== "") {
      this.#held = "";
      this.#text("\uFFFD");
    }
    if (this.#open === undefined) return;
    const index = this.#blocks.length - 1;
    this.#emitter.block(this.place, index, this.#blocks[index] as WireBlock);
    this.#open = undefined;
  }

  #numbered<B extends WireBlock>(block: B): B {
    this.#referenceId ??= this.#reserve?.();
    return withNumber(block, this.#referenceId);
  }

  #at(index: number) {
    return { item_id: this.place.id, output_index: this.place.index, block_index: index };
  }
}

/** A block with the number to cite; a number that came to nothing is taken off. */
function withNumber<B extends WireBlock>(block: B, referenceId: number | undefined): B {
  const { reference_id: _, ...bare } = block;
  return (referenceId === undefined ? bare : { ...bare, reference_id: referenceId }) as B;
}
