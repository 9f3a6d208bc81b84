import type { Draft } from "./draft.ts";
import { draftOf, treeOf } from "./draft.ts";
import type { StreamFrame } from "./event.ts";
import type { FoldOptions } from "./fold.ts";
import { fold } from "./fold.ts";
import type { Tree } from "./task.ts";

/** The tree before the first event. */
export function emptyTree(): Tree {
  return { tasks: {}, safeCursor: -1, ahead: [], gaps: [], unknown: 0, ignored: 0 };
}

/**
 * Folds an event, or a list of them, into a tree. Pure: the tree that came in stays as it was, and every branch that
 * the events do not touch is the same object in the tree that comes out.
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
 * The same fold for hot paths: `apply` changes branches in place. `tree` is safe to keep; after it was read, the next
 * `apply` copies the branches it touches once.
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
}
