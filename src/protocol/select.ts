import type { ApprovalState, Item, Task, Tree, Usage } from "./task.ts";

/** A task by its id, whatever anybody chose to call it: what every object inherits is no task. */
export function taskOf(tree: Tree, taskId: string | undefined): Task | undefined {
  if (taskId === undefined || !Object.hasOwn(tree.tasks, taskId)) return undefined;
  return tree.tasks[taskId];
}

/** The root's task. */
export function rootTask(tree: Tree): Task | undefined {
  return taskOf(tree, tree.rootId);
}

/** The children that hang on one item of a task, in order. */
export function childrenOf(tree: Tree, taskId: string, outputIndex: number): readonly Task[] {
  const children = taskOf(tree, taskId)?.children ?? [];
  const child = (at: number) => tree.tasks[children[at] as string] as Task;
  const indexOf = (at: number) => child(at).parentOutputIndex ?? Number.POSITIVE_INFINITY;
  let low = 0;
  let high = children.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (indexOf(middle) < outputIndex) low = middle + 1;
    else high = middle;
  }
  const found: Task[] = [];
  for (let at = low; at < children.length && indexOf(at) === outputIndex; at++)
    found.push(child(at));
  return found;
}

/** An item and where it stands. */
export interface PlacedItem {
  readonly taskId: string;
  readonly outputIndex: number;
  readonly item: Item;
}

/** The items of all tasks that are still open. */
export function openItems(tree: Tree): readonly PlacedItem[] {
  return Object.values(tree.tasks).flatMap((task) =>
    task.output.flatMap((item, outputIndex) =>
      item.status === "in_progress" ? [{ taskId: task.id, outputIndex, item }] : [],
    ),
  );
}

/** An approval and the task that asks. */
export interface WaitingApproval {
  readonly taskId: string;
  readonly approval: ApprovalState;
}

/** What waits for somebody's word, anywhere in the tree. */
export function waitingApprovals(tree: Tree): readonly WaitingApproval[] {
  return Object.values(tree.tasks).flatMap((task) =>
    task.approvals
      .filter((approval) => approval.decision === undefined)
      .map((approval) => ({ taskId: task.id, approval })),
  );
}

/**
 * What a task and its descendants have used together, as far as the tree knows. A view without some of them still has
 * their ancestors' word on those that had ended.
 */
export function subtreeUsage(tree: Tree, taskId: string): Usage {
  const below = new Set([taskId]); // A set that grows while it is walked: parents come before their children.
  for (const id of below) for (const child of taskOf(tree, id)?.children ?? []) below.add(child);
  const totals = new Map<string, Usage>();
  for (const id of [...below].reverse()) {
    const task = taskOf(tree, id);
    let children = noUsage;
    for (const child of task?.children ?? []) {
      children = addUsage(children, totals.get(child) ?? noUsage);
    }
    const told = task?.subtreeUsage ?? noUsage;
    const descendants = told.total_tokens > children.total_tokens ? told : children;
    totals.set(id, addUsage(task?.usage ?? noUsage, descendants));
  }
  return totals.get(taskId) ?? noUsage;
}

const noUsage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** Two usages together. */
export function addUsage(one: Usage, other: Usage): Usage {
  const cached = sum(one.cached_input_tokens, other.cached_input_tokens);
  const reasoning = sum(one.reasoning_tokens, other.reasoning_tokens);
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}

function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
}
