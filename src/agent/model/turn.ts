import type { Block, MediaBlock, Message } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/task.ts";

/** What a model is asked in one turn. */
export interface TurnRequest {
  readonly messages: readonly Message[];
  readonly system: string;
  readonly tools: readonly TurnTool[];
  readonly toolChoice?: "auto" | "none" | "required";
  /** Passed to models that keep to a schema by themselves (`supportsResponseFormat`), ignored by the others. */
  readonly responseSchema?: { readonly schema: object; readonly name?: string };
  /** Call options of the AI SDK: temperature, maxOutputTokens, providerOptions and so on. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}
/** What the model is told of a tool. */
export interface TurnTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

/** A piece of a turn that has begun; `key` is not used again in this turn, not after a discard either. */
export type TurnPart =
  | { readonly key: number; readonly kind: "text" | "thinking" }
  | {
      readonly key: number;
      readonly kind: "call";
      readonly callId: string;
      readonly name: string;
      readonly providerCallId?: string;
    };

/**
 * Is told what a turn shows, synchronously and in order; its functions must not throw. Of the calls it is told of,
 * those that are not in the finished turn were cut off: the caller takes them back.
 */
export interface TurnSink {
  open(part: TurnPart): void;
  delta(key: number, text: string): void;
  /** A part is over; `text` is all that was told of it, and `isCut` says that the turn was interrupted before its end. */
  close(key: number, text: string, isCut?: boolean): void;
  /** A file that the model made. */
  block(block: MediaBlock): void;
  source(source: TurnSource): void;
  /** Everything shown since the turn began is taken back. Not called when nothing was shown. */
  discard(reason: "provider_retry" | "fallback"): void;
  /** A promise when the next chunk should wait: the reader of this sink is behind. That wait is no stall. */
  readonly ready?: (() => Promise<void> | undefined) | undefined;
}

/** Something that the model says its answer rests on. */
export interface TurnSource {
  readonly id: string;
  readonly url?: string;
  readonly title?: string;
  readonly mediaType?: string;
}

/** Why a model stopped. */
export type FinishReason = "stop" | "length" | "tool-calls" | "content-filter" | "other";

/** What a model said in one turn, complete. */
export interface Turn {
  /** Thinking, text, media and calls in the order in which they were opened. */
  readonly content: readonly Block[];
  readonly usage: Usage;
  readonly finishReason: FinishReason;
  readonly model: { readonly provider: string; readonly modelId: string };
  readonly sources: readonly TurnSource[];
}

/** A turn that was aborted; `cause` is the signal's reason. */
export class TurnInterrupted extends Error {
  /** The text, thinking and media that were shown and not taken back; no calls, since none may run. */
  readonly partial: readonly Block[];
  readonly usage?: Usage;

  constructor(reason: unknown, partial: readonly Block[], usage?: Usage) {
    super("The turn was interrupted.", { cause: reason });
    this.name = "TurnInterrupted";
    this.partial = partial;
    if (usage !== undefined) this.usage = usage;
  }
}

/**
 * What a provider wants to get back with a block, as JSON of its metadata: signatures of thinking, ids of items.
 * Thinking always has a place for it; on text and calls it is there when the provider gave some.
 */
export interface Signed {
  readonly signature?: string;
}
