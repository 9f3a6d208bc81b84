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
  type Item,
  type ItemStatus,
  isSameInput,
  type ReferenceLookup,
  ReferenceParser,
  type WrittenItem,
  type WrittenPart,
} from "../../protocol/index.ts";
import type { TurnPart, TurnSink, TurnSource } from "../model/turn.ts";
import type { TaskEmitter } from "./emit.ts";

/** A part of an item that the model streams. */
interface OpenPart {
  readonly part: WrittenPart;
  readonly parser: ReferenceParser | undefined;
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
  readonly #items: WrittenItem[] = [];
  /** The sources that the provider named before the first item. */
  #earlySources: TurnSource[] = [];

  constructor(options: TurnEmitterOptions) {
    this.#options = options;
    this.ready = options.ready;
  }

  open(part: TurnPart): OpenPart {
    const { emitter, references, rawReasoning } = this.#options;
    const parser = part.kind === "text" && references ? new ReferenceParser(references) : undefined;
    const start = part.kind === "thinking" && rawReasoning ? rawPart : {};
    return { part: emitter.openPart(this.#itemFor(part), start), parser };
  }

  delta({ part, parser }: OpenPart, text: string): void {
    if (!part.item.isOpen || text === "") return;
    if (parser === undefined || parser.takePlain(text)) this.#append(part, text);
    else this.#appendParsed(part, parser.push(text));
  }

  /** Closes a part, and its item if another item has opened since. */
  close({ part, parser }: OpenPart, text: string, isCut = false): void {
    const { item } = part;
    if (!item.isOpen) return;
    if (parser !== undefined) this.#appendParsed(part, parser.end());
    this.#options.emitter.closePart(part, { type: "text", text });
    if (item !== this.#items.at(-1)) this.#closeItem(item, isCut ? "cancelled" : "completed");
  }

  block(block: MediaBlock): void {
    const { emitter } = this.#options;
    emitter.addBlock(this.#itemFor({ kind: "text" }), emitter.storeBytes(toWireBlock(block)));
  }

  source(source: TurnSource): void {
    const item = this.#items.at(-1);
    if (item === undefined) this.#earlySources.push(source);
    else this.#emitSource(item, source);
  }

  discard(reason: DiscardReason): void {
    for (const item of this.#items) this.#options.emitter.discardItem(item, reason);
    if (this.#items.length > 0) this.#options.onChunk?.({ type: "retracted" });
    this.#items.length = 0;
    this.#earlySources = [];
  }

  /** Emits blocks that did not stream. */
  showWhole(content: readonly Block[]): void {
    const show = (kind: TurnPart, text: string) => {
      const part = this.open(kind);
      this.delta(part, text);
      this.close(part, text);
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
      if (item.type === "tool_call") this.#options.emitter.discardItem(item, "recovered");
  }

  /** Returns true if the streamed calls equal those of the finished turn: all complete, with the same arguments. */
  showsCallsOf(content: readonly Block[]): boolean {
    const calls = content.filter((block) => block.type === "tool_use");
    const items = this.#items.filter(({ type }) => type === "tool_call");
    const streamed = new Map(items.map((item) => [item.callId, item]));
    return (
      calls.length === streamed.size &&
      calls.every((call) => {
        const { arguments: input } = streamed.get(call.id) ?? {};
        if (input === undefined || call.raw !== undefined) return input === call.raw;
        return isSameInput(input, JSON.stringify(call.input ?? {}));
      })
    );
  }

  /** Closes the open items whose parts are closed. */
  end(status: ItemStatus): void {
    for (const item of this.#items) this.#closeItem(item, status);
  }

  /** Appends text that contains no citation. */
  #append(part: WrittenPart, text: string): void {
    const { emitter, onChunk } = this.#options;
    const written = emitter.appendText(part, text);
    if (onChunk === undefined || written === "" || part.kind === "arguments") return;
    onChunk({ type: part.kind === "text" ? "text" : "thinking", text: written });
  }

  #appendParsed(
    part: WrittenPart,
    { text, annotations }: { text: string; annotations: readonly Annotation[] },
  ): void {
    this.#append(part, text);
    for (const annotation of annotations) this.#options.emitter.annotate(part, annotation);
  }

  #itemFor(part: TurnPart): WrittenItem {
    const last = this.#items.at(-1);
    const type = itemType[part.kind];
    if (last?.type === type && type !== "tool_call") return last;
    if (last) this.#closeItem(last, "completed");
    const item = this.#options.emitter.addItem(this.#newItem(part));
    this.#items.push(item);
    for (const source of this.#earlySources) this.#emitSource(item, source);
    this.#earlySources = [];
    return item;
  }

  #emitSource(item: WrittenItem, { id, url, title, mediaType }: TurnSource): void {
    this.#options.emitter.reference(item, {
      id: id.slice(0, 128) || "source",
      ...(url !== undefined && { url }),
      ...(title !== undefined && { title }),
      ...(mediaType !== undefined && { mime_type: mediaType }),
    });
  }

  #newItem(part: TurnPart): Item {
    const { ids, purpose, messageId: message_id } = this.#options;
    const status = "in_progress";
    if (part.kind === "thinking")
      return { type: "reasoning", id: ids.next("rs"), status, message_id, summary: [] };
    if (part.kind === "text") {
      const item = { type: "message", id: ids.next("msg"), status, message_id } as const;
      return { ...item, role: "assistant", block_list: [], ...(purpose && { purpose }) };
    }
    const { callId, name, providerCallId } = part as Extract<TurnPart, { kind: "call" }>;
    return {
      type: "tool_call",
      id: ids.next("fc"),
      status,
      message_id,
      call_id: callId,
      name,
      arguments: "",
      ...(providerCallId !== undefined && { provider_call_id: providerCallId }),
    };
  }

  /** Closes an item, unless one of its parts is open. */
  #closeItem(item: WrittenItem, status: ItemStatus): void {
    if (!item.isOpen || item.parts.some(({ isOpen }) => isOpen)) return;
    this.#options.emitter.closeItem(item, { status });
  }
}

const itemType = { text: "message", thinking: "reasoning", call: "tool_call" } as const;
const rawPart = { type: "reasoning_text" } as const;
