import type { Watchers } from "../watchers.ts";
import { type Database, inTransaction } from "./database.ts";
import { storeFailed } from "./failure.ts";
import { whenUnlocked } from "./lock.ts";

/** Notes what a write changes; watchers hear of it when it is durable. */
export type Touch = Watchers["touch"];

/** Writes in the order they were asked for, as many as possible in one transaction. */
export interface WriteQueue {
  /** Resolves when what `work` did is durable; `work` may run again and throws to be undone. */
  write<Result>(work: (touch: Touch) => Result, when: "now" | "soon"): Promise<Result>;
  /** Resolves when nothing is left to write. */
  drain(): Promise<void>;
}

interface Write {
  readonly work: (touch: Touch) => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome =
  | { readonly result: unknown; readonly touched: readonly Parameters<Touch>[] }
  | { readonly error: unknown };

/** How long a write that may wait is held back, so that its neighbours share its transaction. */
const soonMs = 2;

/** A queue on a connection that nobody else writes with. */
export function createWriteQueue(database: Database, touch: Touch): WriteQueue {
  let waiting: Write[] = [];
  let due: { readonly when: "now" | "soon"; readonly cancel: () => void } | undefined;
  let isWriting = false;

  /** Now is the end of this turn of the event loop: everything that asks within it goes together. */
  function schedule(when: "now" | "soon"): void {
    if (isWriting || due?.when === "now" || due?.when === when) return;
    due?.cancel();
    if (when === "now") {
      const immediate = setImmediate(flush);
      due = { when, cancel: () => clearImmediate(immediate) };
    } else {
      const timer = setTimeout(flush, soonMs);
      due = { when, cancel: () => clearTimeout(timer) };
    }
  }

  async function flush(): Promise<void> {
    due = undefined;
    const writes = waiting;
    waiting = [];
    isWriting = true;
    try {
      const outcomes = await whenUnlocked(() => runTogether(database, writes));
      for (const [index, outcome] of outcomes.entries()) settle(writes[index] as Write, outcome);
    } catch (error) {
      for (const write of writes) write.reject(error);
    }
    isWriting = false;
    if (waiting.length > 0) schedule("now");
  }

  function settle(write: Write, outcome: Outcome): void {
    if ("error" in outcome) {
      write.reject(storeFailed(outcome.error));
      return;
    }
    for (const [kind, id] of outcome.touched) touch(kind, id);
    write.resolve(outcome.result as never);
  }

  function write<Result>(work: (touch: Touch) => Result, when: "now" | "soon"): Promise<Result> {
    return new Promise((resolve, reject) => {
      waiting.push({ work, resolve, reject });
      schedule(when);
    });
  }

  return {
    write,
    async drain() {
      // A write that does nothing ends after all that came before it; if it fails, they have been told.
      if (isWriting || waiting.length > 0) await write(() => {}, "now").catch(() => {});
    },
  };
}

/** One transaction with a savepoint for each write, so that one that is refused leaves the others alone. */
function runTogether(database: Database, writes: readonly Write[]): readonly Outcome[] {
  return inTransaction(database, "BEGIN IMMEDIATE", () =>
    writes.map((write) => runOne(database, write)),
  );
}

function runOne(database: Database, { work }: Write): Outcome {
  const touched: Parameters<Touch>[] = [];
  database.run("SAVEPOINT one");
  try {
    const result = work((kind, id) => touched.push([kind, id]));
    database.run("RELEASE one");
    return { result, touched };
  } catch (error) {
    // A failure of the disk may have undone everything, the neighbours too.
    if (!database.isInTransaction) throw error;
    database.run("ROLLBACK TO one");
    database.run("RELEASE one");
    return { error };
  }
}
