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
  readonly wallMs?: number;
}

/** The reason for stopping a task whose time is used up: the task ends incomplete, without an error. */
export class TimeUsedUp extends Error {
  override readonly name = "TimeUsedUp";
}

/** Throws if a budget limits the cost and no price counts towards it. */
export function checkBudget(budget: Budget | undefined, hasPrice: boolean): void {
  if (budget?.cost === undefined || hasPrice) return;
  throw invalid("`budget.cost` requires `price`.", "Pass `price: (usage, model) => …`.");
}

const limitNames = ["tokens", "cost", "iterations", "wallMs"] as const satisfies (keyof Budget)[];

/** Counts what a subtree uses of its budget; a child with its own budget counts on both meters. */
export class BudgetMeter {
  readonly #budget: Budget;
  readonly #clock: Pick<Clock, "now">;
  readonly #parent: BudgetMeter | undefined;
  readonly #startedAt: number;
  readonly #used: Record<"tokens" | "cost" | "iterations", number>;

  /** `used` is what the log says about earlier work, which the parent has counted already. */
  constructor(budget: Budget, clock: Pick<Clock, "now">, used: Used, parent?: BudgetMeter) {
    this.#budget = budget;
    this.#clock = clock;
    this.#parent = parent;
    this.#startedAt = clock.now() - (used.wallMs ?? 0);
    this.#used = { ...used };
  }

  /** Counts one model call, or a failed attempt at it. */
  add(usage: Usage, cost: number, iterations = 1): void {
    this.#used.tokens += usage.total_tokens;
    this.#used.cost += cost;
    this.#used.iterations += iterations;
    this.#parent?.add(usage, cost, iterations);
  }

  /** The time worked, including earlier work. */
  get wallMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** What is left of each limit, here and in all parents; undefined without a limit. */
  get left(): Budget | undefined {
    const { tokens, cost, iterations } = this.#used;
    const used = { tokens, cost: rounded(cost), iterations, wallMs: this.wallMs };
    const left: Mutable<Budget> = { ...this.#parent?.left };
    for (const name of limitNames) {
      const { [name]: limit } = this.#budget;
      if (limit === undefined) continue;
      left[name] = Math.min(Math.max(0, rounded(limit - used[name])), left[name] ?? limit);
    }
    return Object.keys(left).length > 0 ? left : undefined;
  }

  /** The time left, here and in all parents. */
  get leftMs(): number {
    return this.left?.wallMs ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the next model call would exceed a limit. */
  get isUsedUp(): boolean {
    return Object.values(this.left ?? {}).includes(0);
  }
}

/** The usage of a task and its descendants; `calls` counts the model calls per task. */
export function usedBy(tree: Tree, taskId: string, calls: ReadonlyMap<string, number>): Used {
  const used = { tokens: 0, cost: 0, iterations: 0 };
  for (const { id, usage, cost } of subtreeOf(tree, taskId)) {
    used.tokens += usage?.total_tokens ?? 0;
    used.cost += Number(cost?.amount ?? 0);
    used.iterations += calls.get(id) ?? 0;
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
