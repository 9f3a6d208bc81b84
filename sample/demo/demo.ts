import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { RivuletError } from "../../src/base/error.ts";

import { catalogue } from "./catalogue.ts";
import { checkClaims } from "./critic.ts";
import {
  askForEnglish,
  callMatchingTool,
  chat,
  introduceSelf,
  summarizeFindings,
  unableToHelp,
} from "./fallback.ts";
import { lead } from "./lead.ts";
import { research } from "./research.ts";
import { type Move, type View, viewOf } from "./view.ts";
import { compose } from "./writer.ts";

const charactersPerToken = 4;
const pauseMs = 15;

/** In order of precedence: the first role that fits the tools and the question makes the move. */
const roles: readonly ((view: View) => Move | undefined)[] = [
  introduceSelf,
  chat,
  askForEnglish,
  summarizeFindings,
  lead,
  checkClaims,
  catalogue,
  compose,
  research,
  callMatchingTool,
];

/** Creates the built-in model `analyst`: a deterministic, stateless program that needs no API key and no network. */
export function demoModel(
  modelId: string,
  { clock = systemClock }: { readonly clock?: Pick<Clock, "sleep"> } = {},
): LanguageModelV4 {
  if (modelId !== "analyst") {
    throw new RivuletError("invalid_model", `There is no demo model "${modelId}".`, {
      hint: 'Use "demo:analyst".',
    });
  }
  return {
    specificationVersion: "v4",
    provider: "demo",
    modelId,
    supportedUrls: { "*/*": [/.*/] }, // the model ignores files, so the SDK need not download any
    async doGenerate(options) {
      return { ...answer(options), warnings: [] };
    },
    async doStream(options) {
      const { content, ...end } = answer(options);
      const parts: readonly LanguageModelV4StreamPart[] = [
        { type: "stream-start", warnings: [] },
        ...content.flatMap(streamParts),
        { type: "finish", ...end },
      ];
      return { stream: pacedStream(parts, clock, options.abortSignal) };
    },
  };
}

function answer(options: LanguageModelV4CallOptions) {
  options.abortSignal?.throwIfAborted();
  const move = nextMove(viewOf(options));
  const turn = options.prompt.filter(({ role }) => role === "assistant").length;
  const unified = move.calls === undefined ? ("stop" as const) : ("tool-calls" as const);
  return {
    content: contentOf(move, turn),
    finishReason: { unified, raw: unified },
    usage: usageOf(options, move),
  };
}

function nextMove(view: View): Move {
  for (const role of roles) {
    const move = role(view);
    if (move !== undefined) return move;
  }
  return unableToHelp;
}

type OutputPart = Extract<LanguageModelV4Content, { type: "reasoning" | "text" | "tool-call" }>;

function contentOf({ thinking, text, calls = [] }: Move, turn: number): OutputPart[] {
  return [
    ...(thinking === undefined ? [] : [{ type: "reasoning" as const, text: thinking }]),
    ...(text === undefined ? [] : [{ type: "text" as const, text }]),
    ...calls.map(({ name, input }, index) => ({
      type: "tool-call" as const,
      // Deterministic, and unique within the conversation.
      toolCallId: `demo_${turn}_${index}`,
      toolName: name,
      input: JSON.stringify(input),
    })),
  ];
}

function streamParts(part: OutputPart, index: number): readonly LanguageModelV4StreamPart[] {
  if (part.type === "tool-call") {
    const { toolCallId: id, toolName, input } = part;
    return [
      { type: "tool-input-start", id, toolName },
      ...splitWords(input, 4).map((delta) => ({ type: "tool-input-delta" as const, id, delta })),
      { type: "tool-input-end", id },
      part,
    ];
  }
  const { type, text } = part;
  const id = `${index}`;
  return [
    { type: `${type}-start`, id },
    ...splitWords(text, 1).map((delta) => ({ type: `${type}-delta` as const, id, delta })),
    { type: `${type}-end`, id },
  ];
}

function splitWords(text: string, size: number): readonly string[] {
  const words = text.split(/(?<=\s)(?=\S)/);
  const count = text === "" ? 0 : Math.ceil(words.length / size);
  return Array.from({ length: count }, (_, index) =>
    words.slice(index * size, (index + 1) * size).join(""),
  );
}

function pacedStream(
  parts: readonly LanguageModelV4StreamPart[],
  clock: Pick<Clock, "sleep">,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  const cancelled = new AbortController();
  const stop = signal ? AbortSignal.any([signal, cancelled.signal]) : cancelled.signal;
  let position = 0;
  return new ReadableStream<LanguageModelV4StreamPart>({
    async pull(controller) {
      const part = parts[position++];
      if (part === undefined) return controller.close();
      if ("delta" in part) await clock.sleep(pauseMs, stop);
      stop.throwIfAborted();
      controller.enqueue(part);
    },
    cancel: () => cancelled.abort(),
  });
}

function usageOf({ prompt }: LanguageModelV4CallOptions, move: Move): LanguageModelV4Usage {
  const input = tokensIn(prompt);
  const reasoning = tokensIn(move.thinking ?? "");
  const text = tokensIn(move.text ?? "") + tokensIn(move.calls ?? "");
  return {
    inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: text + reasoning, text, reasoning },
  };
}

function tokensIn(value: unknown): number {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return Math.ceil(text.length / charactersPerToken);
}
