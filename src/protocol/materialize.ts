import { readTyped } from "./argument.ts";
import { RivuletError } from "./error.ts";
import { childrenOf, readTree, taskOf } from "./select.ts";
import { isObject } from "./shape.ts";
import type { Item, Task, Tree, WireBlock } from "./task.ts";

/** The end state of a task: its items, with the items of its children inside the tool results. */
export interface TaskDocument {
  readonly task_id: string;
  readonly output: readonly DocumentItem[];
}
/** An item of a document: its blocks may hold nested items, which have a `task_id`. */
export type DocumentItem = { readonly type: string; readonly task_id?: string } & Readonly<
  Record<string, unknown>
>;

/** Options for `materialize`. */
export interface MaterializeOptions {
  /** `content`: the model's side of messages and tool results, where the tree has it. */
  readonly include?: readonly "content"[];
  /** Only what the first form of the protocol had: numeric reference ids, no status, no links. */
  readonly seed?: boolean;
}

/** How deep tasks may nest in a document. */
const maxDepth = 100;

/**
 * Turns a tree into one JSON document, in which every task stands once: inside the item of its parent that holds it. A
 * block that names a different task, or the same one again, stays a reference. Leaves out tasks that nest more than 100
 * levels deep.
 */
export function materialize(
  tree: Tree,
  taskId?: string,
  options: MaterializeOptions = {},
): TaskDocument {
  const read = readTyped(options, { include: "an object", seed: "a boolean" });
  return readTree(tree, (tasks) => {
    const id = taskId === undefined ? tree.rootId : taskId;
    const task = taskOf(tree, id);
    if (task === undefined) {
      throw new RivuletError("task_not_found", `The tree has no task ${id ?? "(no root yet)"}.`, {
        hint: `It has: ${Object.keys(tasks).join(", ") || "none"}.`,
      });
    }
    return { task_id: task.id, output: outputOf({ tree, options: read, above: new Set() }, task) };
  });
}

/** A walk through a tree. */
interface Walk {
  readonly tree: Tree;
  readonly options: MaterializeOptions;
  /** The tasks that the current one is inside of; a damaged tree may have a task inside itself. */
  readonly above: Set<string>;
}

function outputOf(walk: Walk, task: Task): DocumentItem[] {
  walk.above.add(task.id);
  const output = task.output.flatMap((item, index) =>
    item.type === "discarded" || item.type === "omitted" ? [] : [itemOf(walk, task, item, index)],
  );
  walk.above.delete(task.id);
  return output;
}

function itemOf(walk: Walk, task: Task, item: Item, index: number): DocumentItem {
  const { tree, options, above } = walk;
  const view: Record<string, unknown> = { ...item };
  if (above.size > 1) view.task_id = task.id;
  const hasBlocks = item.type === "tool_result" || item.type === "message";
  if (hasBlocks && !options.include?.includes("content")) delete view.content;
  if (options.seed) for (const key of additions) delete view[key];
  if (hasBlocks) {
    const canNest = ({ id }: Task) => above.size < maxDepth && !above.has(id);
    const children = childrenOf(tree, task.id, index).filter(canNest);
    const unplaced = new Map(children.map((child) => [child.id, child]));
    const blocks = item.block_list.flatMap((block): readonly unknown[] => {
      const child = block.type === "task" ? unplaced.get(block.task_id) : undefined;
      if (child === undefined) return [options.seed ? seedBlock(block) : block];
      unplaced.delete(child.id);
      return outputOf(walk, child);
    });
    view.block_list = blocks.concat(
      ...[...unplaced.values()].map((child) => outputOf(walk, child)),
    );
  }
  return view as DocumentItem;
}

/** The fields that the first form of the protocol did not have. */
const additions = [
  "status",
  "progress",
  "child_task_id",
  "arguments_status",
  "provider_call_id",
  "error",
  "purpose",
  "references",
] as const;

function seedBlock(block: WireBlock): WireBlock {
  const {
    reference_id,
    status: _,
    partial_image_index: __,
    id: ___,
    ...rest
  } = block as WireBlock & Record<string, unknown>;
  const annotations = Array.isArray(rest.annotations)
    ? rest.annotations.map((annotation) => {
        if (!isObject(annotation)) return annotation; // of a block that this version does not know
        const { type, reference_id, start_index, end_index } = annotation;
        return { type, reference_id, start_index, end_index };
      })
    : undefined;
  return {
    ...rest,
    ...(reference_id !== undefined && { id: reference_id }),
    ...(annotations !== undefined && { annotations }),
  } as unknown as WireBlock;
}
