import type {
  LanguageModelV4CallOptions,
  LanguageModelV4File,
  LanguageModelV4FinishReason,
  LanguageModelV4Source,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import { RivuletError } from "../protocol/error.ts";

/** One thing that a scripted model does in a turn. */
export type ScriptedPart =
  | string
  | ScriptedText
  | ScriptedThinking
  | ScriptedCall
  | ScriptedSource
  | ScriptedFile
  | ScriptedChunk
  | ScriptedUsage
  | ScriptedFinish
  | ScriptedError
  | ScriptedDelay
  | ScriptedHang;

/** A block of text, as one delta or as the deltas given; a bare string means the same. */
export interface ScriptedText {
  readonly text: string | readonly string[];
}
/** A block of thinking, as one delta or as the deltas given. */
export interface ScriptedThinking {
  readonly thinking: string | readonly string[];
}
/** A tool call; without `id` it gets one that is unique within its conversation. */
export interface ScriptedCall {
  readonly call: string;
  readonly input?: unknown;
  readonly id?: string;
  /** The arguments as text, for ones that are not JSON. */
  readonly raw?: string;
  /** How the arguments are streamed; together they are the arguments, unless `input` or `raw` says otherwise. */
  readonly deltas?: readonly string[];
}
/** A source that the answer rests on. */
export interface ScriptedSource {
  readonly source: DistributiveOmit<LanguageModelV4Source, "type">;
}
/** A file that the model made. */
export interface ScriptedFile {
  readonly file: Omit<LanguageModelV4File, "type">;
}
/** Any stream part as it is: overlapping blocks, error parts, metadata, what the other kinds cannot say. */
export interface ScriptedChunk {
  readonly chunk: Exclude<LanguageModelV4StreamPart, { type: "finish" }>;
}
/** What the turn costs, in tokens; what is left out is counted at four characters a token. */
export interface ScriptedUsage {
  readonly usage: {
    readonly inputTokens?: number;
    readonly cachedInputTokens?: number;
    readonly outputTokens?: number;
    readonly reasoningTokens?: number;
  };
}
/** Why the turn ends; without it "tool-calls" after a call, else "stop". */
export interface ScriptedFinish {
  readonly finish: LanguageModelV4FinishReason["unified"];
}
/** First in its turn it refuses the request, later it breaks the stream; nothing after it happens. */
export interface ScriptedError {
  readonly error: unknown;
}
/** A pause, on the model's clock. */
export interface ScriptedDelay {
  readonly delayMs: number;
}
/** Nothing more, until the request is aborted. */
export interface ScriptedHang {
  readonly hang: true;
}

/** One reply of the model: a part, or several in a row. */
export type ScriptedTurn = ScriptedPart | readonly ScriptedPart[];

/** What the model was asked: the call options of the AI SDK, and where the request stands. */
export interface ScriptedRequest extends LanguageModelV4CallOptions {
  /** How many requests this model had before. */
  readonly callIndex: number;
  /** How many assistant messages the prompt has. */
  readonly assistantCount: number;
  readonly streaming: boolean;
}

/** A turn made ready to play: its steps, and the `finish` that follows them. */
export interface Play {
  readonly steps: readonly Step[];
  readonly finish: {
    readonly finishReason: LanguageModelV4FinishReason;
    readonly usage: LanguageModelV4Usage;
  };
}
/** One move of the model. Many deltas stay one step, so that a long text costs no memory of its own. */
export type Step =
  | { readonly type: "chunk"; readonly chunk: LanguageModelV4StreamPart }
  | DeltaStep
  | { readonly type: "delay"; readonly ms: number }
  | { readonly type: "hang" }
  | { readonly type: "error"; readonly error: unknown };
/** The deltas of one block, in a row. */
export interface DeltaStep {
  readonly type: "deltas";
  readonly of: "text-delta" | "reasoning-delta" | "tool-input-delta";
  readonly id: string;
  readonly deltas: readonly string[];
}

/** Omit that keeps a union a union. */
type DistributiveOmit<T, Key extends PropertyKey> = T extends unknown ? Omit<T, Key> : never;

const charactersPerToken = 4;

/** Makes a turn ready to play. Throws `invalid_script` on a part that it does not know. */
export function playOf(
  turn: ScriptedTurn,
  request: Pick<ScriptedRequest, "prompt" | "assistantCount">,
): Play {
  const parts = (Array.isArray(turn) ? turn : [turn]) as readonly ScriptedPart[];
  const steps: Step[] = [];
  const chunk = (value: LanguageModelV4StreamPart) => steps.push({ type: "chunk", chunk: value });
  const characters = { text: 0, reasoning: 0 };
  let calls = 0;
  let usage: ScriptedUsage["usage"] = {};
  let finish: LanguageModelV4FinishReason["unified"] | undefined;

  for (const [index, part] of parts.entries()) {
    if (typeof part === "string" || has(part, "text")) {
      const deltas = listOf(typeof part === "string" ? part : part.text);
      const id = `text_${index}`;
      characters.text += lengthOf(deltas);
      chunk({ type: "text-start", id });
      steps.push({ type: "deltas", of: "text-delta", id, deltas });
      chunk({ type: "text-end", id });
    } else if (has(part, "thinking")) {
      const deltas = listOf(part.thinking);
      const id = `thinking_${index}`;
      characters.reasoning += lengthOf(deltas);
      chunk({ type: "reasoning-start", id });
      steps.push({ type: "deltas", of: "reasoning-delta", id, deltas });
      chunk({ type: "reasoning-end", id });
    } else if (has(part, "call")) {
      // From the prompt, not from a counter: the same request gives the same id in any process, and a
      // later request of the same conversation another one.
      const id = part.id ?? `scripted_${request.assistantCount}_${calls}`;
      const input = argumentsOf(part);
      calls += 1;
      characters.text += input.length;
      chunk({ type: "tool-input-start", id, toolName: part.call });
      steps.push({ type: "deltas", of: "tool-input-delta", id, deltas: part.deltas ?? [input] });
      chunk({ type: "tool-input-end", id });
      chunk({ type: "tool-call", toolCallId: id, toolName: part.call, input });
    } else if (has(part, "source")) chunk({ type: "source", ...part.source });
    else if (has(part, "file")) chunk({ type: "file", ...part.file });
    else if (has(part, "chunk")) {
      if (part.chunk.type === "tool-call") calls += 1;
      chunk(part.chunk);
    } else if (has(part, "usage")) usage = part.usage;
    else if (has(part, "finish")) finish = part.finish;
    else if (has(part, "error")) steps.push({ type: "error", error: part.error });
    else if (has(part, "delayMs")) steps.push({ type: "delay", ms: part.delayMs });
    else if (has(part, "hang")) steps.push({ type: "hang" });
    else throw unknownPart(part, index);
  }
  const unified = finish ?? (calls > 0 ? "tool-calls" : "stop");
  return {
    steps,
    finish: {
      finishReason: { unified, raw: unified },
      usage: usageOf(usage, characters, request),
    },
  };
}

/** Narrows by the key that names a part's kind. */
function has<Part extends object, Key extends PropertyKey>(
  part: Part,
  key: Key,
): part is Extract<Part, Record<Key, unknown>> {
  return typeof part === "object" && part !== null && key in part;
}

function listOf(text: string | readonly string[]): readonly string[] {
  return typeof text === "string" ? [text] : text;
}

function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

function argumentsOf(part: ScriptedCall): string {
  if (part.raw !== undefined) return part.raw;
  if (part.input !== undefined) return JSON.stringify(part.input);
  return part.deltas?.join("") ?? "{}";
}

function usageOf(
  given: ScriptedUsage["usage"],
  characters: { readonly text: number; readonly reasoning: number },
  request: Pick<ScriptedRequest, "prompt">,
): LanguageModelV4Usage {
  const reasoning = given.reasoningTokens ?? tokens(characters.reasoning);
  const output = given.outputTokens ?? tokens(characters.text) + reasoning;
  const input = given.inputTokens ?? tokens(promptLength(request.prompt));
  const cached = given.cachedInputTokens ?? 0;
  return {
    inputTokens: { total: input, noCache: input - cached, cacheRead: cached, cacheWrite: 0 },
    outputTokens: { total: output, text: output - reasoning, reasoning },
  };
}

function tokens(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}

/** The characters of text in a prompt. Structured values do not count: to encode them would cost every request of a long conversation. */
function promptLength(prompt: LanguageModelV4CallOptions["prompt"]): number {
  let length = 0;
  for (const message of prompt) {
    if (message.role === "system") {
      length += message.content.length;
      continue;
    }
    for (const part of message.content) {
      if (part.type === "text" || part.type === "reasoning") length += part.text.length;
      else if (part.type === "tool-result" && part.output.type === "text") {
        length += part.output.value.length;
      }
    }
  }
  return length;
}

function unknownPart(part: unknown, index: number): RivuletError<"invalid_script"> {
  const shape =
    typeof part === "object" && part !== null
      ? `an object with ${Object.keys(part).join(", ") || "no keys"}`
      : String(part);
  return new RivuletError("invalid_script", `Part ${index} of a scripted turn is ${shape}.`, {
    hint: "A part is a string or an object with one of: text, thinking, call, source, file, chunk, usage, finish, error, delayMs, hang.",
  });
}
