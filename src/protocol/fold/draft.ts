import { isObject } from "../../base/plain.ts";
import type { LogEvent } from "../event.ts";
import { isCursor } from "../shape.ts";
import type { Gap, Item, Task, Tree } from "../task.ts";
import { LinkIndex } from "./link-index.ts";
import { at, Created, flat, type List, type Owned, own, Pages, put, Table } from "./pages.ts";

/** A type whose fields may be assigned, for the code that owns the value. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };
/** An item under edit. */
export type MutableItem = Mutable<Item> & Record<string, unknown>;
/** A task under edit: long lists are in pages, the state is a table, and children without a place are apart. */
export type TaskNode = Mutable<Omit<Task, "output" | "children" | "parked" | "state">> & {
  output: List<Item>;
  /** The children whose item is known, in the order of the items; those of one item in the order of their ids. */
  children: List<string>;
  /** The other children, in the order of their ids. */
  unplaced?: List<string>;
  parked?: List<LogEvent>;
  state?: Table<unknown>;
};

/** The fold behind a tree. */
interface Inside {
  table: Table<TaskNode>;
  /** Shared by all versions of a tree. */
  readonly links: LinkIndex;
  ahead: List<readonly [number, number]>;
  /** The number of placeholders for omitted items and blocks. */
  holes: number;
  /** The number of tasks with parked events. */
  gapCount: number;
}
/**
 * A tree under edit. Rules change it through the functions below, which copy a branch the first time it is touched
 * and leave the rest shared with the tree that the edit started from.
 */
export interface Draft extends Inside, Mutable<Omit<Tree, "tasks" | "gaps" | "ahead">> {
  owned: Owned;
}

/** A larger tree builds its lists when they are read, so that folding an event does not copy every task. */
const fewTasks = 8;
const lists = {
  tasks: ({ table }: Inside) => table.toObject(taskOnce),
  ahead: ({ ahead }: Inside) => flat(ahead),
  gaps({ table }: Inside): readonly Gap[] {
    const gaps: Gap[] = [];
    for (const node of table.values()) {
      const first = node?.parked && at(node.parked, 0);
      if (first) gaps.push({ taskId: node.id, after: node.appliedSeq, before: first.task_seq });
    }
    return gaps;
  },
};

/** Starts an edit of a tree; the tree itself does not change. */
export function draftOf(tree: Tree): Draft {
  const { rootId, safeCursor, snapshotCursor, unknown, ignored } = tree;
  const owned = new Created();
  return { ...insideOf(tree), owned, rootId, safeCursor, snapshotCursor, unknown, ignored };
}

/** The current tree; afterwards the draft copies each branch that it changes. */
export function treeOf(draft: Draft): Tree {
  draft.owned = new Created();
  const { rootId, safeCursor, snapshotCursor, unknown, ignored } = draft;
  const { table, links, ahead, holes, gapCount } = draft;
  const inside = { table, links, ahead, holes, gapCount };
  const hasFew = table.size <= fewTasks;
  const isSmall =
    hasFew && Array.isArray(ahead) && table.values().every((node) => !node || isPlain(node));
  const tree: Partial<Tree> = isSmall
    ? { rootId, tasks: lists.tasks(inside), safeCursor, snapshotCursor, unknown, ignored }
    : Object.defineProperty(
        { rootId, safeCursor, snapshotCursor, unknown, ignored },
        "tasks",
        getters.tasks,
      );
  show(tree, "ahead", Array.isArray(ahead) ? ahead : undefined);
  show(tree, "gaps", gapCount === 0 ? [] : hasFew ? lists.gaps(inside) : undefined);
  // Proxies, clones, JSON and comparisons do not see it.
  return Object.defineProperty(tree, "inside", { value: inside }) as Tree;
}

function show<Name extends "ahead" | "gaps">(
  tree: Partial<Mutable<Tree>>,
  name: Name,
  list: Tree[Name] | undefined,
): void {
  if (list === undefined) Object.defineProperty(tree, name, getters[name]);
  else tree[name] = list;
}

const getters = Object.fromEntries(
  Object.entries(lists).map(([name, list]) => {
    const get = function (this: Tree) {
      return list(insideOf(this));
    };
    return [name, { get, enumerable: true, configurable: true }];
  }),
) as Record<keyof typeof lists, PropertyDescriptor>;

/** The fold behind a tree or a proxy of it; rebuilt for a tree that comes from JSON or a clone. */
function insideOf(tree: Tree): Inside {
  const hidden = Object.getOwnPropertyDescriptor(tree, "inside");
  if (hidden !== undefined) return hidden.value ?? (tree as unknown as { inside: Inside }).inside;
  if (!isObject(tree.tasks) || !isCursor(tree.safeCursor) || !isCursor(tree.snapshotCursor ?? -1))
    throw new TypeError("No tasks.");
  let table = new Table<TaskNode>();
  const links = new LinkIndex();
  let holes = 0;
  let gapCount = 0;
  for (const task of Object.values(tree.tasks)) {
    table = table.set(task.id, nodeOf(copyOf(task), tree), undefined);
    links.addTask(task);
    if (task.parked !== undefined) gapCount++;
    for (const item of task.output) holes += holesOf(item);
  }
  return { table, links, ahead: copyOf(tree.ahead) as [number, number][], holes, gapCount };
}

/** A copy without the proxies that a reactive library puts around every object. */
function copyOf<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

function nodeOf({ state, children, ...task }: Task, { tasks }: Tree): TaskNode {
  const isPlaced = (id: string) => tasks[id]?.parentOutputIndex !== undefined;
  const unplaced = children.filter((id) => !isPlaced(id));
  return {
    ...(task as Omit<TaskNode, "children" | "state">),
    children: children.filter(isPlaced),
    ...(unplaced.length > 0 && { unplaced }),
    ...(state && { state: stateOf(state) }),
  };
}

/** A table of a task's custom values. */
export function stateOf(values: object): Table<unknown> {
  const table = new Table<unknown>();
  for (const [name, value] of Object.entries(values)) table.set(name, value, undefined);
  return table;
}

/** The tasks that differ from their node, which does not change any more. */
const tasks = new WeakMap<TaskNode, Task>();

function taskOnce(node: TaskNode): Task {
  if (isPlain(node)) return node;
  const task = tasks.get(node) ?? taskFrom(node, joinOnce);
  tasks.set(node, task);
  return task;
}

/** The joined children by their second list, so that tasks with the same children share one array. */
const joins = new WeakMap<object, { readonly placed: unknown; readonly ids: readonly string[] }>();

function joinOnce(placed: List<string>, unplaced: List<string>): readonly string[] {
  const known = joins.get(unplaced);
  if (known?.placed === placed) return known.ids;
  const ids = join(placed, unplaced);
  joins.set(unplaced, { placed, ids });
  return ids;
}

function join(placed: List<string>, unplaced: List<string>): readonly string[] {
  return [...flat(placed), ...flat(unplaced)];
}

/** The task as plain data. */
export function taskFrom(node: TaskNode, joinLists = join): Task {
  if (isPlain(node)) return node;
  const { unplaced, parked, state, ...rest } = node;
  const children = unplaced ? joinLists(node.children, unplaced) : flat(node.children);
  const shown = { ...rest, output: flat(node.output), children } as Task;
  return Object.assign(
    shown,
    parked && { parked: flat(parked) },
    state && { state: state.toObject((value) => value) },
  );
}

function isPlain(node: TaskNode): node is TaskNode & Task {
  return !(
    node.state !== undefined ||
    node.unplaced !== undefined ||
    node.output instanceof Pages ||
    node.children instanceof Pages ||
    node.parked instanceof Pages
  );
}

function holesOf(item: Item): number {
  if (item.type === "omitted") return 1;
  if (item.type !== "message" && item.type !== "tool_result") return 0;
  return item.block_list.filter((block) => block.type === "omitted").length;
}

/** The task for editing; the first mention of an id makes a placeholder. */
export function editTask(draft: Draft, id: string): TaskNode {
  const task = draft.table.get(id);
  const { owned } = draft;
  if (task !== undefined && (owned === undefined || owned.has(task))) return task;
  const copy = task === undefined ? placeholder(id) : { ...task };
  owned?.add(copy);
  draft.table = draft.table.set(id, copy, owned);
  return copy;
}

/** Sets one item of the task's output. */
export function putItem(draft: Draft, task: TaskNode, index: number, item: Item): void {
  task.output = put(task.output, index, item, draft.owned);
}

/** One item of the task's output for editing. */
export function editItem(draft: Draft, task: TaskNode, index: number): MutableItem {
  const item = at(task.output, index) as Item;
  const copy = editObject(draft, item);
  if (copy !== item) putItem(draft, task, index, copy as Item);
  return copy as MutableItem;
}

/** A list of an item or a part for editing. */
export function editList<T>(draft: Draft, list: readonly T[]): T[] {
  return own(list as T[], draft.owned);
}

/** One entry of an owned list for editing. */
export function editEntry<T extends object>(draft: Draft, list: T[], index: number): Mutable<T> {
  const entry = editObject(draft, list[index] as T);
  list[index] = entry;
  return entry;
}

function editObject<T extends object>({ owned }: Draft, value: T): Mutable<T> {
  if (owned === undefined || owned.has(value)) return value;
  const copy = { ...value };
  owned.add(copy);
  return copy;
}

function placeholder(id: string): TaskNode {
  return { id, status: "unknown", output: [], children: [], approvals: [], appliedSeq: -1 };
}

/** The given fields of an event that are present. */
export function pick<T, Name extends keyof T>(event: T, ...names: Name[]): Pick<T, Name> {
  const present = names.filter((name) => event[name] !== undefined);
  return Object.fromEntries(present.map((name) => [name, event[name]])) as Pick<T, Name>;
}
