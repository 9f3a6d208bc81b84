import type { Budget } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import { addAmounts } from "../../protocol/cost.ts";
import { RivuletError, reasonOf } from "../../protocol/error.ts";
import { invalid } from "../../protocol/options.ts";
import { subtreeOf } from "../../protocol/select.ts";
import type { Cost, Tree, Usage } from "../../protocol/task.ts";
import { isRecord } from "./plain.ts";

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

  /** Counts one model call. */
  add(usage: Usage, cost: number): void {
    this.#used.tokens += usage.total_tokens;
    this.#used.cost += cost;
    this.#used.iterations += 1;
    this.#parent?.add(usage, cost);
  }

  /** The time worked, including earlier work. */
  get wallMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** The time left, here and in all parents. */
  get leftMs(): number {
    const { wallMs = Number.POSITIVE_INFINITY } = this.#budget;
    return Math.min(wallMs - this.wallMs, this.#parent?.leftMs ?? Number.POSITIVE_INFINITY);
  }

  /** What is left of each limit, here and in all parents; undefined without a limit. */
  get left(): Budget | undefined {
    const { tokens, cost, iterations } = this.#budget;
    const above = this.#parent?.left;
    const least = (limit: number | undefined, used: number, other: number | undefined) =>
      Math.max(0, Math.min(limit === undefined ? Infinity : limit - used, other ?? Infinity));
    const left = {
      tokens: least(tokens, this.#used.tokens, above?.tokens),
      cost: rounded(least(cost, this.#used.cost, above?.cost)),
      iterations: least(iterations, this.#used.iterations, above?.iterations),
      wallMs: Math.max(0, this.leftMs),
    };
    const limited = Object.entries(left).filter(([, amount]) => amount !== Infinity);
    return limited.length > 0 ? (Object.fromEntries(limited) as Budget) : undefined;
  }

  /** Whether the next model call would exceed a limit. */
  get isUsedUp(): boolean {
    const { tokens, cost, iterations, wallMs } = this.#budget;
    return (
      (tokens !== undefined && this.#used.tokens >= tokens) ||
      (cost !== undefined && rounded(this.#used.cost) >= cost) ||
      (iterations !== undefined && this.#used.iterations >= iterations) ||
      (wallMs !== undefined && this.wallMs >= wallMs) ||
      (this.#parent?.isUsedUp ?? false)
    );
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
  const { amount, currency } = isRecord(money) ? money : {};
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
