import type { Store } from "../contract/index.ts";
import { TaskTree, type Tree } from "../protocol/index.ts";
import { readFrames } from "../store/index.ts";

const pageSize = 1_000;
/** Bounds the work of one turn of the event loop. */
const pageBytes = 256 * 1024;
/** How many folded logs are kept for the next request. */
const keptTrees = 16;

/** A log up to a number, folded. */
export interface FoldedLog {
  readonly tree: Tree;
  readonly through: number;
}

interface Folding {
  readonly folded: TaskTree;
  through: number;
}

/** Folds logs for requests that want a task as it stands; a log that grows is folded on from where it was. */
export class Trees {
  readonly #store: Store;
  readonly #logs = new Map<string, Promise<Folding>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The tree of a log as it is stored now. Read it before the next `await`: a later call changes it. */
  async read(log: string): Promise<FoldedLog> {
    const before = this.#logs.get(log) ?? Promise.resolve(empty());
    const folding = before.catch(empty).then((last) => this.#foldOn(log, last));
    this.#logs.delete(log);
    this.#logs.set(log, folding);
    const [oldest] = this.#logs.keys();
    if (this.#logs.size > keptTrees && oldest !== undefined) this.#logs.delete(oldest);
    const { folded, through } = await folding;
    return { tree: folded.tree, through };
  }

  async #foldOn(log: string, last: Folding): Promise<Folding> {
    let folding = last;
    // The log was deleted.
    if ((await this.#store.last(log)) < folding.through) folding = empty();
    for (;;) {
      const after = folding.through;
      const { frames, through } = await readFrames(this.#store, log, after, pageSize, pageBytes);
      if (frames.length === 0) return folding;
      folding.folded.apply(frames);
      folding.through = through;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

function empty(): Folding {
  return { folded: new TaskTree(), through: -1 };
}
