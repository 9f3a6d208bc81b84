import type { Budget } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Tree, Usage } from "../protocol/task.ts";

/** What model calls have used up. */
export interface Used {
  readonly tokens: number;
  readonly cost: number;
  readonly iterations: number;
}

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
    this.#startedAt = clock.now();
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
