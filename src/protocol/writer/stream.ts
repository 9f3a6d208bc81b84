import type { ChildFinished, ChildStarted, LogEvent } from "../event.ts";
import type { Mutable } from "../fold/draft.ts";
import { pick } from "../fold/draft.ts";
import { closed } from "../fold/item.ts";
import type { Source } from "../source.ts";
import type {
  Annotation,
  DiscardReason,
  Item,
  Progress,
  Reference,
  WireBlock,
  WireImageBlock,
} from "../task.ts";
import { type EventBody, halfAtEnd, maxDelta, piecesOf } from "./delta.ts";
import { doneItem, type ItemEnd } from "./done.ts";
import { childPlace, WrittenItem, type WrittenPart } from "./item.ts";

/** The first numbers that a stream assigns, and what all its events carry. */
export interface StreamStart {
  readonly now: () => number;
  /** One object for all events, which SSE shortens; absent for a root. */
  readonly source?: Source | undefined;
  /** 0 by default: the task is new. */
  readonly taskSeq?: number;
  readonly outputIndex?: number;
}

/** A part to open: text, an image, or a piece of raw reasoning. */
export interface PartStart extends Partial<Omit<WireImageBlock, "type">> {
  readonly type?: "text" | "image" | "reasoning_text";
  readonly annotations?: readonly unknown[];
}

/** The events of the parts that open or grow. */
const addedEvents = {
  text: "task.text.added",
  image: "task.image.added",
  summary: "task.reasoning_summary_item.added",
} as const;
const deltaEvents = {
  summary: "task.reasoning_summary_text.delta",
  content: "task.reasoning_text.delta",
  arguments: "task.tool_call_arguments.delta",
} as const;
const blockEvents = {
  text: "task.text.done",
  image: "task.image.done",
  block: "task.block.done",
} as const;

/** An event that adds text. */
export type DeltaEvent = Extract<LogEvent, { readonly delta: string }>;

/**
 * Forms the events of one task and numbers them; it splits long deltas and holds half a surrogate pair until its other
 * half arrives. It trusts its caller: a `TaskWriter` checks each call first.
 */
export abstract class TaskStream {
  readonly taskId: string;
  readonly source: Source | undefined;
  readonly now: () => number;
  #taskSeq: number;
  #outputIndex: number;

  constructor(taskId: string, { now, source, taskSeq = 0, outputIndex = 0 }: StreamStart) {
    this.taskId = taskId;
    this.source = source;
    this.now = now;
    this.#taskSeq = taskSeq;
    this.#outputIndex = outputIndex;
  }

  /** Takes the next event; the log replaces its `sequence_number`, which is −1. */
  protected abstract write(event: LogEvent): void;

  /** Returns an event as it may be written. */
  form<Body extends EventBody>(body: Body): Body {
    return body;
  }

  get outputLength(): number {
    return this.#outputIndex;
  }

  /** The number of the next event. */
  get nextSeq(): number {
    return this.#taskSeq;
  }

  /** Whether the task has no event yet. */
  get isNew(): boolean {
    return this.#taskSeq === 0;
  }

  /** Appends a new object, which becomes the event. */
  append(body: EventBody): void {
    this.write(this.number(body));
  }

  /** Completes the body in place: a copy of objects with so many shapes costs more than the rest of the stream. */
  protected number(body: EventBody): Mutable<LogEvent> {
    const event = body as Mutable<LogEvent>;
    event.task_id = this.taskId;
    event.sequence_number = -1;
    event.task_seq = this.#taskSeq++;
    event.created_at = this.now();
    if (this.source) event.source = this.source;
    return event;
  }

  /** The next event follows one that another stream has numbered. */
  protected continueAfter(event: LogEvent): void {
    this.#taskSeq = event.task_seq + 1;
    if (event.type === "task.output_item.added") this.#outputIndex = event.output_index + 1;
  }

  /** Opens an item at the next index. */
  addItem(item: Item): WrittenItem {
    const output_index = this.#outputIndex;
    this.append({ type: "task.output_item.added", output_index, item });
    this.#outputIndex += 1;
    return new WrittenItem(item, output_index);
  }

  /** Closes an item whose parts are closed. */
  closeItem(item: WrittenItem, end: ItemEnd = {}): void {
    const type = "task.output_item.done";
    const change = doneItem(item, end);
    this.append(this.form({ type, output_index: item.index, item: change }));
    item.status = change.status;
  }

  discardItem(item: WrittenItem, reason: DiscardReason): void {
    const { id: item_id, index: output_index } = item;
    this.append(this.form({ type: "task.output_item.discarded", item_id, output_index, reason }));
    item.type = "discarded";
    item.status = undefined;
  }

  /** Opens a part at the end of an item. The first delta opens arguments and raw reasoning. */
  openPart(item: WrittenItem, start: PartStart = {}): WrittenPart {
    const { type = "text", annotations, ...rest } = start;
    if (item.type === "tool_call") return item.addPart("arguments", true);
    if (item.type === "reasoning" && type === "reasoning_text")
      return item.addPart("content", true);
    if (item.type === "reasoning")
      return this.#addPart(item, "summary", { type: "text", text: "" });
    if (type === "image")
      return this.#addPart(item, "image", { ...rest, type, image_url: { url: "" } });
    const text = { type: "text", text: "", ...(annotations && { annotations: [] }) } as const;
    return this.#addPart(item, "text", { ...rest, ...text });
  }

  #addPart(item: WrittenItem, kind: "summary" | "image" | "text", block: WireBlock): WrittenPart {
    const index = item.lengthOf(kind);
    const type = addedEvents[kind];
    this.append(this.form({ type, ...placeOf({ item, kind, index }), item: block } as EventBody));
    return item.addPart(kind, true, block);
  }

  /**
   * Appends text to a part and returns what was written, which does not end in half a surrogate pair. The caller keeps
   * the text, for the end of the part.
   */
  appendText(part: WrittenPart, text: string): string {
    let whole = text;
    if (part.held !== "" || halfAtEnd(text) > 0) {
      whole = part.held + text;
      const cut = whole.length - halfAtEnd(whole);
      part.held = whole.slice(cut);
      whole = whole.slice(0, cut);
    }
    if (whole.length > maxDelta) for (const piece of piecesOf(whole)) this.delta(part, piece);
    else if (whole !== "") this.delta(part, whole);
    return whole;
  }

  /** Writes a delta of at most `maxDelta` characters. */
  protected delta(part: WrittenPart, text: string): void {
    this.write(this.deltaEvent(part, text));
  }

  /** The hot path: an object literal with all keys gives every delta of a text the same hidden class. */
  protected deltaEvent(part: WrittenPart, text: string): Mutable<DeltaEvent> {
    const { item, kind, index } = part;
    if (kind !== "text") {
      const type = deltaEvents[kind as keyof typeof deltaEvents];
      const body = { type, ...placeOf(part), delta: text } as EventBody;
      return this.number(body) as Mutable<DeltaEvent>;
    }
    const event: Mutable<DeltaEvent> = {
      type: "task.text.delta",
      task_id: this.taskId,
      sequence_number: -1,
      task_seq: this.#taskSeq++,
      created_at: this.now(),
      item_id: item.id,
      output_index: item.index,
      block_index: index,
      delta: text,
    };
    if (this.source !== undefined) event.source = this.source;
    return event;
  }

  /** Adds a citation, whose marker is in the text already. */
  annotate(part: WrittenPart, annotation: Annotation): void {
    const { item, index: block_index, annotations } = part;
    const at = { item_id: item.id, output_index: item.index, block_index };
    const annotation_index = annotations.length;
    this.append({ type: "task.text.annotation.added", ...at, annotation_index, annotation });
    part.addAnnotation(annotation);
  }

  /** Shows an image that replaces the last one of its part. */
  previewImage(part: WrittenPart, image: WireImageBlock): void {
    const item = this.#imageOf(part, image);
    const partial_image_index = part.preview;
    const type = "task.image.delta";
    this.append({ type, ...placeOf(part), partial_image_index, item } as EventBody);
    part.preview += 1;
    part.block = item;
  }

  #imageOf(part: WrittenPart, image: object): WireImageBlock {
    const named = pick(part.block as WireImageBlock, "id", "reference_id");
    const item = closed({ ...image, ...named, type: "image" }) as WireImageBlock;
    const body = this.form({ type: "task.image.done", ...placeOf(part), item } as EventBody);
    return (body as unknown as { readonly item: WireImageBlock }).item;
  }

  /** Adds a whole block to a message or a result. */
  addBlock(item: WrittenItem, block: WireBlock): WrittenPart {
    const kind = block.type === "text" || block.type === "image" ? block.type : "block";
    const at = { item_id: item.id, output_index: item.index, block_index: item.parts.length };
    const body = this.form({ type: blockEvents[kind], ...at, item: block } as EventBody);
    this.append(body);
    return item.addPart(kind, false, (body as unknown as { readonly item: WireBlock }).item);
  }

  /** Closes a part: an image as its last preview or the given one; a given text is that of all its deltas. */
  closePart(part: WrittenPart, whole: Partial<WireBlock> = {}): void {
    const { kind } = part;
    if (part.held !== "") this.delta(part, part.held);
    part.held = "";
    if (kind === "image") {
      const item = this.#imageOf(part, { ...part.block, ...whole });
      this.append({ type: "task.image.done", ...placeOf(part), item } as EventBody);
      part.block = item;
    } else {
      const text = (whole as { readonly text?: string }).text ?? part.text;
      const body = this.form(doneBody(part, whole, text));
      this.append(body);
      if (body.type === "task.text.done") part.block = body.item;
      else part.text = text;
    }
    part.isOpen = false;
  }

  /** Shows the progress of a tool. */
  progress(item: WrittenItem, progress: Progress): void {
    const { id: item_id, index: output_index, callId: call_id = "" } = item;
    const at = { item_id, output_index, call_id };
    this.append(this.form({ type: "task.tool_result.progress", ...progress, ...at }));
  }

  /** Names a source of an item. */
  reference({ id: item_id, index: output_index }: WrittenItem, reference: Reference): void {
    this.append(this.form({ type: "task.reference.added", item_id, output_index, reference }));
  }

  /** A call has started a child, which the result of the call holds. */
  startChild(item: WrittenItem, child: Pick<ChildStarted, "mode" | "agent" | "remote">): void {
    this.append(this.form({ ...child, ...childPlace(item), type: "task.child.started" }));
    item.hasChild = true;
  }

  /** A child that the task waits for has ended. */
  finishChild(item: WrittenItem, end: Pick<ChildFinished, "status" | "usage">): void {
    this.append(this.form({ ...end, ...childPlace(item), type: "task.child.finished" }));
  }

  /** The task stops waiting for a child, which continues in the background. */
  promoteChild(item: WrittenItem): void {
    const change = { mode: "background", reason: "sync_timeout" } as const;
    this.append({ type: "task.child.promoted", ...childPlace(item), ...change });
  }
}

/** The event that closes a part with a text. */
function doneBody(part: WrittenPart, whole: object, text: string): EventBody {
  const { kind } = part;
  const at = placeOf(part);
  const entry = { type: "text", text } as const;
  if (kind === "arguments")
    return { type: "task.tool_call_arguments.done", ...at, arguments: text };
  if (kind === "content") return { type: "task.reasoning_text.done", ...at, text } as EventBody;
  if (kind === "summary")
    return { type: "task.reasoning_summary_item.done", ...at, item: entry } as EventBody;
  const item = { ...whole, ...part.block, ...entry };
  return { type: "task.text.done", ...at, item } as EventBody;
}

function placeOf({ item, kind, index }: Pick<WrittenPart, "item" | "kind" | "index">) {
  const at = { item_id: item.id, output_index: item.index };
  if (kind === "arguments") return at;
  if (kind === "summary") return { ...at, summary_index: index };
  return kind === "content" ? { ...at, content_index: index } : { ...at, block_index: index };
}
