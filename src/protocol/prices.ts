import { readInput } from "../base/argument.ts";
import { addAmounts } from "./cost.ts";
import type { Cost, Usage } from "./task.ts";

/** The prices of a million tokens of a model. */
export interface TokenPrices {
  readonly input: number;
  readonly output: number;
  /** Input from a cache; defaults to `input`. */
  readonly cachedInput?: number;
  /** Input that is written to a cache; defaults to `input`. */
  readonly cacheWrite?: number;
  /** Defaults to `USD`. */
  readonly currency?: string;
}

/**
 * Prices by model: `provider:id`, `provider/id` as events name it, or the id alone. Without the exact name, the longest
 * name that the model's name begins with counts.
 */
export type Prices = Readonly<Record<string, TokenPrices>>;

/** The day on which the list of public prices was compiled. */
export const listPricesDay = "2026-11-19";

/**
 * Public prices in USD of models whose price does not depend on the length of the prompt, as listed by
 * github.com/github/docs, data/tables/copilot/models-and-pricing.yml at 024f6b0, which passes on the prices of the
 * providers. Cache writes are those that live for five minutes.
 */
const listPrices: Prices = /* @__PURE__ */ compile({
  "openai:gpt-5-mini": [0.25, 0.025, 2],
  "openai:gpt-5.3-codex": [1.75, 0.175, 14],
  "openai:gpt-5.4-mini": [0.75, 0.075, 4.5],
  "openai:gpt-5.4-nano": [0.2, 0.02, 1.25],
  "anthropic:claude-fable-5": [10, 1, 50, 12.5],
  "anthropic:claude-haiku-4-5": [1, 0.1, 5, 1.25],
  "anthropic:claude-opus-4-5": [5, 0.5, 25, 6.25],
  "anthropic:claude-opus-4-6": [5, 0.5, 25, 6.25],
  "anthropic:claude-opus-4-7": [5, 0.5, 25, 6.25],
  "anthropic:claude-opus-4-8": [5, 0.5, 25, 6.25],
  "anthropic:claude-opus-5": [5, 0.5, 25, 6.25],
  "anthropic:claude-sonnet-4": [3, 0.3, 15, 3.75],
  "anthropic:claude-sonnet-4-5": [3, 0.3, 15, 3.75],
  "anthropic:claude-sonnet-4-6": [3, 0.3, 15, 3.75],
  "anthropic:claude-sonnet-5": [2, 0.2, 10, 2.5],
});

type Row = readonly [input: number, cachedInput: number, output: number, cacheWrite?: number];

function compile(rows: Readonly<Record<string, Row>>): Prices {
  return Object.fromEntries(
    Object.entries(rows).map(([name, [input, cachedInput, output, cacheWrite = input]]) => [
      name,
      { input, cachedInput, output, cacheWrite },
    ]),
  );
}

/** The price of calls: by the given prices, else by the list of public prices; undefined for a model that neither has. */
export function priceBy(prices: Prices = {}): (usage: Usage, model: string) => Cost | undefined {
  readInput("prices", "an object", prices, () => Object.keys(prices));
  return (usage, model) => {
    const names = namesOf(model);
    const [, , id = ""] = names;
    const listed = [names[1], names[1]?.replace(/-(\d{8}|\d{4}-\d\d-\d\d)$/, "")];
    const exact = names.find((name) => Object.hasOwn(prices, name));
    const begins = Object.keys(prices)
      .filter((key) => key !== "" && names.some((name) => name.startsWith(key)))
      .sort((one, other) => other.length - one.length);
    const own = id === "" ? undefined : (exact ?? begins[0]);
    if (own !== undefined) return costOf(usage, prices[own] as TokenPrices);
    const name = listed.find((name) => name !== undefined && Object.hasOwn(listPrices, name));
    return name === undefined ? undefined : costOf(usage, listPrices[name] as TokenPrices);
  };
}

/** The names of `openai.responses/gpt-5-mini`: itself, `openai:gpt-5-mini` and `gpt-5-mini`. */
function namesOf(model: string): readonly [string, string, string] {
  const slash = model.indexOf("/");
  const id = model.slice(slash + 1);
  const [vendor = ""] = model.slice(0, Math.max(0, slash)).split(".");
  return [model, `${vendor}:${id}`, id];
}

const perMillion = 1e-6;

function costOf(usage: Usage, prices: TokenPrices): Cost {
  const { input_tokens, output_tokens } = usage;
  const { cached_input_tokens: cached = 0, cache_write_tokens: written = 0 } = usage;
  const { input, output, cachedInput = input, cacheWrite = input, currency = "USD" } = prices;
  const fresh = Math.max(0, input_tokens - cached - written);
  const millionths =
    fresh * input + cached * cachedInput + written * cacheWrite + output_tokens * output;
  // Twelve digits have no binary artefacts, such as those of 0.1 + 0.2.
  return {
    amount: addAmounts("0", String(Number((millionths * perMillion).toPrecision(12)))),
    currency,
  };
}
