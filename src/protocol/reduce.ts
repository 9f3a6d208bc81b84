import type { Draft } from "./draft.ts";
import { draftOf, taskFrom, treeOf } from "./draft.ts";
import type { StreamFrame } from "./event.ts";
import type { FoldOptions } from "./fold.ts";
import { fold } from "./fold.ts";
import type { Task, Tree } from "./task.ts";

/** The tree before the first event. */
export function emptyTree(): Tree {
  return { tasks: {}, safeCursor: -1, ahead: [], gaps: [], unknown: 0, ignored: 0 };
}

/**
 * Folds one or more events into a tree and returns the new tree. The given tree does not change, and both share the
 * branches that the events do not touch.
 */
export function reduce(
  tree: Tree,
  events: StreamFrame | readonly StreamFrame[],
  options: FoldOptions = {},
): Tree {
  const draft = draftOf(tree);
  if (Array.isArray(events)) for (const event of events) fold(draft, event, options);
  else fold(draft, events as StreamFrame, options);
  return treeOf(draft);
}

/**
 * The same fold, in place, for hot paths. `tree` is safe to keep: after reading it, the next `apply` copies the branches
 * that it changes.
 */
export class TaskTree {
  readonly #draft: Draft;
  readonly #options: FoldOptions;

  constructor(options: FoldOptions & { readonly from?: Tree } = {}) {
    this.#draft = draftOf(options.from ?? emptyTree());
    if (options.from === undefined) this.#draft.owned = undefined;
    this.#options = options;
  }

  apply(events: StreamFrame | readonly StreamFrame[]): this {
    if (Array.isArray(events)) for (const event of events) fold(this.#draft, event, this.#options);
    else fold(this.#draft, events as StreamFrame, this.#options);
    return this;
  }

  get tree(): Tree {
    return treeOf(this.#draft);
  }

  /** One task, without the cost of `tree`: the next `apply` may change the object in place. */
  task(taskId: string): Task | undefined {
    const node = this.#draft.table.get(taskId);
    return node && taskFrom(node);
  }
}
