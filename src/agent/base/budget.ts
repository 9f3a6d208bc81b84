import type { Clock } from "../../base/clock.ts";
import { RivuletError, reasonOf } from "../../base/error.ts";
import { invalid } from "../../base/options.ts";
import { isObject } from "../../base/plain.ts";
import type { Budget } from "../../contract/index.ts";
import {
  addAmounts,
  type Cost,
  type Mutable,
  subtreeOf,
  type Tree,
  type Usage,
} from "../../protocol/index.ts";

/** An amount in one currency. */
export interface Money {
  readonly amount: number;
  readonly currency: string;
}

/** The part of a budget that model calls have used. */
export interface Used {
  readonly tokens: number;
  readonly cost: number;
  readonly iterations: number;
  /** How many tasks were started, the task itself included. */
  readonly agents?: number;
  readonly wallMs?: number;
}

/** The reason for stopping a task whose budget is used up: the task ends incomplete, without an error. */
export class BudgetUsedUp extends Error {
  override readonly name = "BudgetUsedUp";

  constructor() {
    super("The budget of the task, or of a task above it, is used up.");
  }
}

/** Throws if a budget limits the cost and no price counts towards it. */
export function checkBudget(budget: Budget | undefined, hasPrice: boolean): void {
  if (budget?.cost === undefined || hasPrice) return;
  throw invalid("`budget.cost` requires `price`.", "Pass `price: (usage, model) => …`.");
}

/** The limits that end a task. `agents` only refuses starts: a task may work on with the agents that it has. */
const endingLimits = ["tokens", "cost", "iterations", "wallMs"] as const;
const limitNames = [...endingLimits, "agents"] as const satisfies (keyof Budget)[];

/** The lower limit of two budgets, field by field. */
export function lowerBudget(one: Budget | undefined, other: Budget | undefined): Budget {
  const lower: Mutable<Budget> = { ...one, ...other };
  for (const name of limitNames) {
    const [a, b] = [one?.[name], other?.[name]];
    if (a !== undefined && b !== undefined) lower[name] = Math.min(a, b);
  }
  return lower;
}

/** Counts what a subtree uses of its budget; a child with its own budget counts on both meters. */
export class BudgetMeter {
  #budget: Budget;
  readonly #clock: Pick<Clock, "now">;
  readonly #parent: BudgetMeter | undefined;
  #startedAt: number;
  readonly #used: Record<"tokens" | "cost" | "iterations" | "agents", number>;
  readonly #onUsedUp = new Set<() => void>();

  /** `used` is what the log says about earlier work, which the parent has counted already. */
  constructor(budget: Budget, clock: Pick<Clock, "now">, used: Used, parent?: BudgetMeter) {
    this.#budget = budget;
    this.#clock = clock;
    this.#parent = parent;
    this.#startedAt = clock.now() - (used.wallMs ?? 0);
    this.#used = { ...used, agents: Math.max(1, used.agents ?? 0) };
  }

  /** Continues for a task that is opened again: what was counted meanwhile, for its background children, stays. */
  resume(budget: Budget, workedMs: number): this {
    this.#budget = budget;
    this.#startedAt = this.#clock.now() - workedMs;
    return this;
  }

  /** Counts one model call, or a failed attempt at it. */
  add(usage: Usage, cost: number, iterations = 1): void {
    this.#used.tokens += usage.total_tokens;
    this.#used.cost += cost;
    this.#used.iterations += iterations;
    this.#parent?.add(usage, cost, iterations);
    if (this.#isOver) for (const stop of [...this.#onUsedUp]) stop();
  }

  /** Whether model calls have used up what a budget allows. */
  hasUsed(budget: Budget): boolean {
    return endingLimits.some(
      (name) => name !== "wallMs" && this.#used[name] >= (budget[name] ?? Number.POSITIVE_INFINITY),
    );
  }

  /** Counts the start of a child, unless that would exceed a limit; returns whether it may start. */
  start(): boolean {
    if (this.left?.agents === 0) return false;
    for (let meter: BudgetMeter | undefined = this; meter; meter = meter.#parent)
      meter.#used.agents += 1;
    return true;
  }

  /** Calls `stop` when model calls have used up a limit, here or in a parent; returns the function that ends it. */
  onUsedUp(stop: () => void): () => void {
    this.#onUsedUp.add(stop);
    const ignoreParent = this.#parent?.onUsedUp(stop);
    return () => {
      this.#onUsedUp.delete(stop);
      ignoreParent?.();
    };
  }

  /** The time worked, including earlier work. */
  get wallMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** What is left of each limit, here and in all parents; undefined without a limit. */
  get left(): Budget | undefined {
    const left = lowerBudget(this.#ownLeft, this.#parent?.left);
    return Object.keys(left).length > 0 ? left : undefined;
  }

  get #ownLeft(): Budget {
    const { cost } = this.#used;
    const used = { ...this.#used, cost: rounded(cost), wallMs: this.wallMs };
    const left: Mutable<Budget> = {};
    for (const name of limitNames) {
      const { [name]: limit } = this.#budget;
      if (limit !== undefined) left[name] = Math.max(0, rounded(limit - used[name]));
    }
    return left;
  }

  /** The time left, here and in all parents. */
  get leftMs(): number {
    return this.left?.wallMs ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the next model call would exceed a limit. */
  get isUsedUp(): boolean {
    return this.#isOver || this.#parent?.isUsedUp === true;
  }

  get #isOver(): boolean {
    const left = this.#ownLeft;
    return endingLimits.some((name) => left[name] === 0);
  }
}

/** The usage of a task and its descendants; `calls` counts the model calls per task. */
export function usedBy(tree: Tree, taskId: string, calls: ReadonlyMap<string, number>): Used {
  const used = { tokens: 0, cost: 0, iterations: 0, agents: 0 };
  for (const { id, usage, cost } of subtreeOf(tree, taskId)) {
    used.tokens += usage?.total_tokens ?? 0;
    used.cost += Number(cost?.amount ?? 0);
    used.iterations += calls.get(id) ?? 0;
    used.agents += 1;
  }
  return used;
}

/** The price of a model call; an invalid price throws, because a cost budget would then never be reached. */
export function priceOf(
  price: (usage: Usage, model: string) => unknown,
  usage: Usage,
  model: string,
): Money {
  let money: unknown;
  try {
    money = price(usage, model);
  } catch (error) {
    throw priceFailed(`\`price\` failed for ${model}: ${reasonOf(error)}`, error);
  }
  const { amount, currency } = isObject(money) ? money : {};
  const isAmount = typeof amount === "number" && Number.isFinite(amount) && amount >= 0;
  if (isAmount && typeof currency === "string" && currency !== "") {
    return { amount: rounded(amount), currency };
  }
  throw priceFailed(`\`price\` returned no amount of money for ${model}.`);
}

/** Adds money to a cost, in exact decimals. */
export function addCost(cost: Cost | undefined, { amount, currency }: Money): Cost {
  if (cost !== undefined && cost.currency !== currency) {
    throw priceFailed(`Prices in ${cost.currency} and ${currency} cannot be added.`);
  }
  return { amount: addAmounts(cost?.amount ?? "0", String(amount)), currency };
}

/** Rounds to 12 digits, which removes binary artefacts such as those of 0.1 + 0.2. */
export function rounded(amount: number): number {
  return Number(amount.toPrecision(12));
}

function priceFailed(message: string, cause?: unknown): RivuletError<"price_failed"> {
  return new RivuletError("price_failed", message, {
    ...(cause !== undefined && { cause }),
    hint: 'Return an object such as `{ amount: 0.002, currency: "USD" }` for every model, in one currency and not as a promise.',
  });
}
