import type { Watchers } from "../watchers.ts";
import { type Database, inTransaction } from "./database.ts";
import { storeFailed } from "./failure.ts";
import { whenUnlocked } from "./lock.ts";

/** Registers a changed key; its watchers wake when the write is durable. */
export type Touch = Watchers["touch"];
/** The keys that a transaction changes. */
export type Changes = readonly Parameters<Touch>[];

/** Runs writes in order, as many as possible in one transaction. */
export interface WriteQueue {
  /** Resolves when the writes of `work` are durable; rolls them back if it throws. `work` may run more than once. */
  write<Result>(work: (touch: Touch) => Result, when: "now" | "soon"): Promise<Result>;
  /** Resolves when the queue is empty. */
  drain(): Promise<void>;
}

interface Write {
  readonly work: (touch: Touch) => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome =
  | { readonly result: unknown; readonly touched: Changes }
  | { readonly error: unknown };

/** How long a "soon" write waits for others to share its transaction. */
const soonMs = 2;

/** A queue; it must be the only writer of its connection. */
export function createWriteQueue(
  database: Database,
  touch: Touch,
  recordChanges: (changes: Changes) => void,
): WriteQueue {
  let waiting: Write[] = [];
  let due: { readonly when: "now" | "soon"; readonly cancel: () => void } | undefined;
  let isWriting = false;

  /** "now" runs at the end of this event-loop turn, so that all writes of a turn share a transaction. */
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
      const outcomes = await whenUnlocked(() => runTogether(database, writes, recordChanges));
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
      // An empty write settles after all earlier ones, whose callers get their own errors.
      if (isWriting || waiting.length > 0) await write(() => {}, "now").catch(() => {});
    },
  };
}

/** Runs all writes in one transaction, with a savepoint for each, so that a rejected write leaves the others alone. */
function runTogether(
  database: Database,
  writes: readonly Write[],
  recordChanges: (changes: Changes) => void,
): readonly Outcome[] {
  return inTransaction(database, "BEGIN IMMEDIATE", () => {
    const outcomes = writes.map((write) => runWrite(database, write));
    recordChanges(outcomes.flatMap((outcome) => ("error" in outcome ? [] : outcome.touched)));
    return outcomes;
  });
}

function runWrite(database: Database, { work }: Write): Outcome {
  const touched: Parameters<Touch>[] = [];
  database.run("SAVEPOINT write");
  try {
    const result = work((kind, id) => touched.push([kind, id]));
    database.run("RELEASE write");
    return { result, touched };
  } catch (error) {
    // A disk error may have rolled back the whole transaction.
    if (!database.isInTransaction) throw error;
    database.run("ROLLBACK TO write");
    database.run("RELEASE write");
    return { error };
  }
}
