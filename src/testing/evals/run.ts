import { settingsBehind } from "../../agent/index.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import * as is from "../../base/options.ts";
import { type Fields, invalid, readArgument, readOptions } from "../../base/options.ts";
import type { Store } from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import { openStore, storeField } from "../../store/index.ts";
import type { ContractCase } from "../contract.ts";
import { attemptId, type CellPlan, type EvalRun, planCells, runCell } from "./cell.ts";
import { type Eval, evalField } from "./eval.ts";
import { type EvalCell, type EvalReport, isError, problemsOf, reportOf, sumOf } from "./report.ts";

/** How far an eval is. */
export interface EvalProgress {
  readonly done: number;
  readonly total: number;
  /** The cell that has ended. */
  readonly cell: EvalCell;
}

/** Where and how an eval runs. */
export interface RunEvalOptions {
  /** Holds the runs, from which an interrupted eval continues; defaults to the store of the first agent. */
  readonly store?: Store | string;
  /** When it aborts, no other cell starts; those that run end. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: EvalProgress) => void;
  /** Overrides that of the eval. */
  readonly concurrency?: number;
  /** True: runs that an earlier call has left failed get one more attempt. */
  readonly retryFailed?: boolean;
  readonly clock?: Clock;
}

/** How the tests of an eval run, and when they fail. */
export interface EvalSuiteOptions extends Pick<RunEvalOptions, "store" | "retryFailed"> {
  /** The lowest score of a cell that passes; defaults to 1. */
  readonly failBelow?: number;
}

const storeFields = { store: storeField, retryFailed: is.flag };
const runFields: Fields<RunEvalOptions> = {
  ...storeFields,
  signal: is.signal,
  onProgress: is.callback,
  concurrency: is.count,
  clock: is.clock,
};
const share = is.number("a number from 0 to 1", (value) => value >= 0 && value <= 1);
const suiteFields: Fields<EvalSuiteOptions> = { ...storeFields, failBelow: share };

/**
 * Runs the cells of an eval that have not ended, continues those that an earlier process has begun, and scores them all.
 */
export async function runEval(given: Eval, options: RunEvalOptions = {}): Promise<EvalReport> {
  readArgument("eval", given, evalField);
  const read = readOptions("runEval()", options, runFields);
  const { signal, onProgress, concurrency = given.concurrency, clock = systemClock } = read;
  const { run, plans } = await prepare(given, read);
  const queue = await endedFirst(run.store, plans);
  const spending = new Spending(given, clock);
  const cells = new Map<CellPlan, EvalCell>();
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { plan, hasEnded } = next;
      const limit = signal?.aborted ? "The eval was stopped." : spending.limit();
      const cell = hasEnded || limit === undefined ? await runCell(run, plan) : notRun(plan, limit);
      spending.add(cell);
      cells.set(plan, cell);
      onProgress?.({ done: cells.size, total: plans.length, cell });
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  const inOrder = plans.flatMap((plan) => cells.get(plan) ?? []);
  return reportOf(given.name, Object.keys(given.scorers), inOrder);
}

/** The tests of an eval for any test runner, one for each cell; a failure tells its scores. */
export async function evalSuite(
  given: Eval,
  options: EvalSuiteOptions = {},
): Promise<readonly ContractCase[]> {
  readArgument("eval", given, evalField);
  const read = readOptions("evalSuite()", options, suiteFields);
  const { failBelow = 1 } = read;
  const { run, plans } = await prepare(given, read);
  return plans.map((plan) => {
    const { case: one, variant, repeat } = plan;
    const name = given.repeats > 1 ? `${one.name} (${repeat})` : one.name;
    return {
      group: variant,
      name,
      async run() {
        const cell = await runCell(run, plan);
        if (!isError(cell) && (cell.score ?? 0) >= failBelow) return undefined;
        throw new Error(`${given.name}: ${variant} on ${name}\n${problemsOf(cell).join("\n")}`);
      },
    };
  });
}

async function prepare(
  given: Eval,
  { store: named, retryFailed = false }: Pick<RunEvalOptions, "store" | "retryFailed">,
): Promise<{ readonly run: EvalRun; readonly plans: readonly CellPlan[] }> {
  const [first] = given.variants.values();
  const store = named ?? (first && settingsBehind(first)?.store) ?? "memory";
  const run: EvalRun = { eval: given, store: openStore(store), retryFailed };
  return { run, plans: planCells(given, await given.loadCases(), run.store) };
}

/** Cells that have ended come first, so that what they used counts before others start. */
async function endedFirst(store: Store, plans: readonly CellPlan[]) {
  const cells = [];
  for (const plan of plans) {
    const record = await store.task(attemptId(plan.id, 0));
    cells.push({ plan, hasEnded: record !== undefined && isTerminal(record.status) });
  }
  return cells.sort((one, other) => Number(other.hasEnded) - Number(one.hasEnded));
}

/** The part of its budget that an eval has used. */
class Spending {
  readonly #budget: Eval["budget"];
  readonly #clock: Clock;
  readonly #startedAt: number;
  #tokens = 0;
  #cost = 0;

  constructor({ budget, variants }: Eval, clock: Clock) {
    this.#budget = budget;
    this.#clock = clock;
    this.#startedAt = clock.now();
    const unpriced = [...variants].find(([, agent]) => !settingsBehind(agent)?.price);
    if (budget.cost !== undefined && unpriced)
      throw invalid(
        `\`budget.cost\` needs prices, and ${unpriced[0]} has none.`,
        "Set `price` of each agent.",
      );
  }

  add({ bill, judging }: EvalCell): void {
    const { usage, costs } = sumOf([bill, judging]);
    this.#tokens += usage.total_tokens;
    for (const { amount } of costs) this.#cost += Number(amount);
  }

  /** The limit that is reached. */
  limit(): string | undefined {
    const { tokens = Infinity, cost = Infinity, wallMs = Infinity } = this.#budget;
    const name =
      this.#tokens >= tokens
        ? "tokens"
        : this.#cost >= cost
          ? "cost"
          : this.#clock.now() - this.#startedAt >= wallMs
            ? "wallMs"
            : undefined;
    return name && `The budget of the eval is used up: ${name}.`;
  }
}

function notRun({ case: { name }, variant, repeat }: CellPlan, reason: string): EvalCell {
  const nothing = { scores: {}, bill: sumOf([]), judging: sumOf([]), ms: 0 };
  return { case: name, variant, repeat, status: "not_run", reason, ...nothing };
}
