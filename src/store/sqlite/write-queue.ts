import type { Watchers } from "../watchers.ts";
import { type Database, inTransaction } from "./database.ts";
import { isBusy, storeFailed, whenUnlocked } from "./failure.ts";

/** Registers a changed key; its watchers wake when the write is durable. */
export type Touch = Watchers["touch"];
/** The keys that a transaction changes. */
export type Changes = readonly Parameters<Touch>[];

/** Runs writes in order, as many as possible in one transaction. */
export interface WriteQueue {
  /**
   * Runs the first work, and those after it as long as none throws and the transaction has room. Resolves with their
   * results when they are durable; throws the error of the first. A work that throws is rolled back alone. A work may
   * run more than once.
   */
  writeInOrder<Result>(works: readonly Work<Result>[]): Promise<readonly Result[]>;
  /** Resolves when the queue is empty. */
  drain(): Promise<void>;
}

/** The statements of one write. */
export type Work<Result> = (touch: Touch) => Result;

/** The parts of a store that a queue uses. */
export interface WriteQueueOptions {
  readonly touch: Touch;
  readonly recordChanges: (changes: Changes) => void;
  /** The time in milliseconds, for the length of transactions. */
  readonly now?: () => number;
}

interface Write {
  readonly works: readonly Work<unknown>[];
  readonly resolve: (results: readonly never[]) => void;
  readonly reject: (error: unknown) => void;
}

interface Outcome {
  /** The results of the works that ran, up to the first that threw. */
  readonly results: unknown[];
  readonly touched: Parameters<Touch>[];
  /** The error of the first work. */
  error?: unknown;
}

/**
 * A transaction takes no further works after this time, number or size: it blocks the event loop, and so does the code
 * that waits for its works.
 */
const maxMs = 10;
const maxWorks = 256;
const maxCharacters = 4 * 1024 * 1024;

/** A queue; it must be the only writer of its connection. */
export function createWriteQueue(database: Database, options: WriteQueueOptions): WriteQueue {
  const { touch, recordChanges, now = () => performance.now() } = options;
  let waiting: Write[] = [];
  let isScheduled = false;
  let isWriting = false;

  /** At the end of this event-loop turn, so that all writes of a turn share a transaction. */
  function schedule(): void {
    if (isWriting || isScheduled) return;
    isScheduled = true;
    setImmediate(flush);
  }

  async function flush(): Promise<void> {
    isScheduled = false;
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
    if (waiting.length > 0) schedule();
  }

  function settle(write: Write, { results, touched, error }: Outcome): void {
    if (results.length === 0) {
      write.reject(storeFailed(error));
      return;
    }
    for (const [kind, id] of touched) touch(kind, id);
    write.resolve(results as never[]);
  }

  /**
   * Runs the first writes in one transaction and returns their outcomes. Savepoints cost as much as a small write, so
   * they are used only after a work threw, which must leave the others alone.
   */
  function runTogether(writes: readonly Write[]): readonly Outcome[] {
    try {
      return transact(writes, runWork);
    } catch (error) {
      if (isBusy(error) || !(error instanceof Rejection)) throw error;
      return transact(writes, runAlone);
    }
  }

  function transact(writes: readonly Write[], run: typeof runWork): readonly Outcome[] {
    const outcomes = inTransaction(database, "BEGIN IMMEDIATE", () => {
      const [start, given] = [now(), database.given];
      let count = 0;
      const isFull = () =>
        count >= maxWorks || now() - start >= maxMs || database.given - given >= maxCharacters;
      const outcomes: Outcome[] = [];
      for (const { works } of writes) {
        const outcome: Outcome = { results: [], touched: [] };
        outcomes.push(outcome);
        for (const work of works) {
          count += 1;
          if (!run(work, outcome) || isFull()) break;
        }
        if (isFull()) break;
      }
      recordChanges(outcomes.flatMap(({ touched }) => touched));
      return outcomes;
    });
    database.assertOnDisk();
    return outcomes;
  }

  /** Adds the result of a work to the outcome of its write; throws what the work threw. */
  function runWork(work: Work<unknown>, { results, touched }: Outcome): boolean {
    const changes: Parameters<Touch>[] = [];
    try {
      results.push(work((kind, id) => changes.push([kind, id])));
    } catch (error) {
      throw database.isInTransaction && !isBusy(error) ? new Rejection(error) : error;
    }
    for (const change of changes) touched.push(change);
    return true;
  }

  /** Like `runWork`; returns false for a work that threw and was rolled back. */
  function runAlone(work: Work<unknown>, outcome: Outcome): boolean {
    database.run("SAVEPOINT write");
    try {
      runWork(work, outcome);
      database.run("RELEASE write");
      return true;
    } catch (error) {
      // A disk error may have rolled back the whole transaction.
      if (!(error instanceof Rejection)) throw error;
      database.run("ROLLBACK TO write");
      database.run("RELEASE write");
      outcome.error = error.cause;
      return false;
    }
  }

  function writeInOrder<Result>(works: readonly Work<Result>[]): Promise<readonly Result[]> {
    return new Promise((resolve, reject) => {
      waiting.push({ works, resolve, reject });
      schedule();
    });
  }

  return {
    writeInOrder,
    async drain() {
      // An empty write settles after all earlier ones, whose callers get their own errors.
      if (isWriting || waiting.length > 0) await writeInOrder([() => {}]).catch(() => {});
    },
  };
}

/** A write that threw, as its cause, while the transaction is still open. */
class Rejection extends Error {
  constructor(cause: unknown) {
    super("The write was rejected.", { cause });
  }
}
