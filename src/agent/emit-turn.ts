import type { IdSource } from "../protocol/id.ts";
import type { Block, MediaBlock } from "../protocol/message.ts";
import type { ReferenceLookup } from "../protocol/reference-parser.ts";
import { ReferenceParser } from "../protocol/reference-parser.ts";
import type {
  Annotation,
  DiscardReason,
  ItemStatus,
  SummaryEntry,
  WireBlock,
} from "../protocol/task.ts";
import type { ItemPlace, TaskEmitter } from "./emit.ts";
import { halfAtEnd } from "./half-at-end.ts";
import type { TurnPart, TurnSink } from "./model/turn.ts";
import { toWireBlock } from "./tool/result.ts";

/** An item of this turn, and how many of its parts are still open. */
interface TurnItem {
  readonly kind: "message" | "reasoning" | "tool_call";
  readonly place: ItemPlace;
  readonly call?: { readonly id: string; readonly name: string; readonly providerCallId?: string };
  readonly blocks: WireBlock[];
  readonly summary: SummaryEntry[];
  open: number;
  closed: boolean;
  arguments: string;
}
/** A part of an item that is being streamed. */
interface OpenPart {
  readonly item: TurnItem;
  readonly index: number;
  readonly parser?: ReferenceParser;
  readonly annotations: Annotation[];
  /** Half a character, which is shown with its other half. */
  held: string;
}

/** How a turn is shown. */
export interface TurnEmitterOptions {
  readonly emitter: TaskEmitter;
  readonly ids: IdSource;
  /** What the text may cite; absent: nothing. */
  readonly references?: ReferenceLookup;
  readonly purpose?: "summary";
  readonly rawReasoning?: boolean;
  readonly onText?: (text: string) => void;
  /** A promise while the log's writer is behind. */
  readonly ready?: () => Promise<void> | undefined;
}

/**
 * Shows a model's turn as items while it streams. Parts of one kind that follow each other share an item; an item
 * closes when its parts are closed and another one begins, or with the turn.
 */
export class TurnEmitter implements TurnSink {
  readonly ready: TurnSink["ready"];
  readonly #options: TurnEmitterOptions;
  readonly #items: TurnItem[] = [];
  readonly #parts = new Map<number, OpenPart>();

  constructor(options: TurnEmitterOptions) {
    this.#options = options;
    this.ready = options.ready;
  }

  open(part: TurnPart): void {
    const item = this.#itemFor(part);
    item.open += 1;
    const { emitter, references } = this.#options;
    const at = { item_id: item.place.id, output_index: item.place.index };
    const empty = { type: "text", text: "" } as const;
    if (part.kind === "text") {
      const index = item.blocks.length;
      item.blocks.push(empty);
      emitter.emit({ type: "task.text.added", ...at, block_index: index, item: empty });
      const parser = references && { parser: new ReferenceParser(references) };
      this.#parts.set(part.key, { item, index, ...parser, annotations: [], held: "" });
    } else if (part.kind === "thinking") {
      const index = item.summary.length;
      item.summary.push(empty);
      if (!this.#options.rawReasoning) {
        emitter.emit({
          type: "task.reasoning_summary_item.added",
          ...at,
          summary_index: index,
          item: empty,
        });
      }
      this.#parts.set(part.key, { item, index, annotations: [], held: "" });
    } else {
      this.#parts.set(part.key, { item, index: 0, annotations: [], held: "" });
    }
  }

  delta(key: number, text: string): void {
    const part = this.#parts.get(key);
    if (part === undefined || text === "") return;
    if (part.parser !== undefined) {
      if (part.parser.takePlain(text)) this.#showPlain(part, text);
      else this.#showText(part, part.parser.push(text));
      return;
    }
    if (part.held === "" && halfAtEnd(text) === 0) {
      this.#showDelta(part, text);
      return;
    }
    const whole = part.held + text;
    const cut = whole.length - halfAtEnd(whole);
    part.held = whole.slice(cut);
    this.#showDelta(part, whole.slice(0, cut));
  }

  /** Closes a part, and its item when nothing more can come to it. */
  close(key: number, text: string, isCut = false): void {
    const part = this.#parts.get(key);
    if (part === undefined) return;
    this.#parts.delete(key);
    const { item, index, parser } = part;
    if (parser !== undefined) this.#showText(part, parser.end());
    else this.#showDelta(part, part.held);
    const { emitter, rawReasoning } = this.#options;
    const at = { item_id: item.place.id, output_index: item.place.index };
    if (item.kind === "tool_call") {
      item.arguments = text;
      emitter.emit({ type: "task.tool_call_arguments.done", ...at, arguments: text });
    } else if (item.kind === "message") {
      const { annotations } = part;
      const block = { type: "text", text, ...(annotations.length > 0 && { annotations }) } as const;
      item.blocks[index] = block;
      emitter.emit({ type: "task.text.done", ...at, block_index: index, item: block });
    } else {
      const entry = { type: "text", text } as const;
      item.summary[index] = entry;
      if (rawReasoning) {
        emitter.emit({
          type: "task.reasoning_text.done",
          ...at,
          content_index: index,
          text,
        });
      } else {
        emitter.emit({
          type: "task.reasoning_summary_item.done",
          ...at,
          summary_index: index,
          item: entry,
        });
      }
    }
    item.open -= 1;
    if (item !== this.#items.at(-1)) this.#closeItem(item, isCut ? "cancelled" : "completed");
  }

  block(block: MediaBlock): void {
    const item = this.#itemFor({ key: -1, kind: "text" });
    const shown = toWireBlock(block);
    this.#options.emitter.block(item.place, item.blocks.length, shown);
    item.blocks.push(shown);
  }

  source(source: { readonly id: string; readonly url?: string; readonly title?: string }): void {
    this.#options.emitter.emit({ type: "task.custom", name: "rivulet.source", value: source });
  }

  discard(reason: DiscardReason): void {
    for (const { place } of this.#items) {
      this.#options.emitter.emit({
        type: "task.output_item.discarded",
        output_index: place.index,
        item_id: place.id,
        reason,
      });
    }
    this.#items.length = 0;
    this.#parts.clear();
  }

  /** Shows blocks that did not stream. */
  showWhole(content: readonly Block[]): void {
    for (const [key, block] of content.entries()) {
      if (block.type === "text" || block.type === "thinking") {
        this.open({ key, kind: block.type });
        this.delta(key, block.text);
        this.close(key, block.text);
      } else if (block.type === "tool_use") {
        const streamed = block.raw ?? JSON.stringify(block.input);
        this.open({ key, kind: "call", callId: block.id, name: block.name });
        this.delta(key, streamed);
        this.close(key, streamed);
      } else if ("source" in block) this.block(block);
    }
    this.end("completed");
  }

  /** Takes back every call: none of an interrupted turn may run. */
  discardCalls(): void {
    for (const item of this.#items.filter(({ kind }) => kind === "tool_call")) {
      this.#options.emitter.emit({
        type: "task.output_item.discarded",
        output_index: item.place.index,
        item_id: item.place.id,
        reason: "recovered",
      });
      item.closed = true;
      for (const [key, part] of this.#parts) if (part.item === item) this.#parts.delete(key);
    }
  }

  /** Whether the calls shown are the calls of the finished turn: none cut off, none with other arguments. */
  showsCallsOf(content: readonly Block[]): boolean {
    const calls = content.filter((block) => block.type === "tool_use");
    const shown = this.#items.filter(({ kind }) => kind === "tool_call");
    return (
      calls.length === shown.length &&
      calls.every((call) => {
        const item = shown.find((one) => one.call?.id === call.id);
        return item !== undefined && isSameInput(item.arguments, call);
      })
    );
  }

  /** Closes the items that are open; their parts are closed, or taken back. */
  end(status: ItemStatus): void {
    for (const item of this.#items) this.#closeItem(item, status);
  }

  /** What cites nothing, as it grows. */
  #showDelta(part: OpenPart, delta: string): void {
    if (delta === "") return;
    const { item, index } = part;
    if (item.kind === "message") {
      this.#showPlain(part, delta);
      return;
    }
    const at = { item_id: item.place.id, output_index: item.place.index };
    const { emitter, rawReasoning } = this.#options;
    if (item.kind === "tool_call") {
      emitter.emit({ type: "task.tool_call_arguments.delta", ...at, delta });
    } else if (rawReasoning) {
      emitter.emit({ type: "task.reasoning_text.delta", ...at, content_index: index, delta });
    } else {
      const place = { ...at, summary_index: index };
      emitter.emit({ type: "task.reasoning_summary_text.delta", ...place, delta });
    }
  }

  #showPlain({ item, index }: OpenPart, text: string): void {
    const { emitter, onText } = this.#options;
    emitter.textDelta(item.place, index, text);
    onText?.(text);
  }

  #showText(part: OpenPart, shown: { text: string; annotations: readonly Annotation[] }): void {
    const { emitter } = this.#options;
    const { item, index } = part;
    if (shown.text !== "") this.#showPlain(part, shown.text);
    for (const annotation of shown.annotations) {
      emitter.emit({
        type: "task.text.annotation.added",
        item_id: item.place.id,
        output_index: item.place.index,
        block_index: index,
        annotation_index: part.annotations.length,
        annotation,
      });
      part.annotations.push(annotation);
    }
  }

  #itemFor(part: TurnPart): TurnItem {
    const kind = { text: "message", thinking: "reasoning", call: "tool_call" } as const;
    const last = this.#items.at(-1);
    const wanted = kind[part.kind];
    if (last && last.kind === wanted && wanted !== "tool_call") return last;
    if (last && last.open === 0) this.#closeItem(last, "completed");
    const item = this.#newItem(wanted, part);
    this.#items.push(item);
    return item;
  }

  #newItem(kind: TurnItem["kind"], part: TurnPart): TurnItem {
    const { emitter, ids, purpose } = this.#options;
    const status = "in_progress";
    const common = { kind, blocks: [], summary: [], open: 0, closed: false, arguments: "" };
    if (kind === "reasoning") {
      const id = ids.next("rs");
      return { ...common, place: emitter.addItem({ type: kind, id, status, summary: [] }) };
    }
    if (kind === "message") {
      const id = ids.next("msg");
      const item = { type: kind, id, status, role: "assistant", block_list: [] } as const;
      return { ...common, place: emitter.addItem({ ...item, ...(purpose && { purpose }) }) };
    }
    const { callId, name, providerCallId } = part as TurnPart & { kind: "call" };
    const place = emitter.addItem({
      type: kind,
      id: ids.next("fc"),
      status,
      call_id: callId,
      name,
      arguments: "",
      ...(providerCallId !== undefined && { provider_call_id: providerCallId }),
    });
    return {
      ...common,
      place,
      call: { id: callId, name, ...(providerCallId && { providerCallId }) },
    };
  }

  #closeItem(item: TurnItem, status: ItemStatus): void {
    if (item.closed || item.open > 0) return;
    item.closed = true;
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

/** Whether streamed arguments are what the model sent in the end, however it is written. */
function isSameInput(streamed: string, call: Block & { type: "tool_use" }): boolean {
  if (call.raw !== undefined) return call.raw === streamed;
  try {
    return JSON.stringify(JSON.parse(streamed || "{}")) === JSON.stringify(call.input ?? {});
  } catch {
    return false;
  }
}
