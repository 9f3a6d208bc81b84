import { type Tree, taskOf } from "rivulet/protocol";
import type { Lane } from "./spans.ts";

/** The measure behind the widths of a flame graph: tokens, time, or money in a currency. */
export type Measure = "tokens" | "time" | { readonly currency: string };

/** A task in a flame graph; `from` and `size` are parts of the whole width. */
export interface Flame {
  readonly taskId: string;
  readonly depth: number;
  readonly from: number;
  readonly size: number;
  /** The amount that the task itself and all agents below it have used. */
  readonly total: number;
}

/** Narrower tasks cannot be seen or hit. */
const smallest = 0.002;

/** The amount that each task itself has used. `now` is the time up to which it counts. */
export function ownUse(
  { tasks }: Tree,
  measure: Measure,
  lanes: ReadonlyMap<string, Lane>,
  now: number,
): (taskId: string) => number {
  return (taskId) => {
    const { usage, cost } = tasks[taskId] ?? {};
    if (measure === "tokens") return usage?.total_tokens ?? 0;
    if (measure !== "time") return cost?.currency === measure.currency ? Number(cost.amount) : 0;
    const spans = lanes.get(taskId)?.spans ?? [];
    const worked = spans.filter(({ kind }) => kind === "model" || kind === "tool");
    return worked.reduce(
      (sum, { from, to = now }) => sum + Math.max(0, Math.min(to, now) - from),
      0,
    );
  };
}

/** The tasks of a tree from the root down: each as wide as all that it has used, above its children. */
export function flameOf(tree: Tree, own: (taskId: string) => number): readonly Flame[] {
  const { rootId } = tree;
  if (rootId === undefined) return [];
  const order = [rootId];
  for (const id of order) order.push(...(taskOf(tree, id)?.children ?? []));
  const totals = new Map<string, number>();
  for (const id of order.toReversed()) {
    const below = (taskOf(tree, id)?.children ?? []).map((child) => totals.get(child) ?? 0);
    totals.set(
      id,
      below.reduce((sum, part) => sum + part, own(id)),
    );
  }
  const all = totals.get(rootId) ?? 0;
  if (all === 0) return [];
  const flames: Flame[] = [{ taskId: rootId, depth: 0, from: 0, size: 1, total: all }];
  for (const { taskId, depth, from: start } of flames) {
    let from = start;
    for (const child of taskOf(tree, taskId)?.children ?? []) {
      const total = totals.get(child) ?? 0;
      const size = total / all;
      if (size >= smallest) flames.push({ taskId: child, depth: depth + 1, from, size, total });
      from += size;
    }
  }
  return flames;
}
