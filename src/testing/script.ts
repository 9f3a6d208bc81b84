import type {
  LanguageModelV4CallOptions,
  LanguageModelV4File,
  LanguageModelV4FinishReason,
  LanguageModelV4Source,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import { RivuletError } from "../base/error.ts";
import { unknownField } from "../base/options.ts";

/** A part of a scripted turn. */
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

/** A text block, as one delta or several; a plain string is short for it. */
export interface ScriptedText {
  readonly text: string | readonly string[];
}
/** A reasoning block, as one delta or several. */
export interface ScriptedThinking {
  readonly thinking: string | readonly string[];
}
/** A tool call; `id` defaults to one that is unique in its conversation. */
export interface ScriptedCall {
  readonly call: string;
  readonly input?: unknown;
  readonly id?: string;
  /** The arguments as text, for invalid JSON. */
  readonly raw?: string;
  /** The deltas of the arguments; joined, they are the arguments unless `input` or `raw` is set. */
  readonly deltas?: readonly string[];
}
/** A source of the answer. */
export interface ScriptedSource {
  readonly source: DistributiveOmit<LanguageModelV4Source, "type">;
}
/** A file from the model. */
export interface ScriptedFile {
  readonly file: Omit<LanguageModelV4File, "type">;
}
/** Any stream part, for cases that the other parts do not cover. */
export interface ScriptedChunk {
  readonly chunk: Exclude<LanguageModelV4StreamPart, { type: "finish" }>;
}
/** The token usage of the turn; missing fields are estimated at four characters per token. */
export interface ScriptedUsage {
  readonly usage: {
    readonly inputTokens?: number;
    readonly cachedInputTokens?: number;
    readonly outputTokens?: number;
    readonly reasoningTokens?: number;
  };
}
/** The finish reason; defaults to "tool-calls" after a call, else "stop". */
export interface ScriptedFinish {
  readonly finish: LanguageModelV4FinishReason["unified"];
}
/** An error: as the first part it rejects the request, later it breaks the stream. */
export interface ScriptedError {
  readonly error: unknown;
}
/** A pause on the model's clock. */
export interface ScriptedDelay {
  readonly delayMs: number;
}
/** Stalls until the request is aborted. */
export interface ScriptedHang {
  readonly hang: true;
}

/** One model reply: a part or several parts. */
export type ScriptedTurn = ScriptedPart | readonly ScriptedPart[];

/** A request to the model: the call options of the AI SDK and its position. */
export interface ScriptedRequest extends LanguageModelV4CallOptions {
  /** The number of earlier requests to this model. */
  readonly callIndex: number;
  /** The number of assistant messages in the prompt. */
  readonly assistantCount: number;
  readonly streaming: boolean;
}

/** A prepared turn: its steps and the final `finish`. */
export interface Play {
  readonly steps: readonly Step[];
  readonly finish: {
    readonly finishReason: LanguageModelV4FinishReason;
    readonly usage: LanguageModelV4Usage;
  };
}
/** One step of a turn. All deltas of a block are one step, which saves memory for long texts. */
export type Step =
  | { readonly type: "chunk"; readonly chunk: LanguageModelV4StreamPart }
  | DeltaStep
  | { readonly type: "delay"; readonly ms: number }
  | { readonly type: "hang" }
  | { readonly type: "error"; readonly error: unknown };
/** The deltas of one block. */
export interface DeltaStep {
  readonly type: "deltas";
  readonly of: "text-delta" | "reasoning-delta" | "tool-input-delta";
  readonly id: string;
  readonly deltas: readonly string[];
}

/** `Omit` for each member of a union. */
type DistributiveOmit<T, Key extends PropertyKey> = T extends unknown ? Omit<T, Key> : never;

const charactersPerToken = 4;

/** The kinds of parts, by the key that each must have, and the keys that each may have besides. */
const partKeys: Readonly<Record<string, readonly string[]>> = {
  text: [],
  thinking: [],
  call: ["input", "id", "raw", "deltas"],
  source: [],
  file: [],
  chunk: [],
  usage: [],
  finish: [],
  error: [],
  delayMs: [],
  hang: [],
};
const usageKeys = ["inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens"];

/** Prepares a turn; throws `invalid_script` for an unknown part, and for an unknown key of a part. */
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
    checkPart(part, index);
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
      // From the prompt, not a counter, so that the same request gives the same id in any process.
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
    else steps.push({ type: "hang" });
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

/** Whether a part has the key of a kind. */
function has<Part extends object, Key extends PropertyKey>(
  part: Part,
  key: Key,
): part is Extract<Part, Record<Key, unknown>> {
  return key in part;
}

/** Throws `invalid_script` unless a part is a string or has one kind and the keys of that kind. */
function checkPart(part: unknown, index: number): void {
  if (typeof part === "string") return;
  const keys = typeof part === "object" && part !== null ? Object.keys(part) : [];
  const kind = Object.keys(partKeys).find((key) => keys.includes(key));
  if (kind === undefined) throw unknownPart(part, index);
  const owner = `Part ${index} of a scripted turn`;
  checkKeys(`${owner} (${kind})`, keys, [kind, ...(partKeys[kind] as readonly string[])]);
  if (kind === "usage")
    checkKeys(`${owner} (usage)`, Object.keys((part as ScriptedUsage).usage), usageKeys);
}

function checkKeys(owner: string, keys: readonly string[], names: readonly string[]): void {
  const unknown = keys.find((key) => !names.includes(key));
  if (unknown === undefined) return;
  const { message, hint } = unknownField(owner, unknown, names);
  const isKind = Object.hasOwn(partKeys, unknown);
  throw new RivuletError("invalid_script", message, {
    hint: isKind ? `Pass { ${unknown} } as a part of its own, in an array.` : `${hint}`,
  });
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

/** The number of text characters in a prompt, without structured values, which are slow to encode. */
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
  return new RivuletError(
    "invalid_script",
    `Part ${index} of a scripted turn must be a string or a known part, got ${shape}.`,
    {
      hint: `Pass a string or an object with one of: ${Object.keys(partKeys).join(", ")}.`,
    },
  );
}
