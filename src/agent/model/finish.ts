import type {
  LanguageModelV2FinishReason,
  LanguageModelV2Usage,
  LanguageModelV3FinishReason,
  LanguageModelV3Usage,
  LanguageModelV4FinishReason,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { Usage } from "../../protocol/task.ts";
import type { FinishReason } from "./turn.ts";

type AnyFinishReason =
  | LanguageModelV2FinishReason
  | LanguageModelV3FinishReason
  | LanguageModelV4FinishReason;
type AnyUsage = LanguageModelV2Usage | LanguageModelV3Usage | LanguageModelV4Usage;

/** Tokens before anybody has counted. */
export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/**
 * Why a model stopped. `cut`: the stream ended and the provider never said why, so what came may be half of it. `error`:
 * the provider gave up.
 */
export function finishReasonOf(
  reason: AnyFinishReason | undefined,
): FinishReason | "cut" | "error" {
  if (typeof reason === "string") return reason === "unknown" ? "cut" : reason;
  if (reason === undefined) return "cut";
  const { unified, raw } = reason;
  if (unified === "interrupted") return "cut";
  // What adapters report that have no word for an end without a reason.
  if (unified === "other" && raw === undefined) return "cut";
  return unified;
}

/** The tokens of a turn in our words; what the provider did not count is zero or left out. */
export function usageOf(usage: AnyUsage | undefined): Usage {
  if (usage === undefined || usage === null) return noUsage;
  if (isNested(usage)) {
    const { inputTokens, outputTokens } = usage;
    return tokens(
      inputTokens.total,
      outputTokens.total,
      undefined,
      inputTokens.cacheRead,
      outputTokens.reasoning,
    );
  }
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens, reasoningTokens } = usage;
  return tokens(inputTokens, outputTokens, totalTokens, cachedInputTokens, reasoningTokens);
}

function isNested(usage: AnyUsage): usage is LanguageModelV3Usage | LanguageModelV4Usage {
  return typeof usage.inputTokens === "object" && typeof usage.outputTokens === "object";
}

function tokens(...counts: readonly (number | undefined)[]): Usage {
  const [input = 0, output = 0, total = input + output, cached, reasoning] = counts.map(counted);
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total,
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}

/** A count that is none was not counted. */
function counted(count: number | undefined): number | undefined {
  return Number.isFinite(count) && (count as number) >= 0 ? count : undefined;
}
