import type {
  LanguageModelV2StreamPart,
  LanguageModelV3StreamPart,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import type { IdSource } from "../../protocol/id.ts";
import type { Block, MediaBlock } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/task.ts";
import { finishReasonOf, noUsage, usageOf } from "./finish.ts";
import { mediaBlock } from "./media.ts";
import { parseToolInput } from "./tool-input.ts";
import type { FinishReason, Signed, Turn, TurnSink, TurnSource } from "./turn.ts";

/** A part of a model's stream, in any version. */
export type StreamPart =
  | LanguageModelV2StreamPart
  | LanguageModelV3StreamPart
  | LanguageModelV4StreamPart;

/** What one attempt at a turn has brought so far. */
export interface Collector {
  /** Takes the next part; throws what an `error` part carries. */
  accept(part: StreamPart): void;
  /** Whether anything has reached the sink. */
  shown(): boolean;
  /** How the stream ended; undefined while no `finish` has come. */
  finish(): { readonly reason: FinishReason | "cut" | "error"; readonly usage: Usage } | undefined;
  /** Closes what is still open, and gives the turn; the stream must have finished. */
  complete(reason: FinishReason): Pick<Turn, "content" | "sources" | "usage">;
  /** Closes the text and the thinking that are open, and gives what was shown of an attempt that will not complete. */
  partial(): readonly Block[];
}

type Metadata = Readonly<Record<string, unknown>>;
/** Text or thinking as it grows; told to the sink with its first character. */
interface Passage {
  readonly kind: "text" | "thinking";
  /** The provider's id for it. */
  readonly id: string;
  key: number;
  /** Put together when it ends: a string that grows by each of them is a tree as deep as they are many. */
  readonly pieces: string[];
  text: string;
  metadata: Metadata | undefined;
}
/** A call as it grows; only the provider's `tool-call` makes it whole. */
interface Call {
  readonly kind: "call";
  readonly key: number;
  readonly callId: string;
  readonly name: string;
  readonly providerCallId: string | undefined;
  /** Whether its deltas are the arguments' JSON; otherwise the arguments come whole, at the end. */
  readonly streamsJson: boolean;
  /** What was streamed of its arguments. */
  readonly pieces: string[];
  /** Its arguments, once it is whole. */
  input: string | undefined;
  metadata: Metadata | undefined;
}
interface Medium {
  readonly kind: "medium";
  readonly block: MediaBlock;
}

const notShown = -1;
/** A call needs a name wherever it is kept; there is no tool of this one, which is what the model will read. */
const unnamed = "unnamed_tool";

/**
 * Puts a turn together from a model's stream and tells the sink as it goes. Blocks overlap in real streams (a text may
 * end after a call has begun), so each is kept under the provider's id for it. `nextKey` counts through all attempts.
 */
export function createCollector(sink: TurnSink, ids: IdSource, nextKey: () => number): Collector {
  const entries: (Passage | Call | Medium)[] = []; // in the order in which the sink was told
  const texts = new Map<string, Passage>(); // open ones only
  const thoughts = new Map<string, Passage>();
  const calls = new Map<string, Call>();
  const providerCallIds = new Set<string>();
  const sources: TurnSource[] = [];
  let finish: ReturnType<Collector["finish"]>;
  let latest: Passage | undefined; // the text that grows: looked up once, not with every chunk

  function begin(passages: Map<string, Passage>, kind: Passage["kind"], id: string): Passage {
    end(passages, id); // in case the provider forgot to
    const passage = { kind, id, key: notShown, pieces: [], text: "", metadata: undefined };
    passages.set(id, passage);
    return passage;
  }

  function show(passage: Passage): void {
    passage.key = nextKey();
    entries.push(passage);
    finish = undefined; // a stream may hold several messages; it ends with the finish of the last
    sink.open({ key: passage.key, kind: passage.kind });
  }

  function grow(passage: Passage, delta: string, metadata: Metadata | undefined): void {
    if (metadata !== undefined) passage.metadata = merge(passage.metadata, metadata);
    if (typeof delta !== "string" || delta === "") return;
    if (passage.key === notShown) show(passage);
    passage.pieces.push(delta);
    sink.delta(passage.key, delta);
  }

  function end(
    passages: Map<string, Passage>,
    id: string,
    metadata?: Metadata,
    isCut = false,
  ): void {
    const passage = passages.get(id);
    if (passage === undefined) return;
    passages.delete(id);
    latest = undefined;
    grow(passage, "", metadata);
    // Thinking may come without a word and still be what the provider wants to see again.
    const silent = passage.key === notShown;
    if (silent && passage.kind === "thinking" && passage.metadata !== undefined) show(passage);
    if (passage.key === notShown) return;
    passage.text = passage.pieces.join("");
    sink.close(passage.key, passage.text, isCut);
  }

  function endAll(isCut = false): void {
    for (const id of [...thoughts.keys()]) end(thoughts, id, undefined, isCut);
    for (const id of [...texts.keys()]) end(texts, id, undefined, isCut);
  }

  function beginCall(id: string, name: string, streamsJson: boolean): Call {
    // An id that is empty or used twice cannot tell results apart: then ours goes to the provider.
    const usable = Boolean(id) && !providerCallIds.has(id);
    if (usable) providerCallIds.add(id);
    const call: Call = {
      kind: "call",
      key: nextKey(),
      callId: ids.next("call"),
      name: name || unnamed,
      providerCallId: usable ? id : undefined,
      streamsJson,
      pieces: [],
      input: undefined,
      metadata: undefined,
    };
    calls.set(id, call);
    entries.push(call);
    finish = undefined;
    const { key, callId, providerCallId } = call;
    const shown = { key, kind: "call", callId, name: call.name } as const;
    sink.open({ ...shown, ...(providerCallId && { providerCallId }) });
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
          grow(latest, part.delta, part.providerMetadata);
          return;
        case "reasoning-delta":
          grow(
            thoughts.get(part.id) ?? begin(thoughts, "thinking", part.id),
            part.delta,
            part.providerMetadata,
          );
          return;
        case "tool-input-delta": {
          const call = calls.get(part.id);
          // Unknown: the provider runs that tool itself.
          if (call?.input !== undefined || !call?.streamsJson || !part.delta) return;
          growCall(call, part.delta);
          return;
        }
        case "text-start":
          grow(begin(texts, "text", part.id), "", part.providerMetadata);
          return;
        case "text-end":
          end(texts, part.id, part.providerMetadata);
          return;
        case "reasoning-start":
          grow(begin(thoughts, "thinking", part.id), "", part.providerMetadata);
          return;
        case "reasoning-end":
          end(thoughts, part.id, part.providerMetadata);
          return;
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
        default: // metadata, pings, what providers run themselves, and what is yet to be invented
          return;
      }
    },
    shown: () => entries.length > 0 || sources.length > 0,
    finish: () => finish,
    complete(reason) {
      const usage = finish?.usage ?? noUsage;
      endAll();
      const content = entries.flatMap((entry) => blockOf(entry, reason === "length"));
      return { content, sources, usage };
    },
    partial() {
      endAll(true);
      // Without signatures: a provider may know nothing of a reply that it did not finish.
      return entries.flatMap((entry): Block[] => {
        if (entry.kind === "call") return [];
        if (entry.kind === "medium") return [entry.block];
        return [{ type: entry.kind, text: entry.text }];
      });
    },
  };
}

/** The block that an entry came to; nothing for a call that was cut off, be it by the limit of tokens. */
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

/** Providers give their metadata piece by piece, each under its own name. */
function merge(before: Metadata | undefined, more: Metadata): Metadata {
  if (before === undefined) return more;
  const merged: Record<string, unknown> = { ...before };
  for (const [provider, value] of Object.entries(more)) {
    merged[provider] = { ...(merged[provider] as object | undefined), ...(value as object) };
  }
  return merged;
}
