import type { Clock } from "../protocol/clock.ts";
import type { LogEvent } from "../protocol/event.ts";
import type { Source } from "../protocol/source.ts";
import type { Item, ItemChange, WireBlock } from "../protocol/task.ts";
import { coarseNow } from "./coarse-now.ts";
import type { LogWriter } from "./log-writer.ts";

/** An event without what the emitter fills in. */
export type EventBody = LogEvent extends infer Event
  ? Event extends LogEvent
    ? Omit<Event, "task_id" | "sequence_number" | "task_seq" | "created_at" | "source">
    : never
  : never;

/** An item of this task's output, by its place. */
export interface ItemPlace {
  readonly id: string;
  readonly index: number;
  /** What it held when this process, or this attempt, took it over. */
  readonly blocks?: readonly WireBlock[];
}

/** Where a task's numbers go on: 0 and 0 for a new one, from the fold of its log for a resumed one. */
export interface EmitterStart {
  readonly taskSeq: number;
  readonly outputIndex: number;
}

/**
 * Writes one task's events: gives each its number within the task, its time and its source. The source is complete
 * and shared by all of them; the wire's codec shortens it.
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

  /** How many places in the output have been given out. */
  get outputLength(): number {
    return this.#outputIndex;
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

  /** The hot path: a literal with all its keys, so that every delta of a task has the same shape. */
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

  /** Opens an item at the next place. */
  addItem(item: Item): ItemPlace {
    const place = { id: item.id, index: this.#outputIndex++ };
    this.emit({ type: "task.output_item.added", output_index: place.index, item });
    return place;
  }

  closeItem(place: ItemPlace, item: ItemChange): void {
    this.emit({ type: "task.output_item.done", output_index: place.index, item });
  }

  /** A block that is sent whole. */
  block(place: ItemPlace, blockIndex: number, block: WireBlock): void {
    const at = { item_id: place.id, output_index: place.index, block_index: blockIndex };
    if (block.type === "text") this.emit({ type: "task.text.done", ...at, item: block });
    else if (block.type === "image") this.emit({ type: "task.image.done", ...at, item: block });
    else this.emit({ type: "task.block.done", ...at, item: block });
  }
}
