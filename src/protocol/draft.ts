import type { Gap, Item, Task, Tree } from "./task.ts";
import type { Owned } from "./task-table.ts";
import { TaskTable } from "./task-table.ts";

/** A type whose fields may be assigned, for the code that owns the value. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };
/** An item under edit. */
export type MutableItem = Mutable<Item> & Record<string, unknown>;

/**
 * A tree under edit. Rules change it through the functions below, which copy a branch the first time it is touched
 * and leave the rest shared with the tree that the edit started from.
 */
export interface Draft {
  table: TaskTable;
  owned: Owned;
  rootId: string | undefined;
  safeCursor: number;
  ahead: readonly (readonly [number, number])[];
  snapshotCursor: number | undefined;
  gaps: readonly Gap[];
  unknown: number;
  ignored: number;
  /** The number of placeholders for omitted items and blocks. */
  holes: number;
}

/** Starts an edit of a tree; the tree itself does not change. */
export function draftOf(tree: Tree): Draft {
  return {
    ...FoldedTree.insideOf(tree),
    owned: new Set(),
    rootId: tree.rootId,
    safeCursor: tree.safeCursor,
    ahead: tree.ahead,
    snapshotCursor: tree.snapshotCursor,
    gaps: tree.gaps,
    unknown: tree.unknown,
    ignored: tree.ignored,
  };
}

/** The current tree; afterwards the draft copies each branch that it changes. */
export function treeOf(draft: Draft): Tree {
  draft.owned = new Set();
  return Object.defineProperty(new FoldedTree(draft), "tasks", FoldedTree.tasks);
}

/**
 * A tree that builds `tasks` on first access, so that folding an event does not copy every task. It reads, clones and
 * prints like plain data.
 */
class FoldedTree implements Tree {
  readonly #table: TaskTable;
  readonly #holes: number;
  #tasks: Record<string, Task> | undefined;
  readonly rootId: string | undefined;
  declare readonly tasks: Record<string, Task>;
  readonly safeCursor: number;
  readonly ahead: Tree["ahead"];
  readonly snapshotCursor: number | undefined;
  readonly gaps: Tree["gaps"];
  readonly unknown: number;
  readonly ignored: number;

  constructor(draft: Draft) {
    this.#table = draft.table;
    this.#holes = draft.holes;
    this.rootId = draft.rootId;
    this.safeCursor = draft.safeCursor;
    this.ahead = draft.ahead;
    this.snapshotCursor = draft.snapshotCursor;
    this.gaps = draft.gaps;
    this.unknown = draft.unknown;
    this.ignored = draft.ignored;
  }

  static readonly tasks: PropertyDescriptor & ThisType<FoldedTree> = {
    enumerable: true,
    get() {
      this.#tasks ??= this.#table.toObject();
      return this.#tasks;
    },
  };

  /** The internal state of a tree; rebuilt for a tree that comes from JSON. */
  static insideOf(tree: Tree): Pick<Draft, "table" | "holes"> {
    if (#table in tree) return { table: tree.#table, holes: tree.#holes };
    const table = TaskTable.empty();
    let holes = 0;
    for (const task of Object.values(tree.tasks)) {
      table.set(task.id, task, undefined);
      table.links.addTask(task);
      holes += task.output.reduce((sum, item) => sum + holesOf(item), 0);
    }
    return { table, holes };
  }

  [Symbol.for("nodejs.util.inspect.custom")](): Tree {
    return { ...this };
  }
}

function holesOf(item: Item): number {
  if (item.type === "omitted") return 1;
  if (item.type !== "message" && item.type !== "tool_result") return 0;
  return item.block_list.filter((block) => block.type === "omitted").length;
}

/** The task for editing; the first mention of an id makes a placeholder. */
export function editTask(draft: Draft, id: string): Mutable<Task> {
  const task = draft.table.get(id);
  const { owned } = draft;
  if (task !== undefined && (owned === undefined || owned.has(task))) return task;
  const copy: Mutable<Task> = task === undefined ? placeholder(id) : { ...task };
  owned?.add(copy);
  draft.table = draft.table.set(id, copy, owned);
  return copy;
}

/** The task's output for editing. */
export function editOutput(draft: Draft, task: Mutable<Task>): Item[] {
  const output = editList(draft, task.output);
  task.output = output;
  return output;
}

/** One item of the task's output for editing. */
export function editItem(draft: Draft, task: Mutable<Task>, index: number): MutableItem {
  const output = editOutput(draft, task);
  const item = editEntry(draft, output, index);
  return item as MutableItem;
}

/** A list for editing. */
export function editList<T>(draft: Draft, list: readonly T[]): T[] {
  const { owned } = draft;
  if (owned === undefined || owned.has(list)) return list as T[];
  const copy = list.slice();
  owned.add(copy);
  return copy;
}

/** One entry of an owned list for editing. */
export function editEntry<T extends object>(draft: Draft, list: T[], index: number): Mutable<T> {
  const entry = list[index] as T;
  const { owned } = draft;
  if (owned === undefined || owned.has(entry)) return entry;
  const copy = { ...entry };
  owned.add(copy);
  list[index] = copy;
  return copy;
}

function placeholder(id: string): Mutable<Task> {
  return { id, status: "unknown", output: [], children: [], approvals: [], appliedSeq: -1 };
}

/** The given fields of an event that are present. */
export function pick<T, Name extends keyof T>(event: T, ...names: Name[]): Pick<T, Name> {
  const present = names.filter((name) => event[name] !== undefined);
  return Object.fromEntries(present.map((name) => [name, event[name]])) as Pick<T, Name>;
}

/** The outcome of a rule; `ignored` events are counted. */
export type Verdict = "applied" | "ignored" | "unknown";
