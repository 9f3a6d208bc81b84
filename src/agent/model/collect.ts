import type {
  LanguageModelV2StreamPart,
  LanguageModelV2Usage,
  LanguageModelV3StreamPart,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import type { IdSource } from "../../base/id.ts";
import type { Block, MediaBlock } from "../../contract/index.ts";
import { nests, noUsage, type Usage } from "../../protocol/index.ts";
import type { FinishReason, Turn, TurnPart, TurnSink, TurnSource } from "./turn.ts";

/** A part of a model's stream, in any version of the interface. */
export type StreamPart =
  | LanguageModelV2StreamPart
  | LanguageModelV3StreamPart
  | LanguageModelV4StreamPart;
type FinishPart = Extract<StreamPart, { type: "finish" }>;

type Metadata = Readonly<Record<string, unknown>>;
/** Text, thinking or a call while it grows. */
interface Part {
  readonly kind: "text" | "thinking" | "call";
  /** The provider's id. */
  readonly id: string;
  /** The part in the sink; text and thinking get there with their first character. */
  shown: { readonly part: unknown } | undefined;
  /** Joined at the end, because a string that grows piece by piece becomes a deep tree. */
  readonly pieces: string[];
  /** The whole text, or the arguments as the provider sent them at the end of the call; undefined before the end. */
  text: string | undefined;
  metadata: Metadata | undefined;
  /** Of a call; `streamsJson`: its deltas are JSON, otherwise the arguments come at the end. */
  call: (Omit<CallPart, "kind"> & { readonly streamsJson: boolean }) | undefined;
}
type CallPart = Extract<TurnPart, { kind: "call" }>;
type Passage = "text" | "thinking";

function newPart(kind: Part["kind"], id: string): Part {
  return {
    ...{ kind, id, pieces: [] },
    ...{ shown: undefined, text: undefined, metadata: undefined, call: undefined },
  };
}

/** The name of a call without one; the model reads that no such tool exists. */
const unnamed = "unnamed_tool";

/** Collects the stream of one attempt at a turn, whose parts may overlap. */
export class Collector {
  readonly #sink: TurnSink;
  readonly #ids: IdSource;
  /** In the order in which they were opened. */
  readonly #entries: (Part | MediaBlock)[] = [];
  /** The texts and thoughts that have not ended. */
  readonly #open: Part[] = [];
  readonly #calls = new Map<string, Part>();
  readonly #sources: TurnSource[] = [];
  #finish: { readonly reason: FinishReason | "cut" | "error"; readonly usage: Usage } | undefined;
  /** The passage of the last delta, which saves a search per chunk. */
  #latest: Part | undefined;

  constructor(sink: TurnSink, ids: IdSource) {
    this.#sink = sink;
    this.#ids = ids;
  }

  /** How the stream ended; undefined before the `finish` part. */
  get finish() {
    return this.#finish;
  }

  /** Whether anything has reached the sink. */
  get hasOutput(): boolean {
    return this.#entries.length > 0 || this.#sources.length > 0;
  }

  /** Takes the next part; throws the error of an `error` part. */
  accept(part: StreamPart) {
    switch (part.type) {
      case "text-delta":
        return this.#grow(this.#passage("text", part.id), part.delta, part.providerMetadata);
      case "reasoning-delta":
        return this.#grow(this.#passage("thinking", part.id), part.delta, part.providerMetadata);
      case "tool-input-delta": {
        const call = this.#calls.get(part.id);
        // The call is undefined when the provider runs the tool.
        if (call?.text === undefined && call?.call?.streamsJson) this.#grow(call, part.delta);
        return;
      }
      case "error":
        throw part.error;
      default:
        return this.#acceptWhole(part);
    }
  }

  /** Takes a part that is no delta. */
  #acceptWhole(part: StreamPart) {
    switch (part.type) {
      case "text-start":
        return this.#grow(this.#begin("text", part.id), "", part.providerMetadata);
      case "text-end":
        return this.#end("text", part.id, part.providerMetadata);
      case "reasoning-start":
        return this.#grow(this.#begin("thinking", part.id), "", part.providerMetadata);
      case "reasoning-end":
        return this.#end("thinking", part.id, part.providerMetadata);
      case "tool-input-start": {
        if (part.providerExecuted) return;
        const streamsJson = !("inputEncoding" in part) || part.inputEncoding !== "text";
        this.#beginCall(part.id, part.toolName, streamsJson);
        return;
      }
      case "tool-call":
        if (!part.providerExecuted) this.#endCall(part);
        return;
      case "file": {
        const block = mediaBlock(part);
        this.#add(block);
        return this.#sink.block(block);
      }
      case "source": {
        const source = sourceOf(part);
        this.#sources.push(source);
        return this.#sink.source(source);
      }
      case "finish":
        this.#finish = { reason: finishReasonOf(part.finishReason), usage: usageOf(part.usage) };
        return;
      default: // metadata, pings, tools that the provider runs, and future types
        return;
    }
  }

  /** Closes open parts and returns the turn; the stream must have finished. */
  complete(reason: FinishReason): Pick<Turn, "content" | "sources" | "usage"> {
    const usage = this.#finish?.usage ?? noUsage;
    this.#endAll();
    // Copied, because the store keeps it, and `flatMap` reserves room for 16 more blocks.
    const content = this.#entries.flatMap((entry) => blockOf(entry, reason === "length")).slice();
    return { content, sources: this.#sources, usage };
  }

  /** Closes open text and thinking as cut, and returns the blocks of an attempt that will not complete. */
  partial(): readonly Block[] {
    this.#endAll(true);
    // Without signatures, because the provider may not know a reply that it did not finish.
    return this.#entries.flatMap((entry): Block[] => {
      if (!("kind" in entry)) return [entry];
      const { kind, text = "" } = entry;
      return kind === "call" ? [] : [{ type: kind, text }];
    });
  }

  #passage(kind: Passage, id: string): Part {
    const { id: latestId, kind: latestKind } = this.#latest ?? {};
    if (id === latestId && kind === latestKind) return this.#latest as Part;
    this.#latest = this.#find(kind, id) ?? this.#begin(kind, id);
    return this.#latest;
  }

  #find(kind: Passage, id: string): Part | undefined {
    return this.#open.find((part) => part.id === id && part.kind === kind);
  }

  #begin(kind: Passage, id: string): Part {
    this.#end(kind, id); // the provider may have omitted the end
    const part = newPart(kind, id);
    this.#open.push(part);
    return part;
  }

  #add(entry: Part | MediaBlock): void {
    this.#entries.push(entry);
    this.#finish = undefined; // a stream may contain several messages
  }

  #show(part: Part): void {
    this.#add(part);
    part.shown = { part: this.#sink.open({ kind: part.kind as Passage }) };
  }

  #grow(part: Part, delta: string, metadata?: Metadata): void {
    if (metadata !== undefined) part.metadata = merge(part.metadata, metadata);
    if (typeof delta !== "string" || delta === "") return;
    if (part.shown === undefined) this.#show(part);
    part.pieces.push(delta);
    this.#sink.delta(part.shown?.part, delta);
  }

  #end(kind: Passage, id: string, metadata?: Metadata, isCut = false): void {
    const part = this.#find(kind, id);
    if (part === undefined) return;
    this.#open.splice(this.#open.indexOf(part), 1);
    this.#latest = undefined;
    this.#grow(part, "", metadata);
    // Thinking without text may carry metadata that the provider needs back.
    if (part.shown === undefined && (kind === "text" || part.metadata === undefined)) return;
    if (part.shown === undefined) this.#show(part);
    part.text = part.pieces.join("");
    this.#sink.close(part.shown?.part, part.text, isCut);
  }

  #endAll(isCut = false): void {
    for (const kind of ["thinking", "text"] as const)
      for (const part of [...this.#open])
        if (part.kind === kind) this.#end(kind, part.id, undefined, isCut);
  }

  #beginCall(id: string, name: string, streamsJson: boolean): Part {
    // An empty or duplicate id cannot identify a result, so the provider gets our id instead.
    const provider = id && !this.#calls.has(id) && { providerCallId: id };
    const call = { callId: this.#ids.next("call"), name: name || unnamed, ...provider };
    const part = newPart("call", id);
    part.call = { ...call, streamsJson };
    part.shown = { part: this.#sink.open({ kind: "call", ...call }) };
    this.#calls.set(id, part);
    this.#add(part);
    return part;
  }

  #endCall(sent: Extract<StreamPart, { type: "tool-call" }>): void {
    const { toolCallId, toolName, input, providerMetadata } = sent;
    const begun = this.#calls.get(toolCallId);
    const isNew = begun === undefined || begun.text !== undefined;
    const part = isNew ? this.#beginCall(toolCallId, toolName, true) : begun;
    const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
    this.#grow(part, part.pieces.length === 0 ? text : "", providerMetadata);
    part.text = text;
    this.#sink.close(part.shown?.part, part.pieces.join(""));
  }
}

/** The block of an entry; empty for a call that was cut off, for example by the token limit. */
function blockOf(entry: Part | MediaBlock, cutByLimit: boolean): readonly Block[] {
  if (!("kind" in entry)) return [entry];
  const { kind, call, text, metadata } = entry;
  const signature = metadata && { signature: JSON.stringify(metadata) };
  if (kind !== "call") return [{ type: kind, text: text ?? "", ...signature }];
  if (text === undefined || call === undefined) return [];
  const input = parseToolInput(text);
  if (cutByLimit && (input.raw !== undefined || text.trim() === "")) return [];
  const { callId: id, name, streamsJson: _, ...provider } = call;
  return [{ type: "tool_use", id, name, ...input, ...provider, ...signature }];
}

function sourceOf(part: Extract<StreamPart, { type: "source" }>): TurnSource {
  return {
    id: part.id,
    ...("url" in part && { url: part.url }),
    ...(part.title !== undefined && { title: part.title }),
    ...("mediaType" in part && { mediaType: part.mediaType }),
  };
}

function merge(before: Metadata | undefined, more: Metadata): Metadata {
  if (before === undefined) return more;
  const merged: Record<string, unknown> = { ...before };
  for (const [provider, value] of Object.entries(more)) {
    merged[provider] = { ...(merged[provider] as object | undefined), ...(value as object) };
  }
  return merged;
}

function mediaBlock(file: { mediaType: string; data: unknown }): MediaBlock {
  const type = /^(image|audio|video)\//.exec(file.mediaType)?.[1] ?? "file";
  return { type: type as MediaBlock["type"], source: mediaSource(file.data, file.mediaType) };
}

function mediaSource(data: unknown, mimeType: string): MediaBlock["source"] {
  if (typeof data === "string") return { data, mimeType };
  if (data instanceof Uint8Array) return { data: Buffer.from(data).toString("base64"), mimeType };
  const tagged = data as { type: string; data?: unknown; url?: URL };
  if (tagged.type === "url") return { url: String(tagged.url), mimeType };
  return mediaSource(tagged.data, mimeType);
}

// Deeper values would overflow the stack of recursive code, such as that of a store.
const maxInputDepth = 500;

/** Parses the arguments of a call; `raw` keeps a text that does not parse. Some providers send "" for no arguments. */
export function parseToolInput(text: string): { input: unknown; raw?: string } {
  if (text.trim() === "") return { input: {} };
  try {
    const input: unknown = JSON.parse(text);
    if (nests(input, maxInputDepth)) return { input };
  } catch {
    // The model reads that its arguments are not JSON.
  }
  return { input: {}, raw: text };
}

/** Why a model stopped. `cut`: the provider gave no reason, so the reply may be incomplete; `error`: the provider failed. */
export function finishReasonOf(
  reason: FinishPart["finishReason"] | undefined,
): FinishReason | "cut" | "error" {
  if (typeof reason === "string") return reason === "unknown" ? "cut" : reason;
  if (reason === undefined) return "cut";
  const { unified, raw } = reason;
  if (unified === "interrupted") return "cut";
  // Adapters without a value for a missing reason report this.
  if (unified === "other" && raw === undefined) return "cut";
  return unified;
}

function usageOf(usage: FinishPart["usage"] | undefined): Usage {
  if (usage === undefined || usage === null) return noUsage;
  if (isNested(usage)) {
    const { inputTokens: input, outputTokens: output } = usage;
    const { cacheRead, cacheWrite } = input;
    return tokens(input.total, output.total, undefined, cacheRead, output.reasoning, cacheWrite);
  }
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens, reasoningTokens } = usage;
  return tokens(inputTokens, outputTokens, totalTokens, cachedInputTokens, reasoningTokens);
}

function isNested(
  usage: FinishPart["usage"],
): usage is Exclude<FinishPart["usage"], LanguageModelV2Usage> {
  return typeof usage.inputTokens === "object" && typeof usage.outputTokens === "object";
}

function tokens(...counts: readonly (number | undefined)[]): Usage {
  const valid = counts.map((count) =>
    Number.isFinite(count) && (count as number) >= 0 ? count : undefined,
  );
  const [input = 0, output = 0, total = input + output, cached, reasoning, written] = valid;
  if (valid.every((count) => count === undefined)) return noUsage;
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total,
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
    ...(written && { cache_write_tokens: written }),
  };
}
