/** The subagents of every agent. */
export type Kind = "alpha" | "beta" | "short" | "general-purpose";

/** How a parent waits for a child: to its end, not at all, or until a timeout. */
export type Wait = "sync" | "background" | "promoted";

/** A planned call; `key` is unique in the tree. */
export type CallPlan =
  | { readonly type: "work" | "ask"; readonly key: string; readonly n: number }
  | { readonly type: "hold" | "stuck" | "list"; readonly key: string }
  | { readonly type: "spawn"; readonly key: string; readonly wait: Wait; readonly task: TaskPlan }
  | {
      readonly type: "send";
      readonly key: string;
      readonly wait: Wait;
      readonly task: TaskPlan;
      /** The call that spawned the child. */
      readonly to: string;
    }
  | { readonly type: "output"; readonly key: string; readonly of: string; readonly block: boolean }
  | { readonly type: "wait"; readonly key: string; readonly of: readonly string[] | "all" }
  | { readonly type: "cancel"; readonly key: string; readonly of: string };

/** A call that runs a child. */
export type ChildCall = Extract<CallPlan, { type: "spawn" | "send" }>;

/** One model reply: its duration in turns of the event loop, and its calls. */
export interface TurnPlan {
  readonly pause: number;
  readonly calls: readonly CallPlan[];
}

/** The plan of a task. Its key is that of the call that starts it. */
export interface TaskPlan {
  readonly key: string;
  readonly kind: Kind | "lead";
  readonly turns: readonly TurnPlan[];
  readonly end: "say" | "fail";
}

/** The plan of a conversation: the root tasks in order, and the answers and cancels. Plain data. */
export interface Plan {
  readonly seed: number;
  readonly roots: readonly TaskPlan[];
  /** Whether the root's calls run in parallel. */
  readonly parallel: boolean;
  /** Whether approvals are answered at once, or only when the root suspends. */
  readonly answers: "at once" | "at rest";
  /** Whether one call answers all waiting approvals. */
  readonly together: boolean;
  /** False: the next root task starts while background tasks run. */
  readonly settles: boolean;
  /** Cancels the first root task when its log has this many events. */
  readonly cancelAt?: number;
}

/** Every task of a plan by its key. */
export function tasksOf(plan: Plan): ReadonlyMap<string, TaskPlan> {
  const tasks = new Map<string, TaskPlan>();
  const visit = (task: TaskPlan) => {
    tasks.set(task.key, task);
    for (const { task: child } of childCalls(task)) visit(child);
  };
  plan.roots.forEach(visit);
  return tasks;
}

/** The calls of a task that run children, in order. */
export function childCalls(task: TaskPlan): readonly ChildCall[] {
  return callsOf(task).filter((call) => call.type === "spawn" || call.type === "send");
}

/** The calls of a task, in order. */
export function callsOf({ turns }: TaskPlan): readonly CallPlan[] {
  return turns.flatMap(({ calls }) => calls);
}

/** A mark in every text of a child that identifies the child. */
export function markOf(key: string): string {
  return `⟨${key}⟩`;
}

/** The keys of all marks in a text. */
export function marksIn(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(/⟨([^⟩]*)⟩/g)].map(([, key = ""]) => key));
}

/** The outcome of a task that is not cancelled. */
export function plannedStatus({ kind, turns, end }: TaskPlan) {
  if (kind === "short" && turns.length > 0) return "incomplete";
  return end === "fail" ? "failed" : "completed";
}

/** Formats a plan for the report of a failure. */
export function outlineOf(plan: Plan): string {
  const { roots, ...rest } = plan;
  const lines = [JSON.stringify(rest)];
  const visit = (task: TaskPlan, indent: string) => {
    for (const [turn, { pause, calls }] of task.turns.entries()) {
      lines.push(`${indent}turn ${turn} after ${pause}`);
      for (const call of calls) {
        const { type, key, ...facts } = call;
        const { task: child, ...own } = { task: undefined, ...facts };
        const kind = child ? ` ${child.kind} →` : "";
        lines.push(`${indent}  ${key}: ${type}${kind} ${JSON.stringify(own)}`);
        if (child) visit(child, `${indent}    `);
      }
    }
    lines.push(`${indent}${task.end}s`);
  };
  for (const root of roots) {
    lines.push(`${root.key}:`);
    visit(root, "  ");
  }
  return lines.join("\n");
}
