import { readInput, readText, readTyped } from "../base/argument.ts";
import type { StreamFrame } from "./event.ts";
import { type Draft, draftOf, taskFrom, treeOf } from "./fold/draft.ts";
import { type FoldOptions, fold } from "./fold/fold.ts";
import type { Task, Tree } from "./task.ts";

/** The tree before the first event. */
export function emptyTree(): Tree {
  return { tasks: {}, safeCursor: -1, ahead: [], gaps: [], unknown: 0, ignored: 0 };
}

/**
 * Folds one or more events into a tree and returns the new tree. The given tree does not change, and both share the
 * branches that the events do not touch. An index is ignored, so that `events.reduce(reduce, tree)` works.
 */
export function reduce(
  tree: Tree,
  events: StreamFrame | readonly StreamFrame[],
  options?: FoldOptions | number,
): Tree {
  const read = typeof options === "object" ? readTyped(options, foldTypes) : {};
  const draft = draftFrom("tree", tree);
  foldAll(draft, events, read);
  return treeOf(draft);
}

const foldTypes = { legacy: "a boolean", filtered: "a boolean" };

function draftFrom(place: string, tree: Tree): Draft {
  return readInput(place, "a tree of reduce()", tree, () => draftOf(tree));
}

function foldAll(
  draft: Draft,
  events: StreamFrame | readonly StreamFrame[],
  options: FoldOptions,
): void {
  try {
    if (Array.isArray(events)) for (const event of events) fold(draft, event, options);
    else fold(draft, events as StreamFrame, options);
  } catch (error) {
    // Only events that cannot be read are a bad argument; any other error is a bug of the fold.
    readInput("events", "plain data", events, () => JSON.stringify(events) !== "");
    throw error;
  }
}

/**
 * The same fold, in place, for hot paths. `tree` is safe to keep: after reading it, the next `apply` copies the branches
 * that it changes.
 */
export class TaskTree {
  readonly #draft: Draft;
  readonly #options: FoldOptions;

  constructor(options: FoldOptions & { readonly from?: Tree } = {}) {
    const { from, ...rest } = readTyped(options, { ...foldTypes, from: "an object" });
    this.#draft = draftFrom("options.from", from ?? emptyTree());
    if (from === undefined) this.#draft.owned = undefined;
    this.#options = rest;
  }

  apply(events: StreamFrame | readonly StreamFrame[]): this {
    foldAll(this.#draft, events, this.#options);
    return this;
  }

  get tree(): Tree {
    return treeOf(this.#draft);
  }

  /** One task, without the cost of `tree`: the next `apply` may change the object in place. */
  task(taskId: string): Task | undefined {
    const node = this.#draft.table.get(readText("taskId", taskId));
    return node && taskFrom(node);
  }
}
