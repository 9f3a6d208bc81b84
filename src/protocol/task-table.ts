import { LinkIndex } from "./link-index.ts";
import type { Task } from "./task.ts";

type Node = (Node | Task | undefined)[];

const bits = 5;
const width = 1 << bits;
const mask = width - 1;

/** The objects that the current edit created and may change in place; undefined means all objects. */
export type Owned = Set<object> | undefined;

/**
 * A persistent map of tasks by id: `set` leaves earlier tables unchanged and copies a few short arrays. It is a radix tree
 * over slots; an id has the same slot in all versions of a table, so they share the index.
 */
export class TaskTable {
  readonly #slots: Map<string, number>;
  #root: Node;
  #shift: number;
  /** The links between tasks; shared like the slots. */
  readonly links: LinkIndex;

  private constructor(slots: Map<string, number>, links: LinkIndex, root: Node, shift: number) {
    this.#slots = slots;
    this.links = links;
    this.#root = root;
    this.#shift = shift;
  }

  static empty(): TaskTable {
    return new TaskTable(new Map(), new LinkIndex(), [], 0);
  }

  get(id: string): Task | undefined {
    const slot = this.#slots.get(id);
    if (slot === undefined || slot >> this.#shift >= width) return undefined;
    let node: Node | undefined = this.#root;
    for (let shift = this.#shift; shift > 0; shift -= bits) {
      node = node[(slot >> shift) & mask] as Node | undefined;
      if (node === undefined) return undefined;
    }
    return node[slot & mask] as Task | undefined;
  }

  /** Returns a table with this task: the same table if the edit owns it, otherwise a copy. */
  set(id: string, task: Task, owned: Owned): TaskTable {
    let slot = this.#slots.get(id);
    if (slot === undefined) {
      slot = this.#slots.size;
      this.#slots.set(id, slot);
    }
    let table: TaskTable = this;
    if (owned !== undefined && !owned.has(this)) {
      table = new TaskTable(this.#slots, this.links, this.#root, this.#shift);
      owned.add(table);
    }
    while (slot >> table.#shift >= width) {
      table.#root = [table.#root];
      owned?.add(table.#root);
      table.#shift += bits;
    }
    let node = ownNode(table.#root, owned);
    table.#root = node;
    for (let shift = table.#shift; shift > 0; shift -= bits) {
      const at = (slot >> shift) & mask;
      const child = ownNode((node[at] as Node | undefined) ?? [], owned);
      node[at] = child;
      node = child;
    }
    node[slot & mask] = task;
    return table;
  }

  /** All tasks as a plain object. */
  toObject(): Record<string, Task> {
    const tasks: Record<string, Task> = {};
    collect(this.#root, this.#shift, tasks);
    return tasks;
  }
}

function ownNode(node: Node, owned: Owned): Node {
  if (owned === undefined || owned.has(node)) return node;
  const copy = node.slice();
  owned.add(copy);
  return copy;
}

function collect(node: Node, shift: number, into: Record<string, Task>): void {
  for (const entry of node) {
    if (entry === undefined) continue;
    if (shift > 0) collect(entry as Node, shift - bits, into);
    else into[(entry as Task).id] = entry as Task;
  }
}
