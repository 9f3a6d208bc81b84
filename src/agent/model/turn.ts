import type { Block, MediaBlock, Message } from "../../contract/index.ts";
import type { Usage } from "../../protocol/index.ts";

/** The request for one turn: one reply of a model. */
export interface TurnRequest {
  readonly messages: readonly Message[];
  /** The index of the first of them in the session; defaults to 0. */
  readonly offset?: number;
  /** The name of the agent; messages of assistants with another name are the words of other agents. */
  readonly name?: string;
  readonly systemPrompt: string;
  readonly tools: readonly TurnTool[];
  /** Passed to models with native structured output (`supportsResponseFormat`), ignored by the others. */
  readonly responseSchema?: { readonly schema: object; readonly name?: string };
  /** Call options of the AI SDK, such as temperature, maxOutputTokens and providerOptions. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}
/** A tool as the model sees it. */
export interface TurnTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

/** The beginning of a part of a turn. */
export type TurnPart =
  | { readonly kind: "text" | "thinking" }
  | {
      readonly kind: "call";
      readonly callId: string;
      readonly name: string;
      readonly providerCallId?: string;
    };

/** Receives a turn while it streams, in order and synchronously; calls that the finished turn lacks were cut off. */
export interface TurnSink {
  /** Returns the part for `delta` and `close`, which ignore a part that was discarded. */
  open(part: TurnPart): unknown;
  delta(part: unknown, text: string): void;
  /** Ends a part; `text` is all of its deltas, and `isCut` says that the turn was interrupted before its end. */
  close(part: unknown, text: string, isCut?: boolean): void;
  /** A file that the model generated. */
  block(block: MediaBlock): void;
  source(source: TurnSource): void;
  /** Withdraws everything shown since the turn began; not called when nothing was shown. */
  discard(reason: "provider_retry" | "fallback"): void;
  /** Returns a promise to delay the next chunk, because the sink's reader is behind; the delay is no stall. */
  readonly ready?: (() => Promise<void> | undefined) | undefined;
}

/** A source that the model names for its answer. */
export interface TurnSource {
  readonly id: string;
  readonly url?: string;
  readonly title?: string;
  readonly mediaType?: string;
}

/** Why a model stopped. */
export type FinishReason = "stop" | "length" | "tool-calls" | "content-filter" | "other";

/** A complete turn. */
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
  /** The text, thinking and media shown and not discarded; no calls, because none may run. */
  readonly partial: readonly Block[];
  readonly usage?: Usage;
  readonly model?: Turn["model"];

  constructor(
    reason: unknown,
    partial: readonly Block[],
    { usage, model }: Partial<Pick<Turn, "usage" | "model">> = {},
  ) {
    super("The turn was interrupted.", { cause: reason });
    this.name = "TurnInterrupted";
    this.partial = partial;
    if (usage !== undefined) this.usage = usage;
    if (model !== undefined) this.model = model;
  }
}
