/** The kinds of agents that a parent can call on. */
export type Kind = "alpha" | "beta" | "short" | "general-purpose";

/** How a parent waits for a child: to its end, not at all, or until its time runs out. */
export type Wait = "sync" | "background" | "promoted";

/** A call that a model will make; `key` is its own and tells it from every other call of the tree. */
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

/** One reply of a model: how many turns of the event loop it takes, and what it calls. */
export interface TurnPlan {
  readonly pause: number;
  readonly calls: readonly CallPlan[];
}

/** What an agent will do with one task. Its key is that of the call that starts it. */
export interface TaskPlan {
  readonly key: string;
  readonly kind: Kind | "lead";
  readonly turns: readonly TurnPlan[];
  readonly end: "say" | "fail";
}

/** A conversation: what its root is asked one after the other, and what people do meanwhile. Plain data. */
export interface Plan {
  readonly seed: number;
  readonly roots: readonly TaskPlan[];
  /** Whether the root's calls run side by side. */
  readonly parallel: boolean;
  /** Whether questions are answered as soon as they are asked, or only once the root rests. */
  readonly answers: "at once" | "at rest";
  /** Whether all that waits is answered in one call. */
  readonly together: boolean;
  /** False: the root is asked again while background work goes on. */
  readonly settles: boolean;
  /** The first root task is cancelled when its log has this many events. */
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

/** A child's own mark: everything it says has it, so that what is said tells who said it. */
export function markOf(key: string): string {
  return `⟨${key}⟩`;
}

/** The keys of all marks in a text. */
export function marksIn(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(/⟨([^⟩]*)⟩/g)].map(([, key = ""]) => key));
}

/** What a task comes to when nobody cancels it. */
export function plannedStatus({ kind, turns, end }: TaskPlan) {
  if (kind === "short" && turns.length > 0) return "incomplete";
  return end === "fail" ? "failed" : "completed";
}

/** A plan as an outline, for the report of a failure. */
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
