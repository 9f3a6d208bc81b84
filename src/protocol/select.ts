import type { ApprovalState, Item, Task, Tree, Usage } from "./task.ts";

/** The root's task. */
export function rootTask(tree: Tree): Task | undefined {
  return tree.rootId === undefined ? undefined : tree.tasks[tree.rootId];
}

/** The children that hang on one item of a task, in order. */
export function childrenOf(tree: Tree, taskId: string, outputIndex: number): readonly Task[] {
  const children = tree.tasks[taskId]?.children ?? [];
  return children
    .map((id) => tree.tasks[id] as Task)
    .filter((child) => child.parentOutputIndex === outputIndex);
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

/** What a task and its descendants have used together. */
export function subtreeUsage(tree: Tree, taskId: string): Usage {
  const seen = new Set<string>();
  const pending = [taskId];
  let total: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    const task = tree.tasks[id];
    if (task === undefined || seen.has(id)) continue;
    seen.add(id);
    if (task.usage !== undefined) total = addUsage(total, task.usage);
    // A view without children still knows what those that had ended used.
    if (task.children.length > 0) pending.push(...task.children);
    else if (task.subtreeUsage !== undefined) total = addUsage(total, task.subtreeUsage);
  }
  return total;
}

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
