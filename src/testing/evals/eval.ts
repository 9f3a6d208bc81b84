import { readFile } from "node:fs/promises";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Fields, invalid, readArgument, readOptions } from "../../base/options.ts";
import type { Awaitable } from "../../base/time.ts";
import { type Agent, agentField, type InputMessage } from "../../contract/index.ts";
import type { Scorer } from "./scorers.ts";

/** One question of an eval. */
export interface EvalCase {
  /** Tells the case apart in reports. */
  readonly name: string;
  readonly input: string | InputMessage | readonly InputMessage[];
  /** The value that scorers compare the reply with. */
  readonly expected?: unknown;
  /** Plain data for scorers. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Several cases, which may arrive over time. */
export type EvalCases = Iterable<EvalCase> | AsyncIterable<EvalCase>;

/** Limits on all runs and judges of an eval together: when one is reached, no other cell starts. */
export interface EvalBudget {
  readonly tokens?: number;
  /** The amount in the currency of `price`, which each agent needs for it. */
  readonly cost?: number;
  /** The time of one `runEval`. */
  readonly wallMs?: number;
}

/** The options of `defineEval`. */
export interface EvalOptions {
  readonly name: string;
  /** The agent that answers the cases. */
  readonly agent?: Agent;
  /** Instead of `agent`: several agents side by side, by name, with other models or prompts. */
  readonly variants?: Readonly<Record<string, Agent>>;
  /** The cases, a function that returns them, or a file with a JSON array or with a line of JSON for each case. */
  readonly cases: readonly EvalCase[] | (() => Awaitable<EvalCases>) | string | URL;
  /** The scorers, by the name of what they measure. */
  readonly scorers: Readonly<Record<string, Scorer>>;
  /** How often each variant answers each case; defaults to 1. */
  readonly repeats?: number;
  /** How many cells run at a time; defaults to 4. */
  readonly concurrency?: number;
  readonly budget?: EvalBudget;
  /** How often a cell runs again after a retryable failure; defaults to 1. */
  readonly retries?: number;
  /** Change it to run cells again that have ended, for example after a change of a tool. */
  readonly version?: string;
}

/** A checked eval, which `runEval`, `evalSuite` and `rivulet eval` run. */
export interface Eval
  extends Required<Omit<EvalOptions, "agent" | "cases" | "version" | "budget" | "variants">> {
  readonly variants: ReadonlyMap<string, Agent>;
  readonly budget: EvalBudget;
  readonly version: string;
  readonly loadCases: () => Promise<readonly EvalCase[]>;
}

const budgetFields: Fields<EvalBudget> = {
  tokens: is.amount,
  cost: is.amount,
  wallMs: is.amount,
};
const evalFields: Fields<EvalOptions> = {
  name: is.required(is.name, '"capitals"'),
  agent: agentField,
  variants: is.recordOf(agentField),
  cases: is.required({
    fits: (value) =>
      Array.isArray(value) ||
      typeof value === "function" ||
      (typeof value === "string" && value !== "") ||
      value instanceof URL,
    expected: "an array, a function, or the path of a file",
  }),
  scorers: is.required(is.recordOf(is.callback), "{ exact: exact() }"),
  repeats: is.count,
  concurrency: is.count,
  budget: is.options(budgetFields),
  retries: is.integer(0),
  version: is.name,
};
const caseFields: Fields<EvalCase> = {
  name: is.required(is.name, '"France"'),
  input: is.required({
    fits: (value) => typeof value === "string" || (typeof value === "object" && value !== null),
    expected: "a text or messages",
  }),
  expected: is.anything,
  metadata: is.data,
};

const evals = new WeakSet<object>();

/** Checks the options of an eval; throws `invalid_settings`. */
export function defineEval(given: EvalOptions): Eval {
  const options = readOptions("defineEval()", given, evalFields);
  const { agent, variants, cases, ...rest } = options;
  if ((agent === undefined) === (variants === undefined))
    throw invalid(
      "An eval takes `agent` or `variants`.",
      "Pass one agent, or several by name as variants: { small, large }.",
    );
  const agents = new Map(Object.entries(variants ?? { [agent?.name ?? ""]: agent as Agent }));
  if (agents.size === 0) throw invalid("`variants` is empty.", "Pass an agent.");
  if (Object.keys(rest.scorers).length === 0)
    throw invalid("`scorers` is empty.", "Pass scorers: { exact: exact() }.");
  const defaults = { repeats: 1, concurrency: 4, retries: 1, budget: {}, version: "" };
  const loadCases = () => readCases(cases);
  const checked: Eval = Object.freeze({ ...defaults, ...rest, variants: agents, loadCases });
  evals.add(checked);
  return checked;
}

/** Whether a value comes from `defineEval`. */
export function isEval(value: unknown): value is Eval {
  return typeof value === "object" && value !== null && evals.has(value);
}

/** The rule for an eval. */
export const evalField = is.required({ fits: isEval, expected: "an eval of defineEval()" });

/** Reads and checks all cases; two cases cannot have one name. */
async function readCases(source: EvalOptions["cases"]): Promise<readonly EvalCase[]> {
  const given =
    typeof source === "function"
      ? await source()
      : typeof source === "string" || source instanceof URL
        ? await readCaseFile(source)
        : source;
  readArgument("cases", given, iterable);
  const cases: EvalCase[] = [];
  for await (const one of given)
    cases.push(readOptions(`Case ${cases.length + 1}`, one, caseFields));
  if (cases.length === 0) throw invalid("An eval has no cases.", "Pass at least one case.");
  const names = new Set<string>();
  for (const { name } of cases) {
    if (names.has(name))
      throw invalid(
        `Two cases have the name ${JSON.stringify(name.slice(0, 100))}.`,
        "Give each case its own name.",
      );
    names.add(name);
  }
  return cases;
}

const iterable: is.Field = is.required({
  fits: (value) =>
    typeof value === "object" &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value),
  expected: "an array or an iterable of cases",
});

async function readCaseFile(file: string | URL): Promise<EvalCases> {
  try {
    const text = await readFile(file, "utf8");
    if (text.trimStart().startsWith("[")) return JSON.parse(text) as EvalCase[];
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.map((line) => JSON.parse(line) as EvalCase);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RivuletError("invalid_cases", `${file} has no cases that can be read: ${reason}`, {
      hint: "Write a JSON array, or one JSON object per line, each with `name` and `input`.",
      cause,
    });
  }
}
