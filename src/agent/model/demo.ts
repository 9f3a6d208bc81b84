import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { Clock } from "../../protocol/clock.ts";
import { systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import { analyst } from "./demo/analyst.ts";
import { paced, pieces } from "./demo/stream.ts";
import { type Move, viewOf } from "./demo/view.ts";

const charactersPerToken = 4;

/**
 * A built-in model that needs no key and no network. It is a program, deterministic and without memory, and says so when
 * asked; but it does real work with the tools that it is given. There is one: `analyst`.
 */
export function demoModel(
  modelId: string,
  { clock = systemClock }: { readonly clock?: Pick<Clock, "sleep"> } = {},
): LanguageModelV4 {
  if (modelId !== "analyst") {
    throw new RivuletError("invalid_model", `There is no demo model "${modelId}".`, {
      hint: 'There is one: "demo:analyst".',
    });
  }
  return {
    specificationVersion: "v4",
    provider: "demo",
    modelId,
    supportedUrls: { "*/*": [/.*/] }, // it does not look at files, so nobody needs to fetch any
    async doGenerate(options) {
      const { content, ...end } = answer(options);
      return { content: [...content], ...end, warnings: [] };
    },
    async doStream(options) {
      const { content, ...end } = answer(options);
      const parts: readonly LanguageModelV4StreamPart[] = [
        { type: "stream-start", warnings: [] },
        ...content.flatMap(streamed),
        { type: "finish", ...end },
      ];
      return { stream: paced(parts, clock, options.abortSignal) };
    },
  };
}

function answer(options: LanguageModelV4CallOptions) {
  options.abortSignal?.throwIfAborted();
  const move = analyst(viewOf(options));
  const turn = options.prompt.filter(({ role }) => role === "assistant").length;
  const unified = move.calls === undefined ? ("stop" as const) : ("tool-calls" as const);
  return {
    content: contentOf(move, turn),
    finishReason: { unified, raw: unified },
    usage: usageOf(options, move),
  };
}

type Said = Extract<LanguageModelV4Content, { type: "reasoning" | "text" | "tool-call" }>;

function contentOf({ thinking, text, calls = [] }: Move, turn: number): readonly Said[] {
  return [
    ...(thinking === undefined ? [] : [{ type: "reasoning" as const, text: thinking }]),
    ...(text === undefined ? [] : [{ type: "text" as const, text }]),
    ...calls.map(({ name, input }, index) => ({
      type: "tool-call" as const,
      // From the prompt: the same request gives the same id, and no other of its conversation.
      toolCallId: `demo_${turn}_${index}`,
      toolName: name,
      input: JSON.stringify(input),
    })),
  ];
}

function streamed(part: Said, index: number): readonly LanguageModelV4StreamPart[] {
  const id = `${index}`;
  switch (part.type) {
    case "reasoning":
    case "text": {
      const { type } = part;
      return [
        { type: `${type}-start`, id },
        ...pieces(part.text, 1).map((delta) => ({ type: `${type}-delta` as const, id, delta })),
        { type: `${type}-end`, id },
      ];
    }
    case "tool-call": {
      const { toolCallId, toolName, input } = part;
      return [
        { type: "tool-input-start", id: toolCallId, toolName },
        ...pieces(input, 4).map((delta) => ({
          type: "tool-input-delta" as const,
          id: toolCallId,
          delta,
        })),
        { type: "tool-input-end", id: toolCallId },
        part,
      ];
    }
  }
}

function usageOf({ prompt }: LanguageModelV4CallOptions, move: Move): LanguageModelV4Usage {
  const input = tokensIn(prompt);
  const reasoning = tokensIn(move.thinking ?? "");
  const text = tokensIn(move.text ?? "") + (move.calls === undefined ? 0 : tokensIn(move.calls));
  return {
    inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: text + reasoning, text, reasoning },
  };
}

function tokensIn(value: unknown): number {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return Math.ceil(text.length / charactersPerToken);
}
