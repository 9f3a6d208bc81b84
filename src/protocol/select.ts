import { readInput, readText } from "../base/argument.ts";
import { isObject } from "../base/plain.ts";
import { search } from "./fold/pages.ts";
import type { ApprovalState, Item, Task, Tree, Usage } from "./task.ts";

/** Returns a task by its id; ids like `toString` do not find inherited properties. */
export function taskOf(tree: Tree, taskId: string | undefined): Task | undefined {
  return readTree(tree, (tasks) =>
    taskId === undefined || !Object.hasOwn(tasks, readText("taskId", taskId))
      ? undefined
      : tasks[taskId],
  );
}

/** Returns what `read` returns; throws `invalid_argument` if it cannot read the tree. */
export function readTree<T>(tree: Tree, read: (tasks: Tree["tasks"]) => T): T {
  const readTasks = () => isObject(tree.tasks) && read(tree.tasks);
  return readInput("tree", "a tree of reduce()", tree, readTasks);
}

/** The root's task. */
export function rootTask(tree: Tree): Task | undefined {
  return readTree(tree, () => taskOf(tree, tree.rootId));
}

/** The children of an item of a task, in order. */
export function childrenOf(tree: Tree, taskId: string, outputIndex: number): readonly Task[] {
  return readTree(tree, (tasks) => {
    const children = taskOf(tree, taskId)?.children ?? [];
    const isBefore = (id: string) =>
      ((tasks[id] as Task).parentOutputIndex ?? Number.POSITIVE_INFINITY) < outputIndex;
    const found: Task[] = [];
    for (let at = search(children, isBefore); ; at++) {
      const child = tasks[children[at] as string];
      if (child === undefined || child.parentOutputIndex !== outputIndex) return found;
      found.push(child);
    }
  });
}

/** An item and its position. */
export interface PlacedItem {
  readonly taskId: string;
  readonly outputIndex: number;
  readonly item: Item;
}

/** The open items of all tasks. */
export function openItems(tree: Tree): readonly PlacedItem[] {
  return readTree(tree, (tasks) =>
    Object.values(tasks).flatMap((task) =>
      task.output.flatMap((item, outputIndex) =>
        item.status === "in_progress" ? [{ taskId: task.id, outputIndex, item }] : [],
      ),
    ),
  );
}

/** An approval and the task that requested it. */
export interface WaitingApproval {
  readonly taskId: string;
  readonly approval: ApprovalState;
}

/** The approvals of all tasks that have no decision yet. */
export function waitingApprovals(tree: Tree): readonly WaitingApproval[] {
  return readTree(tree, (tasks) =>
    Object.values(tasks).flatMap((task) =>
      waitingIn(task).map((approval) => ({ taskId: task.id, approval })),
    ),
  );
}

/** The approvals of a task that have no decision yet, in the order of their calls; parallel calls ask in any order. */
export function waitingIn({ approvals, output }: Task): readonly ApprovalState[] {
  const waiting = approvals.filter(({ decision }) => decision === undefined);
  if (waiting.length < 2) return waiting;
  const isCallOf = (id: string | undefined) => (item: Item) =>
    item.type === "tool_call" && item.call_id === id;
  const placed = waiting.map((approval) => {
    const at = output.findLastIndex(isCallOf(approval.call_id));
    return { approval, at: at < 0 ? output.length : at };
  });
  return placed.sort((one, other) => one.at - other.at).map(({ approval }) => approval);
}

/**
 * The usage of a task and its descendants. For descendants that the tree does not have, it uses the `subtree_usage` of
 * their ancestors.
 */
export function subtreeUsage(tree: Tree, taskId: string): Usage {
  return readTree(tree, () => {
    const totals = new Map<string, Usage>();
    for (const task of subtreeOf(tree, readText("taskId", taskId)).toReversed()) {
      let children = noUsage;
      for (const child of task.children) {
        children = addUsage(children, totals.get(child) ?? noUsage);
      }
      const reported = task.subtreeUsage ?? noUsage;
      const descendants = reported.total_tokens > children.total_tokens ? reported : children;
      totals.set(task.id, addUsage(task.usage ?? noUsage, descendants));
    }
    return totals.get(taskId) ?? noUsage;
  });
}

/** A task and its descendants, parents before their children. */
export function subtreeOf(tree: Tree, taskId: string): readonly Task[] {
  const ids = new Set([taskId]); // it grows while it is walked
  for (const id of ids) for (const child of taskOf(tree, id)?.children ?? []) ids.add(child);
  return [...ids].flatMap((id) => taskOf(tree, id) ?? []);
}

/** The usage of nothing. */
export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

const counters = ["input_tokens", "output_tokens", "total_tokens"] as const;

function checkUsage(place: string, value: Usage): void {
  const fits = () => counters.every((name) => typeof value[name] === "number");
  readInput(place, `an object with the numbers ${counters.join(", ")}`, value, fits);
}

/** Adds two usages. */
export function addUsage(left: Usage, right: Usage): Usage {
  checkUsage("left", left);
  checkUsage("right", right);
  const cached = sum(left.cached_input_tokens, right.cached_input_tokens);
  const written = sum(left.cache_write_tokens, right.cache_write_tokens);
  const reasoning = sum(left.reasoning_tokens, right.reasoning_tokens);
  return {
    input_tokens: left.input_tokens + right.input_tokens,
    output_tokens: left.output_tokens + right.output_tokens,
    total_tokens: left.total_tokens + right.total_tokens,
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(written !== undefined && { cache_write_tokens: written }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}

function sum(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined && right === undefined ? undefined : (left ?? 0) + (right ?? 0);
}
