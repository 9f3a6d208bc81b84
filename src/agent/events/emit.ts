import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { coarseNow } from "../../base/time.ts";
import {
  type DeltaEvent,
  type EventBody,
  type LogEvent,
  type Mutable,
  maxDelta,
  type Source,
  type StreamStart,
  TaskStream,
  type ToolCallItem,
  type WireBlock,
  type WrittenPart,
} from "../../protocol/index.ts";
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

/** Writes the stream of a task to its log. */
export class TaskEmitter extends TaskStream {
  readonly #log: LogWriter;
  /** The part whose delta is the last event, that event, and the events that it waits with. */
  #lastPart: WrittenPart | undefined;
  #lastDelta: Mutable<DeltaEvent> | undefined;
  #waiting: WaitingEvents | undefined;

  constructor(
    taskId: string,
    log: LogWriter,
    source: Source | undefined,
    clock: Pick<Clock, "now">,
    start?: Pick<StreamStart, "taskSeq" | "outputIndex">,
  ) {
    super(taskId, { now: coarseNow(clock), source, ...start });
    this.#log = log;
  }

  /** Throws `event_too_large` for an event that no reader would take. */
  override append(body: EventBody): void {
    const bytes = isSmall(body) ? 0 : sizeOf(body);
    if (bytes > maxEventBytes && "task" in body) {
      // The record of the task keeps what its event leaves out; a task that cannot say its end would never end.
      const { structured: _, metadata: __, error, ...task } = body.task;
      const shown = error && { error: { ...error, message: error.message.slice(0, maxDelta) } };
      this.write(this.number({ ...body, task: { ...task, ...shown } } as EventBody));
      return;
    }
    if (bytes > maxEventBytes) {
      const message = `The event ${body.type} has ${bytes} bytes; the most is ${maxEventBytes}.`;
      const hint = "Store large data elsewhere and pass a reference to it.";
      throw new RivuletError("event_too_large", message, { hint });
    }
    this.write(this.number(body));
  }

  /** Appends an event that another server has numbered; the next event of this emitter follows it. */
  forward(event: LogEvent): void {
    this.continueAfter(event);
    this.write({ ...event, sequence_number: -1, source: this.source as Source });
  }

  protected override write(event: LogEvent): void {
    this.#lastPart = undefined;
    this.#log.append(event);
  }

  protected override delta(part: WrittenPart, text: string): void {
    const isNext = part === this.#lastPart;
    if (isNext && this.#merge(text)) return;
    this.#lastDelta = this.deltaEvent(part, text);
    this.#waiting = this.#log.append(this.#lastDelta, !isNext);
    this.#lastPart = part;
  }

  /** Adds text to the last event, if it still waits and has room: the two get one number. */
  #merge(text: string): boolean {
    const last = this.#lastDelta as Mutable<DeltaEvent>;
    if (last.delta.length + text.length > maxDelta) return false;
    if (!this.#log.merge(this.#waiting)) return false;
    last.delta += text;
    return true;
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
}

/** Whether an event needs no measuring; an item opens empty, so only its names can be long. */
function isSmall(body: EventBody): boolean {
  if (body.type !== "task.output_item.added") return unlimited.has(body.type);
  const { name = "", call_id = "", provider_call_id = "" } = body.item as Partial<ToolCallItem>;
  return name.length + call_id.length + provider_call_id.length < maxDelta;
}

/** The bytes of an event as JSON; the characters, if they are too few to matter. */
function sizeOf(body: EventBody): number {
  const json = JSON.stringify(body);
  return 3 * json.length <= maxEventBytes ? json.length : Buffer.byteLength(json);
}
