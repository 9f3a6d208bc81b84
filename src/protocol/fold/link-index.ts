import type { Item, Task, ToolResultItem } from "../task.ts";

/** The tool results of a task and the children that wait for one, by item id and call id. */
interface Names {
  readonly results: Map<string, number>;
  readonly waiting: Map<string, Set<string>>;
}

/**
 * Finds the tool result that holds a child. Shared by all versions of a tree; entries may be newer than this version, so
 * verify before use.
 */
export class LinkIndex {
  readonly #names = new Map<string, Names>();

  /** Adds a tool result at an index of a task's output. */
  addResult(taskId: string, item: ToolResultItem, index: number): void {
    const { results } = this.#namesOf(taskId);
    for (const id of [item.id, item.call_id]) {
      if ((results.get(id) ?? -1) < index) results.set(id, index);
    }
  }

  /** The highest index of a tool result with this item id or call id. */
  resultAt(taskId: string, id: string | undefined): number | undefined {
    return id === undefined ? undefined : this.#names.get(taskId)?.results.get(id);
  }

  /** Adds a child whose parent is known, but not the index of its item. */
  addWaiting(child: Omit<Task, "output" | "children" | "parked" | "state">): void {
    if (child.parentTaskId === undefined || child.parentOutputIndex !== undefined) return;
    const { waiting } = this.#namesOf(child.parentTaskId);
    for (const id of [child.parentItemId, child.callId]) {
      if (id === undefined) continue;
      const children = waiting.get(id);
      if (children === undefined) waiting.set(id, new Set([child.id]));
      else children.add(child.id);
    }
  }

  /** The children of a task that wait for a tool result with this item id or call id. */
  waitingFor(taskId: string, id: string): Iterable<string> {
    return this.#names.get(taskId)?.waiting.get(id) ?? [];
  }

  /** Adds a task of a tree that comes from JSON. */
  addTask(task: Task): void {
    this.addWaiting(task);
    task.output.forEach((item: Item, index) => {
      if (item.type === "tool_result") this.addResult(task.id, item, index);
    });
  }

  #namesOf(taskId: string): Names {
    let names = this.#names.get(taskId);
    if (names === undefined) {
      names = { results: new Map(), waiting: new Map() };
      this.#names.set(taskId, names);
    }
    return names;
  }
}
