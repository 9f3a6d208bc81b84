import type { Item, Task, ToolResultItem } from "./task.ts";

/** What the items of one task are called by those who hang on them. */
interface Names {
  readonly results: Map<string, number>;
  readonly waiting: Map<string, Set<string>>;
}

/**
 * Where the tool results of a task stand, and which children wait for one, by the ids that both sides know. All trees
 * of one lineage share it, so it may tell of a future that this tree has not taken: whoever asks looks for himself.
 */
export class LinkIndex {
  readonly #names = new Map<string, Names>();

  /** A tool result stands at an index of a task's output. */
  addResult(taskId: string, item: ToolResultItem, index: number): void {
    const { results } = this.#namesOf(taskId);
    for (const id of [item.id, item.call_id]) {
      if ((results.get(id) ?? -1) < index) results.set(id, index);
    }
  }

  /** The last index at which a task's result with this item id or call id was seen. */
  resultAt(taskId: string, id: string | undefined): number | undefined {
    return id === undefined ? undefined : this.#names.get(taskId)?.results.get(id);
  }

  /** A child knows its parent, but not yet the place of its item. */
  addWaiting(child: Task): void {
    if (child.parentTaskId === undefined || child.parentOutputIndex !== undefined) return;
    const { waiting } = this.#namesOf(child.parentTaskId);
    for (const id of [child.parentItemId, child.callId]) {
      if (id === undefined) continue;
      const children = waiting.get(id);
      if (children === undefined) waiting.set(id, new Set([child.id]));
      else children.add(child.id);
    }
  }

  /** The children of a task that have waited for a result with this item id or call id. */
  waitingFor(taskId: string, id: string): Iterable<string> {
    return this.#names.get(taskId)?.waiting.get(id) ?? [];
  }

  /** Everything that a tree from elsewhere has to say. */
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
