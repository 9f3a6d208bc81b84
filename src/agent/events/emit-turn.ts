import type { IdSource } from "../../base/id.ts";
import {
  type Block,
  type MediaBlock,
  type ReasoningChunk,
  toWireBlock,
} from "../../contract/index.ts";
import {
  type Annotation,
  type DiscardReason,
  halfAtEnd,
  type ItemStatus,
  type ReferenceLookup,
  ReferenceParser,
  type SummaryEntry,
  type WireBlock,
} from "../../protocol/index.ts";
import type { TurnPart, TurnSink, TurnSource } from "../model/turn.ts";
import type { ItemPlace, TaskEmitter } from "./emit.ts";

interface TurnItem {
  readonly kind: "message" | "reasoning" | "tool_call";
  readonly place: ItemPlace;
  readonly call?: { readonly id: string; readonly name: string };
  readonly blocks: WireBlock[];
  readonly summary: SummaryEntry[];
  openParts: number;
  isClosed: boolean;
  arguments: string;
}
/** A part of an item that the model streams. */
interface OpenPart {
  readonly item: TurnItem;
  readonly index: number;
  readonly parser: ReferenceParser | undefined;
  readonly annotations: Annotation[];
  /** The first half of a surrogate pair, emitted together with the second half. */
  heldHalf: string;
}

/** Options of a turn emitter. */
export interface TurnEmitterOptions {
  readonly emitter: TaskEmitter;
  readonly ids: IdSource;
  /** The results that the text may cite; the text has no citations if absent. */
  readonly references?: ReferenceLookup;
  /** The id of the message that the turn becomes. */
  readonly messageId: string;
  readonly purpose?: "summary";
  readonly rawReasoning?: boolean;
  readonly onChunk?: ((chunk: ReasoningChunk) => void) | undefined;
  /** Returns a promise while the log's writer is behind. */
  readonly ready?: () => Promise<void> | undefined;
}

/**
 * Emits a model's turn as items while it streams. Consecutive parts of one kind share an item. An item closes when its
 * parts are closed and another item opens, or at the end of the turn.
 */
export class TurnEmitter implements TurnSink {
  readonly ready: TurnSink["ready"];
  readonly #options: TurnEmitterOptions;
  readonly #items: TurnItem[] = [];
  /** The sources that the provider named before the first item. */
  #earlySources: TurnSource[] = [];

  constructor(options: TurnEmitterOptions) {
    this.#options = options;
    this.ready = options.ready;
  }

  open(part: TurnPart): OpenPart {
    const item = this.#itemFor(part);
    item.openParts += 1;
    const { emitter, references, rawReasoning } = this.#options;
    const at = placeOf(item);
    const empty = { type: "text", text: "" } as const;
    let index = 0;
    let parser: ReferenceParser | undefined;
    if (part.kind === "text") {
      index = item.blocks.push(empty) - 1;
      emitter.emit({ type: "task.text.added", ...at, block_index: index, item: empty });
      if (references) parser = new ReferenceParser(references);
    } else if (part.kind === "thinking") {
      index = item.summary.push(empty) - 1;
      const type = "task.reasoning_summary_item.added";
      if (!rawReasoning) emitter.emit({ type, ...at, summary_index: index, item: empty });
    }
    return { item, index, parser, annotations: [], heldHalf: "" };
  }

  delta(part: OpenPart, text: string): void {
    const { parser, item } = part;
    if (item.isClosed || text === "") return;
    const isPlain = parser?.takePlain(text) ?? (part.heldHalf === "" && halfAtEnd(text) === 0);
    if (isPlain) this.#emitDelta(part, text);
    else if (parser !== undefined) this.#emitText(part, parser.push(text));
    else {
      const whole = part.heldHalf + text;
      const cut = whole.length - halfAtEnd(whole);
      part.heldHalf = whole.slice(cut);
      this.#emitDelta(part, whole.slice(0, cut));
    }
  }

  /** Closes a part, and its item if another item has opened since. */
  close(part: OpenPart, text: string, isCut = false): void {
    const { item, index, parser } = part;
    if (item.isClosed) return;
    if (parser !== undefined) this.#emitText(part, parser.end());
    else this.#emitDelta(part, part.heldHalf);
    const { emitter, rawReasoning } = this.#options;
    const at = placeOf(item);
    const entry = { type: "text", text } as const;
    if (item.kind === "tool_call") {
      item.arguments = text;
      emitter.emit({ type: "task.tool_call_arguments.done", ...at, arguments: text });
    } else if (item.kind === "message") {
      const { annotations } = part;
      const block = { ...entry, ...(annotations.length > 0 && { annotations }) };
      item.blocks[index] = block;
      emitter.emit({ type: "task.text.done", ...at, block_index: index, item: block });
    } else {
      item.summary[index] = entry;
      if (rawReasoning) {
        emitter.emit({ type: "task.reasoning_text.done", ...at, content_index: index, text });
      } else {
        const place = { ...at, summary_index: index };
        emitter.emit({ type: "task.reasoning_summary_item.done", ...place, item: entry });
      }
    }
    item.openParts -= 1;
    if (item !== this.#items.at(-1)) this.#closeItem(item, isCut ? "cancelled" : "completed");
  }

  block(block: MediaBlock): void {
    const item = this.#itemFor({ kind: "text" });
    const wireBlock = this.#options.emitter.storeBytes(toWireBlock(block));
    this.#options.emitter.block(item.place, item.blocks.length, wireBlock);
    item.blocks.push(wireBlock);
  }

  source(source: TurnSource): void {
    const item = this.#items.at(-1);
    if (item === undefined) this.#earlySources.push(source);
    else this.#emitSource(item, source);
  }

  discard(reason: DiscardReason): void {
    for (const item of this.#items) this.#discardItem(item, reason);
    if (this.#items.length > 0) this.#options.onChunk?.({ type: "retracted" });
    this.#items.length = 0;
    this.#earlySources = [];
  }

  #discardItem(item: TurnItem, reason: DiscardReason): void {
    this.#options.emitter.discardItem(item.place, reason);
    item.isClosed = true;
  }

  /** Emits blocks that did not stream. */
  showWhole(content: readonly Block[]): void {
    const show = (part: TurnPart, text: string) => {
      const shown = this.open(part);
      this.delta(shown, text);
      this.close(shown, text);
    };
    for (const block of content) {
      if (block.type === "text" || block.type === "thinking")
        show({ kind: block.type }, block.text);
      else if (block.type === "tool_use") {
        const part = { kind: "call", callId: block.id, name: block.name } as const;
        show(part, block.raw ?? JSON.stringify(block.input));
      } else if ("source" in block) this.block(block);
    }
    this.end("completed");
  }

  /** Discards every call, because no call of an interrupted turn may run. */
  discardCalls(): void {
    for (const item of this.#items)
      if (item.kind === "tool_call") this.#discardItem(item, "recovered");
  }

  /** Returns true if the streamed calls equal those of the finished turn: all complete, with the same arguments. */
  showsCallsOf(content: readonly Block[]): boolean {
    const calls = content.filter((block) => block.type === "tool_use");
    const streamed = new Map(
      this.#items.flatMap((item) => (item.call ? [[item.call.id, item]] : [])),
    );
    return (
      calls.length === streamed.size &&
      calls.every((call) => {
        const item = streamed.get(call.id);
        return item !== undefined && isSameInput(item.arguments, call);
      })
    );
  }

  /** Closes the open items whose parts are closed. */
  end(status: ItemStatus): void {
    for (const item of this.#items) this.#closeItem(item, status);
  }

  /** Emits a delta that contains no citation. */
  #emitDelta(part: OpenPart, delta: string): void {
    if (delta === "") return;
    const { item, index } = part;
    const { emitter, rawReasoning, onChunk } = this.#options;
    if (item.kind === "message") {
      emitter.textDelta(item.place, index, delta);
      onChunk?.({ type: "text", text: delta });
      return;
    }
    const at = placeOf(item);
    if (item.kind === "tool_call") {
      emitter.emit({ type: "task.tool_call_arguments.delta", ...at, delta });
      return;
    }
    onChunk?.({ type: "thinking", text: delta });
    if (rawReasoning) {
      emitter.emit({ type: "task.reasoning_text.delta", ...at, content_index: index, delta });
    } else {
      const place = { ...at, summary_index: index };
      emitter.emit({ type: "task.reasoning_summary_text.delta", ...place, delta });
    }
  }

  #emitText(part: OpenPart, parsed: { text: string; annotations: readonly Annotation[] }): void {
    const { emitter } = this.#options;
    this.#emitDelta(part, parsed.text);
    for (const annotation of parsed.annotations) {
      const at = { ...placeOf(part.item), block_index: part.index };
      const annotation_index = part.annotations.push(annotation) - 1;
      emitter.emit({ type: "task.text.annotation.added", ...at, annotation_index, annotation });
    }
  }

  #itemFor(part: TurnPart): TurnItem {
    const last = this.#items.at(-1);
    const kind = itemKind[part.kind];
    if (last?.kind === kind && kind !== "tool_call") return last;
    if (last?.openParts === 0) this.#closeItem(last, "completed");
    const item = this.#newItem(kind, part);
    this.#items.push(item);
    for (const source of this.#earlySources) this.#emitSource(item, source);
    this.#earlySources = [];
    return item;
  }

  #emitSource(item: TurnItem, { id, url, title, mediaType }: TurnSource): void {
    const reference = {
      id: id.slice(0, 128) || "source",
      ...(url !== undefined && { url }),
      ...(title !== undefined && { title }),
      ...(mediaType !== undefined && { mime_type: mediaType }),
    };
    const at = placeOf(item);
    this.#options.emitter.emit({ type: "task.reference.added", ...at, reference });
  }

  #newItem(kind: TurnItem["kind"], part: TurnPart): TurnItem {
    const { emitter, ids, purpose, messageId: message_id } = this.#options;
    const status = "in_progress";
    const common = { kind, blocks: [], summary: [], openParts: 0, isClosed: false, arguments: "" };
    if (kind === "reasoning") {
      const item = { type: kind, id: ids.next("rs"), status, message_id, summary: [] } as const;
      return { ...common, place: emitter.addItem(item) };
    }
    if (kind === "message") {
      const item = { type: kind, id: ids.next("msg"), status, message_id } as const;
      const body = { role: "assistant", block_list: [], ...(purpose && { purpose }) } as const;
      return { ...common, place: emitter.addItem({ ...item, ...body }) };
    }
    const { callId, name, providerCallId } = part as TurnPart & { kind: "call" };
    const place = emitter.addItem({
      type: kind,
      id: ids.next("fc"),
      status,
      message_id,
      call_id: callId,
      name,
      arguments: "",
      ...(providerCallId !== undefined && { provider_call_id: providerCallId }),
    });
    return { ...common, place, call: { id: callId, name } };
  }

  #closeItem(item: TurnItem, status: ItemStatus): void {
    if (item.isClosed || item.openParts > 0) return;
    item.isClosed = true;
    const { emitter, rawReasoning, purpose } = this.#options;
    const { id } = item.place;
    if (item.kind === "tool_call" && item.call) {
      const { id: call_id, name } = item.call;
      const done = { type: "tool_call", id, status, call_id, name } as const;
      emitter.closeItem(item.place, { ...done, arguments: item.arguments });
    } else if (item.kind === "message") {
      const done = { type: "message", id, status, role: "assistant" } as const;
      const block_list = item.blocks;
      emitter.closeItem(item.place, { ...done, block_list, ...(purpose && { purpose }) });
    } else {
      const done = { type: "reasoning", id, status } as const;
      const content = item.summary.map(({ text }) => ({ type: "reasoning_text" as const, text }));
      emitter.closeItem(
        item.place,
        rawReasoning ? { ...done, summary: [], content } : { ...done, summary: item.summary },
      );
    }
  }
}

const itemKind = { text: "message", thinking: "reasoning", call: "tool_call" } as const;

function placeOf({ place }: TurnItem) {
  return { item_id: place.id, output_index: place.index };
}

/** Compares streamed arguments with the final ones, ignoring how the JSON is formatted. */
function isSameInput(streamed: string, call: Block & { type: "tool_use" }): boolean {
  if (call.raw !== undefined) return call.raw === streamed;
  const final = JSON.stringify(call.input ?? {});
  if (streamed === final) return true;
  try {
    return JSON.stringify(JSON.parse(streamed || "{}")) === final;
  } catch {
    return false;
  }
}
