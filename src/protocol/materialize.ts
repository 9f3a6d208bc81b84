import { readTyped } from "../base/argument.ts";
import { RivuletError } from "../base/error.ts";
import { firstFormBlock, firstFormItem } from "./first-form.ts";
import { childrenOf, readTree, taskOf } from "./select.ts";
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
  /** `content`: the model's side of messages and tool results; from their blocks, where the stream does not carry it. */
  readonly include?: readonly "content"[];
  /** The document in the first form of the protocol: only the fields that it had, with numeric reference ids. */
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
  const { options, above } = walk;
  const view: Record<string, unknown> = { ...item };
  if (above.size > 1 && !options.seed) view.task_id = task.id;
  if (item.type === "tool_result" || item.type === "message") {
    const children = childrenIn(walk, task, index);
    view.block_list = blocksOf(walk, item, children);
    if (options.include?.includes("content"))
      view.content = item.content ?? contentOf(walk, item, children);
    else delete view.content;
  }
  return (options.seed ? firstFormItem(view) : view) as DocumentItem;
}

/** The children that belong into an item. */
function childrenIn({ tree, above }: Walk, task: Task, index: number): readonly Task[] {
  const canNest = ({ id }: Task) => above.size < maxDepth && !above.has(id);
  return childrenOf(tree, task.id, index).filter(canNest);
}

type ItemWithBlocks = Extract<Item, { readonly block_list: unknown }>;

function blocksOf(walk: Walk, item: ItemWithBlocks, children: readonly Task[]): readonly unknown[] {
  const { seed } = walk.options;
  const unplaced = new Map(children.map((child) => [child.id, child]));
  const blocks = item.block_list.flatMap((block): readonly unknown[] => {
    const child = block.type === "task" ? unplaced.get(block.task_id) : undefined;
    if (child === undefined) return [seed ? firstFormBlock(block) : block];
    unplaced.delete(child.id);
    return outputOf(walk, child);
  });
  return blocks.concat(...[...unplaced.values()].map((child) => outputOf(walk, child)));
}

/** The model's side of an item, from its blocks: of a child only its last message, with marks around what can be cited. */
function contentOf(
  walk: Walk,
  item: ItemWithBlocks,
  children: readonly Task[],
): readonly unknown[] {
  const replies = children.flatMap(({ output }) => output.findLast(isMessage)?.block_list ?? []);
  const blocks = [...item.block_list.filter(({ type }) => type !== "task"), ...replies];
  if (item.type === "message") return blocks.map(plainBlock);
  return blocks.flatMap((block, index) => {
    const { reference_id: id } = block as { readonly reference_id?: number };
    const shown = walk.options.seed ? firstFormBlock(block) : plainBlock(block);
    if (id === undefined) return [shown];
    const isFirst = referenceOf(blocks[index - 1]) !== id;
    const isLast = referenceOf(blocks[index + 1]) !== id;
    return [
      ...(isFirst ? [mark(`<referencable-item>\nID: ${id}`, id)] : []),
      shown,
      ...(isLast ? [mark("</referencable-item>", id)] : []),
    ];
  });
}

function isMessage(item: Item): item is Extract<Item, { readonly type: "message" }> {
  return item.type === "message";
}

function referenceOf(block: WireBlock | undefined): number | undefined {
  return (block as { readonly reference_id?: number } | undefined)?.reference_id;
}

function mark(text: string, id: number) {
  return { type: "text", text, id, tags: ["added_by_reference_manager"] };
}

/** A block without what only readers need. */
function plainBlock(block: WireBlock): unknown {
  const { annotations: _, status: __, ...rest } = block as WireBlock & Record<string, unknown>;
  return rest;
}
