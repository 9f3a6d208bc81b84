import { RivuletError } from "./error.ts";
import { childrenOf, taskOf } from "./select.ts";
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
 * Turns a tree into one JSON document. It leaves out a child inside itself and tasks that nest more than 100 levels deep.
 */
export function materialize(
  tree: Tree,
  taskId: string | undefined = tree.rootId,
  options: MaterializeOptions = {},
): TaskDocument {
  const task = taskOf(tree, taskId);
  if (task === undefined) {
    throw new RivuletError("task_not_found", `The tree has no task ${taskId ?? "(no root yet)"}.`, {
      hint: `It has: ${Object.keys(tree.tasks).join(", ") || "none"}.`,
    });
  }
  return { task_id: task.id, output: outputOf(tree, task, options, new Set([task.id])) };
}

function outputOf(
  tree: Tree,
  task: Task,
  options: MaterializeOptions,
  within: ReadonlySet<string>,
): DocumentItem[] {
  return task.output.flatMap((item, index) => {
    if (item.type === "discarded" || item.type === "omitted") return [];
    return [itemOf(tree, task, item, index, options, within)];
  });
}

function itemOf(
  tree: Tree,
  task: Task,
  item: Item,
  index: number,
  options: MaterializeOptions,
  within: ReadonlySet<string>,
): DocumentItem {
  const view: Record<string, unknown> = { ...item };
  const hasBlocks = item.type === "tool_result" || item.type === "message";
  if (hasBlocks && !options.include?.includes("content")) delete view.content;
  if (options.seed) for (const key of additions) delete view[key];
  if (hasBlocks) {
    const nested = nestedOutput(tree, task, item.block_list, index, options, within);
    view.block_list = [
      ...item.block_list.flatMap((block): readonly unknown[] => {
        const output = block.type === "task" ? nested.get(block.task_id) : undefined;
        return output ?? [options.seed ? seedBlock(block) : block];
      }),
      ...[...nested].flatMap(([id, output]) => (isPlaced(item.block_list, id) ? [] : output)),
    ];
  }
  return view as DocumentItem;
}

/** The output of each child of an item, by child. */
function nestedOutput(
  tree: Tree,
  task: Task,
  blocks: readonly WireBlock[],
  index: number,
  options: MaterializeOptions,
  within: ReadonlySet<string>,
): Map<string, DocumentItem[]> {
  const placed = blocks.flatMap((block) => {
    const child = block.type === "task" ? taskOf(tree, block.task_id) : undefined;
    return child === undefined ? [] : [child];
  });
  const nested = new Map<string, DocumentItem[]>();
  for (const child of [...placed, ...childrenOf(tree, task.id, index)]) {
    if (within.size >= maxDepth || within.has(child.id) || nested.has(child.id)) continue;
    const output = outputOf(tree, child, options, new Set([...within, child.id]));
    nested.set(
      child.id,
      output.map((item) => ({ ...item, task_id: child.id })),
    );
  }
  return nested;
}

function isPlaced(blocks: readonly WireBlock[], taskId: string): boolean {
  return blocks.some((block) => block.type === "task" && block.task_id === taskId);
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
