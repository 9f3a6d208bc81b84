import type { Budget } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Usage } from "../protocol/task.ts";

/** What a whole subtree has used of its budget. A child with a budget of its own counts on both. */
export class BudgetMeter {
  readonly #budget: Budget;
  readonly #clock: Pick<Clock, "now">;
  readonly #parent: BudgetMeter | undefined;
  readonly #startedAt: number;
  #tokens = 0;
  #cost = 0;
  #iterations = 0;

  constructor(budget: Budget, clock: Pick<Clock, "now">, parent?: BudgetMeter) {
    this.#budget = budget;
    this.#clock = clock;
    this.#parent = parent;
    this.#startedAt = clock.now();
  }

  /** Counts one model call. */
  add(usage: Usage, cost: number): void {
    this.#tokens += usage.total_tokens;
    this.#cost += cost;
    this.#iterations += 1;
    this.#parent?.add(usage, cost);
  }

  /** Whether the next model call would go beyond a limit. */
  get isUsedUp(): boolean {
    const { tokens, cost, iterations, wallMs } = this.#budget;
    return (
      (tokens !== undefined && this.#tokens >= tokens) ||
      (cost !== undefined && this.#cost >= cost) ||
      (iterations !== undefined && this.#iterations >= iterations) ||
      (wallMs !== undefined && this.#clock.now() - this.#startedAt >= wallMs) ||
      (this.#parent?.isUsedUp ?? false)
    );
  }
}
