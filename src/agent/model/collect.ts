import type {
  LanguageModelV2StreamPart,
  LanguageModelV2Usage,
  LanguageModelV3StreamPart,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import type { IdSource } from "../../protocol/id.ts";
import type { Block, MediaBlock } from "../../protocol/message.ts";
import { noUsage } from "../../protocol/select.ts";
import type { Usage } from "../../protocol/task.ts";
import type { FinishReason, Signed, Turn, TurnSink, TurnSource } from "./turn.ts";

/** A part of a model's stream, in any version of the interface. */
export type StreamPart =
  | LanguageModelV2StreamPart
  | LanguageModelV3StreamPart
  | LanguageModelV4StreamPart;
type FinishPart = Extract<StreamPart, { type: "finish" }>;

/** Collects the stream of one attempt at a turn. */
export interface Collector {
  /** Takes the next part; throws the error of an `error` part. */
  accept(part: StreamPart): void;
  /** Whether anything has reached the sink. */
  hasOutput(): boolean;
  /** How the stream ended; undefined before the `finish` part. */
  finish(): { readonly reason: FinishReason | "cut" | "error"; readonly usage: Usage } | undefined;
  /** Closes open parts and returns the turn; the stream must have finished. */
  complete(reason: FinishReason): Pick<Turn, "content" | "sources" | "usage">;
  /** Closes open text and thinking as cut, and returns the blocks of an attempt that will not complete. */
  partial(): readonly Block[];
}

type Metadata = Readonly<Record<string, unknown>>;
/** Text or thinking while it grows; opened in the sink with its first character. */
interface Passage {
  readonly kind: "text" | "thinking";
  readonly id: string;
  key: number;
  /** Joined at the end, because a string that grows piece by piece becomes a deep tree. */
  readonly pieces: string[];
  text: string;
  metadata: Metadata | undefined;
}
/** A call while it grows; only the provider's `tool-call` part completes it. */
interface Call {
  readonly kind: "call";
  readonly key: number;
  readonly callId: string;
  readonly name: string;
  readonly providerCallId: string | undefined;
  /** Whether its deltas are JSON; otherwise the arguments come at the end. */
  readonly streamsJson: boolean;
  readonly pieces: string[];
  /** The arguments of a complete call. */
  input: string | undefined;
  metadata: Metadata | undefined;
}
type Passages = Map<string, Passage>;
interface Medium {
  readonly kind: "medium";
  readonly block: MediaBlock;
}

const notShown = -1;
/** The name of a call without one; the model reads that no such tool exists. */
const unnamed = "unnamed_tool";

/** Assembles a turn from a model's stream, whose parts may overlap; `nextKey` counts through all attempts. */
export function createCollector(sink: TurnSink, ids: IdSource, nextKey: () => number): Collector {
  const entries: (Passage | Call | Medium)[] = []; // in the order in which they were opened
  const texts: Passages = new Map(); // open texts only
  const thoughts: Passages = new Map();
  const calls = new Map<string, Call>();
  const providerCallIds = new Set<string>();
  const sources: TurnSource[] = [];
  let finish: ReturnType<Collector["finish"]>;
  let latest: Passage | undefined; // saves a lookup per chunk

  function begin(passages: Passages, kind: Passage["kind"], id: string): Passage {
    end(passages, id); // the provider may have omitted the end
    const passage = { kind, id, key: notShown, pieces: [], text: "", metadata: undefined };
    passages.set(id, passage);
    return passage;
  }

  function show(passage: Passage): void {
    passage.key = nextKey();
    entries.push(passage);
    finish = undefined; // a stream may contain several messages
    sink.open({ key: passage.key, kind: passage.kind });
  }

  function grow(passage: Passage, delta: string, metadata: Metadata | undefined): void {
    if (metadata !== undefined) passage.metadata = merge(passage.metadata, metadata);
    if (typeof delta !== "string" || delta === "") return;
    if (passage.key === notShown) show(passage);
    passage.pieces.push(delta);
    sink.delta(passage.key, delta);
  }

  function end(passages: Passages, id: string, metadata?: Metadata, isCut = false): void {
    const passage = passages.get(id);
    if (passage === undefined) return;
    passages.delete(id);
    latest = undefined;
    grow(passage, "", metadata);
    // Thinking without text may carry metadata that the provider needs back.
    if (passage.key === notShown) {
      if (passage.kind !== "thinking" || passage.metadata === undefined) return;
      show(passage);
    }
    passage.text = passage.pieces.join("");
    sink.close(passage.key, passage.text, isCut);
  }

  function endAll(isCut = false): void {
    for (const id of [...thoughts.keys()]) end(thoughts, id, undefined, isCut);
    for (const id of [...texts.keys()]) end(texts, id, undefined, isCut);
  }

  function beginCall(id: string, name: string, streamsJson: boolean): Call {
    // An empty or duplicate id cannot identify a result, so the provider gets our id instead.
    const isUsable = Boolean(id) && !providerCallIds.has(id);
    if (isUsable) providerCallIds.add(id);
    const call: Call = {
      kind: "call",
      key: nextKey(),
      callId: ids.next("call"),
      name: name || unnamed,
      providerCallId: isUsable ? id : undefined,
      streamsJson,
      pieces: [],
      input: undefined,
      metadata: undefined,
    };
    calls.set(id, call);
    entries.push(call);
    finish = undefined;
    const { key, callId, providerCallId } = call;
    const part = { key, kind: "call", callId, name: call.name } as const;
    sink.open({ ...part, ...(providerCallId && { providerCallId }) });
    return call;
  }

  function growCall(call: Call, delta: string): void {
    call.pieces.push(delta);
    sink.delta(call.key, delta);
  }

  function endCall(part: Extract<StreamPart, { type: "tool-call" }>): void {
    const begun = calls.get(part.toolCallId);
    const call =
      begun === undefined || begun.input !== undefined
        ? beginCall(part.toolCallId, part.toolName, true)
        : begun;
    const input = typeof part.input === "string" ? part.input : JSON.stringify(part.input ?? {});
    if (call.pieces.length === 0 && input !== "") growCall(call, input);
    call.input = input;
    if (part.providerMetadata !== undefined) {
      call.metadata = merge(call.metadata, part.providerMetadata);
    }
    sink.close(call.key, call.pieces.join(""));
  }

  return {
    accept(part) {
      switch (part.type) {
        case "text-delta":
          if (latest?.id !== part.id) {
            latest = texts.get(part.id) ?? begin(texts, "text", part.id);
          }
          return grow(latest, part.delta, part.providerMetadata);
        case "reasoning-delta": {
          const thought = thoughts.get(part.id) ?? begin(thoughts, "thinking", part.id);
          return grow(thought, part.delta, part.providerMetadata);
        }
        case "tool-input-delta": {
          const call = calls.get(part.id);
          // The call is undefined when the provider runs the tool.
          if (call?.input !== undefined || !call?.streamsJson || !part.delta) return;
          return growCall(call, part.delta);
        }
        case "text-start":
          return grow(begin(texts, "text", part.id), "", part.providerMetadata);
        case "text-end":
          return end(texts, part.id, part.providerMetadata);
        case "reasoning-start":
          return grow(begin(thoughts, "thinking", part.id), "", part.providerMetadata);
        case "reasoning-end":
          return end(thoughts, part.id, part.providerMetadata);
        case "tool-input-start": {
          if (part.providerExecuted) return;
          const streamsJson = !("inputEncoding" in part) || part.inputEncoding !== "text";
          beginCall(part.id, part.toolName, streamsJson);
          return;
        }
        case "tool-call":
          if (!part.providerExecuted) endCall(part);
          return;
        case "file": {
          const block = mediaBlock(part);
          entries.push({ kind: "medium", block });
          finish = undefined;
          sink.block(block);
          return;
        }
        case "source": {
          const source = sourceOf(part);
          sources.push(source);
          sink.source(source);
          return;
        }
        case "finish":
          finish = { reason: finishReasonOf(part.finishReason), usage: usageOf(part.usage) };
          return;
        case "error":
          throw part.error;
        default: // metadata, pings, tools that the provider runs, and future types
          return;
      }
    },
    hasOutput: () => entries.length > 0 || sources.length > 0,
    finish: () => finish,
    complete(reason) {
      const usage = finish?.usage ?? noUsage;
      endAll();
      // Copied, because the store keeps it, and `flatMap` reserves room for 16 more blocks.
      const content = entries.flatMap((entry) => blockOf(entry, reason === "length")).slice();
      return { content, sources, usage };
    },
    partial() {
      endAll(true);
      // Without signatures, because the provider may not know a reply that it did not finish.
      return entries.flatMap((entry): Block[] => {
        if (entry.kind === "call") return [];
        if (entry.kind === "medium") return [entry.block];
        return [{ type: entry.kind, text: entry.text }];
      });
    },
  };
}

/** The block of an entry; empty for a call that was cut off, for example by the token limit. */
function blockOf(entry: Passage | Call | Medium, cutByLimit: boolean): readonly Block[] {
  if (entry.kind === "medium") return [entry.block];
  const signature: Signed =
    entry.metadata === undefined ? {} : { signature: JSON.stringify(entry.metadata) };
  if (entry.kind !== "call") return [{ type: entry.kind, text: entry.text, ...signature }];
  if (entry.input === undefined) return [];
  const input = parseToolInput(entry.input);
  if (cutByLimit && (input.raw !== undefined || entry.input.trim() === "")) return [];
  const block = {
    type: "tool_use" as const,
    id: entry.callId,
    name: entry.name,
    ...input,
    ...(entry.providerCallId !== undefined && { providerCallId: entry.providerCallId }),
    ...signature,
  };
  return [block];
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
  if (text.length > maxInputDepth && isTooDeep(text)) return { input: {}, raw: text };
  try {
    return { input: JSON.parse(text) };
  } catch {
    return { input: {}, raw: text };
  }
}

function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (inString) {
      if (character === "\\") index += 1;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{" || character === "[") {
      depth += 1;
      if (depth > maxInputDepth) return true;
    } else if (character === "}" || character === "]") depth -= 1;
  }
  return false;
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
    return tokens(input.total, output.total, undefined, input.cacheRead, output.reasoning);
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
  const [input = 0, output = 0, total = input + output, cached, reasoning] = counts.map((count) =>
    Number.isFinite(count) && (count as number) >= 0 ? count : undefined,
  );
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total,
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}
