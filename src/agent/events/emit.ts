import type { Clock } from "../../protocol/clock.ts";
import type { LogEvent } from "../../protocol/event.ts";
import type { Source } from "../../protocol/source.ts";
import type { Item, ItemChange, WireBlock } from "../../protocol/task.ts";
import { coarseNow } from "../base/time.ts";
import type { LogWriter } from "./log-writer.ts";

/** An event without the fields that the emitter adds. */
export type EventBody = LogEvent extends infer Event
  ? Event extends LogEvent
    ? Omit<Event, "task_id" | "sequence_number" | "task_seq" | "created_at" | "source">
    : never
  : never;

/** An item and its index in the task's output. */
export interface ItemPlace {
  readonly id: string;
  readonly index: number;
  /** The item's blocks from before this process, or this attempt of the call. */
  readonly blocks?: readonly WireBlock[];
}

/** The first numbers that an emitter assigns: 0 for a new task, from the fold of the log for a resumed one. */
export interface EmitterStart {
  readonly taskSeq: number;
  readonly outputIndex: number;
}

/**
 * Appends one task's events to the log, with `task_seq`, time and source. All events share one complete source object;
 * the SSE encoder shortens it.
 */
export class TaskEmitter {
  readonly taskId: string;
  readonly #log: LogWriter;
  readonly #source: Source | undefined;
  readonly #now: () => number;
  #taskSeq: number;
  #outputIndex: number;

  constructor(
    taskId: string,
    log: LogWriter,
    source: Source | undefined,
    clock: Pick<Clock, "now">,
    start: EmitterStart = { taskSeq: 0, outputIndex: 0 },
  ) {
    this.taskId = taskId;
    this.#log = log;
    this.#source = source;
    this.#now = coarseNow(clock);
    this.#taskSeq = start.taskSeq;
    this.#outputIndex = start.outputIndex;
  }

  /** The number of items that the task's output has. */
  get outputLength(): number {
    return this.#outputIndex;
  }

  /** Whether the task has no event yet. */
  get isNew(): boolean {
    return this.#taskSeq === 0;
  }

  emit(body: EventBody): void {
    this.#log.append({
      ...body,
      task_id: this.taskId,
      sequence_number: -1,
      task_seq: this.#taskSeq++,
      created_at: this.#now(),
      ...(this.#source && { source: this.#source }),
    } as LogEvent);
  }

  /** The hot path: an object literal with all keys gives every delta of a task the same hidden class. */
  textDelta(place: ItemPlace, blockIndex: number, delta: string): void {
    if (this.#source === undefined) {
      this.#log.append({
        type: "task.text.delta",
        task_id: this.taskId,
        sequence_number: -1,
        task_seq: this.#taskSeq++,
        created_at: this.#now(),
        item_id: place.id,
        output_index: place.index,
        block_index: blockIndex,
        delta,
      });
    } else {
      this.#log.append({
        type: "task.text.delta",
        task_id: this.taskId,
        sequence_number: -1,
        task_seq: this.#taskSeq++,
        created_at: this.#now(),
        source: this.#source,
        item_id: place.id,
        output_index: place.index,
        block_index: blockIndex,
        delta,
      });
    }
  }

  /** Opens an item at the next index. */
  addItem(item: Item): ItemPlace {
    const place = { id: item.id, index: this.#outputIndex++ };
    this.emit({ type: "task.output_item.added", output_index: place.index, item });
    return place;
  }

  closeItem(place: ItemPlace, item: ItemChange): void {
    this.emit({ type: "task.output_item.done", output_index: place.index, item });
  }

  /** Emits a whole block. */
  block(place: ItemPlace, blockIndex: number, block: WireBlock): void {
    const at = { item_id: place.id, output_index: place.index, block_index: blockIndex };
    if (block.type === "text") this.emit({ type: "task.text.done", ...at, item: block });
    else if (block.type === "image") this.emit({ type: "task.image.done", ...at, item: block });
    else this.emit({ type: "task.block.done", ...at, item: block });
  }
}

/** The number of UTF-16 units at the end of a text that wait for the rest of their surrogate pair: 0 or 1. */
export function halfAtEnd(text: string): 0 | 1 {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff ? 1 : 0;
}
