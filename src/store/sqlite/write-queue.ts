import type { Watchers } from "../watchers.ts";
import { type Database, inTransaction } from "./database.ts";
import { isBusy, storeFailed, whenUnlocked } from "./failure.ts";

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

/** The parts of a store that a queue uses. */
export interface WriteQueueOptions {
  readonly touch: Touch;
  readonly recordChanges: (changes: Changes) => void;
  /** The time in milliseconds, for the length of transactions. */
  readonly now?: () => number;
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
/** A transaction takes no further writes after this time or size, because it blocks the event loop. */
const maxMs = 20;
const maxCharacters = 4 * 1024 * 1024;

/** A queue; it must be the only writer of its connection. */
export function createWriteQueue(database: Database, options: WriteQueueOptions): WriteQueue {
  const { touch, recordChanges, now = () => performance.now() } = options;
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
      const outcomes = await whenUnlocked(() => runTogether(writes));
      waiting = writes.slice(outcomes.length).concat(waiting);
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

  /**
   * Runs the first writes in one transaction and returns their outcomes. Savepoints cost as much as a small write, so
   * they are used only after a write was rejected, which must leave the others alone.
   */
  function runTogether(writes: readonly Write[]): readonly Outcome[] {
    try {
      return transact(writes, runWrite);
    } catch (error) {
      if (isBusy(error) || !(error instanceof Rejection)) throw error;
      if (writes.length === 1) return [{ error: error.cause }];
      return transact(writes, runAlone);
    }
  }

  function transact(writes: readonly Write[], run: (write: Write) => Outcome): readonly Outcome[] {
    const outcomes = inTransaction(database, "BEGIN IMMEDIATE", () => {
      const [start, given] = [now(), database.given];
      const outcomes: Outcome[] = [];
      for (const write of writes) {
        outcomes.push(run(write));
        if (now() - start >= maxMs || database.given - given >= maxCharacters) break;
      }
      recordChanges(outcomes.flatMap((outcome) => ("error" in outcome ? [] : outcome.touched)));
      return outcomes;
    });
    database.assertOnDisk();
    return outcomes;
  }

  function runWrite({ work }: Write): Outcome {
    const touched: Parameters<Touch>[] = [];
    try {
      return { result: work((kind, id) => touched.push([kind, id])), touched };
    } catch (error) {
      throw database.isInTransaction && !isBusy(error) ? new Rejection(error) : error;
    }
  }

  function runAlone(write: Write): Outcome {
    database.run("SAVEPOINT write");
    try {
      const outcome = runWrite(write);
      database.run("RELEASE write");
      return outcome;
    } catch (error) {
      // A disk error may have rolled back the whole transaction.
      if (!(error instanceof Rejection)) throw error;
      database.run("ROLLBACK TO write");
      database.run("RELEASE write");
      return { error: error.cause };
    }
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

/** A write that threw, as its cause, while the transaction is still open. */
class Rejection extends Error {
  constructor(cause: unknown) {
    super("The write was rejected.", { cause });
  }
}
