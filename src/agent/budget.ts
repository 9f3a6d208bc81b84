import type { Budget } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Tree, Usage } from "../protocol/task.ts";
import { invalid } from "./check-fields.ts";
import { isPlainObject } from "./plain.ts";
import { rounded } from "./price.ts";

/** What model calls have used up. */
export interface Used {
  readonly tokens: number;
  readonly cost: number;
  readonly iterations: number;
  /** How long it has worked. */
  readonly wallMs?: number;
}

/** Why a task stops whose time is over. No error of the run: the task ends incomplete. */
export class TimeUsedUp extends Error {
  override readonly name = "TimeUsedUp";
}

const limits: ReadonlySet<string> = new Set([
  "tokens",
  "cost",
  "wallMs",
  "iterations",
] satisfies readonly (keyof Budget)[]);

/** A limit that could never be reached, because it is no number or because nothing counts towards it, would be a trap. */
export function checkBudget(budget: unknown, hasPrice: boolean): void {
  if (budget === undefined) return;
  if (!isPlainObject(budget)) throw invalid("A budget is an object.", budgetHint);
  for (const [limit, value] of Object.entries(budget)) {
    if (!limits.has(limit)) throw invalid(`A budget has no ${JSON.stringify(limit)}.`, budgetHint);
    if (value === undefined) continue;
    if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
      throw invalid(`budget.${limit} is ${String(value)}.`, "It is a number, at least 0.");
    }
  }
  if (budget.cost === undefined || hasPrice) return;
  throw invalid("A budget of cost needs prices.", "Give the agent price: (usage, model) => …");
}

const budgetHint = `Its limits are ${[...limits].join(", ")}.`;

/** What a whole subtree has used of its budget. A child with a budget of its own counts on both. */
export class BudgetMeter {
  readonly #budget: Budget;
  readonly #clock: Pick<Clock, "now">;
  readonly #parent: BudgetMeter | undefined;
  readonly #startedAt: number;
  #tokens: number;
  #cost: number;
  #iterations: number;

  /** `used`: what its log tells of the time before; the parent has counted that by itself. */
  constructor(budget: Budget, clock: Pick<Clock, "now">, used: Used, parent?: BudgetMeter) {
    this.#budget = budget;
    this.#clock = clock;
    this.#parent = parent;
    this.#startedAt = clock.now() - (used.wallMs ?? 0);
    this.#tokens = used.tokens;
    this.#cost = used.cost;
    this.#iterations = used.iterations;
  }

  /** Counts one model call. */
  add(usage: Usage, cost: number): void {
    this.#tokens += usage.total_tokens;
    this.#cost += cost;
    this.#iterations += 1;
    this.#parent?.add(usage, cost);
  }

  /** How long it has worked, the time before included. */
  get wallMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** How much time is left, for it and for those above it. */
  get leftMs(): number {
    const { wallMs = Number.POSITIVE_INFINITY } = this.#budget;
    return Math.min(wallMs - this.wallMs, this.#parent?.leftMs ?? Number.POSITIVE_INFINITY);
  }

  /** Whether the next model call would go beyond a limit. */
  get isUsedUp(): boolean {
    const { tokens, cost, iterations, wallMs } = this.#budget;
    return (
      (tokens !== undefined && this.#tokens >= tokens) ||
      (cost !== undefined && rounded(this.#cost) >= cost) ||
      (iterations !== undefined && this.#iterations >= iterations) ||
      (wallMs !== undefined && this.wallMs >= wallMs) ||
      (this.#parent?.isUsedUp ?? false)
    );
  }
}

/** What a task and its descendants have used, by the fold of their log and the number of model calls of each. */
export function usedBy(tree: Tree, taskId: string, calls: ReadonlyMap<string, number>): Used {
  const task = tree.tasks[taskId];
  const used = {
    tokens: task?.usage?.total_tokens ?? 0,
    cost: Number(task?.cost?.amount ?? 0),
    iterations: calls.get(taskId) ?? 0,
  };
  for (const child of task?.children ?? []) {
    const more = usedBy(tree, child, calls);
    used.tokens += more.tokens;
    used.cost += more.cost;
    used.iterations += more.iterations;
  }
  return used;
}
