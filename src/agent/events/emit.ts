import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { coarseNow } from "../../base/time.ts";
import type {
  DiscardReason,
  Item,
  ItemChange,
  LogEvent,
  Mutable,
  Source,
  TextDelta,
  WireBlock,
} from "../../protocol/index.ts";
import { type EventBody, maxDelta, piecesOf } from "../../protocol/index.ts";
import type { LogWriter, WaitingEvents } from "./log-writer.ts";

/** The largest event in bytes, except for the events of a whole text, arguments or item. */
export const maxEventBytes = 256 * 1024;
/** A longer data URL becomes a blob. */
const maxDataUrl = 64 * 1024;
/** Numbers alone, or the text, the arguments and the result that they repeat and that have limits of their own. */
const unlimited: ReadonlySet<string> = new Set([
  "task.usage",
  "task.text.done",
  "task.reasoning_text.done",
  "task.reasoning_summary_item.done",
  "task.tool_call_arguments.done",
  "task.output_item.done",
]);

/** The events whose text may grow while they wait. */
type DeltaEvent = Extract<LogEvent, { readonly delta: string }>;

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

/** Appends one task's events to the log, with `task_seq`, time and one source object, which SSE shortens. */
export class TaskEmitter {
  readonly taskId: string;
  readonly #log: LogWriter;
  readonly #source: Source | undefined;
  readonly #now: () => number;
  #taskSeq: number;
  #outputIndex: number;
  /** The last event if it is a delta of a text, and the events that it waits with. */
  #last: Mutable<DeltaEvent> | undefined;
  #waiting: WaitingEvents | undefined;

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

  get outputLength(): number {
    return this.#outputIndex;
  }

  /** Whether the task has no event yet. */
  get isNew(): boolean {
    return this.#taskSeq === 0;
  }

  /** Emits a new object, which becomes the event; throws `event_too_large` for an event that no reader would take. */
  emit(body: EventBody): void {
    if ("delta" in body) {
      if (body.delta.length <= maxDelta) this.#append(body);
      else for (const delta of piecesOf(body.delta)) this.#append({ ...body, delta });
      return;
    }
    const bytes = unlimited.has(body.type) ? 0 : sizeOf(body);
    if (bytes > maxEventBytes && "task" in body) {
      // The record of the task keeps what its event leaves out; a task that cannot say its end would never end.
      const { structured: _, metadata: __, error, ...task } = body.task;
      const shown = error && { error: { ...error, message: error.message.slice(0, maxDelta) } };
      this.#append({ ...body, task: { ...task, ...shown } } as EventBody);
      return;
    }
    if (bytes > maxEventBytes) {
      const message = `The event ${body.type} has ${bytes} bytes; the most is ${maxEventBytes}.`;
      const hint = "Store large data elsewhere and pass a reference to it.";
      throw new RivuletError("event_too_large", message, { hint });
    }
    this.#append(body);
  }

  /** Appends an event that another server has numbered; the next event of this emitter follows it. */
  forward(event: LogEvent): void {
    this.#taskSeq = event.task_seq + 1;
    if (event.type === "task.output_item.added") this.#outputIndex = event.output_index + 1;
    this.#last = undefined; // its number belongs to the other server
    this.#log.append({ ...event, sequence_number: -1, source: this.#source as Source });
  }

  /** Completes the body in place: a copy of objects with so many shapes costs more than the rest of the emitter. */
  #append(body: EventBody): void {
    const delta = "delta" in body ? (body as DeltaEvent) : undefined;
    const isNext = delta !== undefined && isSamePlace(this.#last, delta);
    if (isNext && this.#merge(delta.delta)) return;
    const event = body as Mutable<LogEvent>;
    event.task_id = this.taskId;
    event.sequence_number = -1;
    event.task_seq = this.#taskSeq++;
    event.created_at = this.#now();
    if (this.#source) event.source = this.#source;
    this.#waiting = this.#log.append(event, delta !== undefined && !isNext);
    this.#last = delta;
  }

  /** Adds text to the last event, if it still waits and has room: the two get one number. */
  #merge(delta: string): boolean {
    const last = this.#last as Mutable<DeltaEvent>;
    if (last.delta.length + delta.length > maxDelta) return false;
    if (!this.#log.merge(this.#waiting)) return false;
    last.delta += delta;
    return true;
  }

  /** The hot path: an object literal with all keys gives every delta of a task the same hidden class. */
  textDelta(place: ItemPlace, blockIndex: number, delta: string): void {
    if (delta.length > maxDelta) {
      for (const piece of piecesOf(delta)) this.textDelta(place, blockIndex, piece);
      return;
    }
    const last = this.#last as Partial<TextDelta> | undefined;
    const isNext = last?.item_id === place.id && last.block_index === blockIndex;
    if (isNext && this.#merge(delta)) return;
    const event: Mutable<TextDelta> = {
      type: "task.text.delta",
      task_id: this.taskId,
      sequence_number: -1,
      task_seq: this.#taskSeq++,
      created_at: this.#now(),
      item_id: place.id,
      output_index: place.index,
      block_index: blockIndex,
      delta,
    };
    if (this.#source !== undefined) event.source = this.#source;
    this.#waiting = this.#log.append(event, !isNext);
    this.#last = event;
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

  discardItem({ id, index }: ItemPlace, reason: DiscardReason): void {
    const at = { output_index: index, item_id: id };
    this.emit({ type: "task.output_item.discarded", ...at, reason });
  }

  /** Stores the bytes of a long data URL, to be written before the next events, and returns a block that names them. */
  storeBytes(block: WireBlock): WireBlock {
    const url = block.type === "image" ? block.image_url.url : "url" in block ? block.url : "";
    const comma = url.startsWith("data:") && url.length > maxDataUrl ? url.indexOf(",") : -1;
    if (comma < 0) return block;
    const [mime_type = "", ...parameters] = url.slice("data:".length, comma).split(";");
    const body = url.slice(comma + 1);
    const bytes = parameters.includes("base64")
      ? Buffer.from(body, "base64")
      : Buffer.from(decodeURIComponent(body));
    const blob = this.#log.addBlob(this.taskId, bytes);
    const named = block.type === "image" ? { image_url: { url: blob } } : { url: blob };
    return { ...(mime_type !== "" && { mime_type }), ...block, ...named } as WireBlock;
  }

  block(place: ItemPlace, blockIndex: number, block: WireBlock): void {
    const at = { item_id: place.id, output_index: place.index, block_index: blockIndex };
    if (block.type === "text") this.emit({ type: "task.text.done", ...at, item: block });
    else if (block.type === "image") this.emit({ type: "task.image.done", ...at, item: block });
    else this.emit({ type: "task.block.done", ...at, item: block });
  }
}

function isSamePlace(one: DeltaEvent | undefined, two: DeltaEvent): boolean {
  if (one?.type !== two.type || one.item_id !== two.item_id) return false;
  return blockOf(one) === blockOf(two);
}

function blockOf(event: DeltaEvent): number | undefined {
  if ("block_index" in event) return event.block_index;
  if ("content_index" in event) return event.content_index;
  return "summary_index" in event ? event.summary_index : undefined;
}

/** The bytes of an event as JSON; the characters, if they are too few to matter. */
function sizeOf(body: EventBody): number {
  const json = JSON.stringify(body);
  return 3 * json.length <= maxEventBytes ? json.length : Buffer.byteLength(json);
}
