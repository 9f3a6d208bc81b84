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
  /** The error of the work that threw. */
  error?: unknown;
}

/**
 * A transaction takes no further works after this time, number or size: it blocks the event loop, and so does the code
 * that waits for its works.
 */
const maxMs = 10;
const maxWorks = 256;
const maxCharacters = 4 * 1024 * 1024;

/** Thrown to run a transaction again, with savepoints. */
const needsSavepoints = new Error("A work was rejected.");

/** A queue; it must be the only writer of its connection. */
export function createWriteQueue(database: Database, options: WriteQueueOptions): WriteQueue {
  const { touch, recordChanges, now = () => performance.now() } = options;
  let waiting: Write[] = [];
  /** A flush runs or is due at the end of this event-loop turn, so that all writes of a turn share a transaction. */
  let isActive = false;

  async function flush(): Promise<void> {
    const writes = waiting;
    waiting = [];
    try {
      const outcomes = await whenUnlocked(() => runTogether(writes));
      waiting = writes.slice(outcomes.length).concat(waiting);
      for (const [index, outcome] of outcomes.entries()) settle(writes[index] as Write, outcome);
    } catch (error) {
      for (const write of writes) write.reject(error);
    }
    isActive = waiting.length > 0;
    if (isActive) setImmediate(flush);
  }

  function settle(write: Write, { results, touched, error }: Outcome): void {
    if (results.length === 0) {
      write.reject(storeFailed(error));
      return;
    }
    for (const change of touched) touch(...change);
    write.resolve(results as never[]);
  }

  /**
   * Runs the first writes in one transaction and returns their outcomes. Savepoints cost as much as a small write, so
   * they are used only after a work threw, which must leave the others alone.
   */
  function runTogether(writes: readonly Write[]): readonly Outcome[] {
    try {
      return transact(writes, false);
    } catch (error) {
      if (error !== needsSavepoints) throw error;
      return transact(writes, true);
    }
  }

  function transact(writes: readonly Write[], hasSavepoints: boolean): readonly Outcome[] {
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
          run(work, outcome, hasSavepoints);
          if (outcome.error !== undefined || isFull()) break;
        }
        if (isFull()) break;
      }
      recordChanges(outcomes.flatMap(({ touched }) => touched));
      return outcomes;
    });
    database.assertOnDisk();
    return outcomes;
  }

  /** Adds the result of a work to the outcome of its write, or its error. */
  function run(work: Work<unknown>, outcome: Outcome, hasSavepoint: boolean): void {
    const touched: Parameters<Touch>[] = [];
    if (hasSavepoint) database.run("SAVEPOINT write");
    try {
      outcome.results.push(work((...change) => touched.push(change)));
      for (const change of touched) outcome.touched.push(change);
    } catch (error) {
      // A disk error may have rolled back the whole transaction.
      if (!database.isInTransaction || isBusy(error)) throw error;
      if (!hasSavepoint) throw needsSavepoints;
      database.run("ROLLBACK TO write");
      outcome.error = error;
    }
    if (hasSavepoint) database.run("RELEASE write");
  }

  function writeInOrder<Result>(works: readonly Work<Result>[]): Promise<readonly Result[]> {
    return new Promise((resolve, reject) => {
      waiting.push({ works, resolve, reject });
      if (!isActive) setImmediate(flush);
      isActive = true;
    });
  }

  return {
    writeInOrder,
    async drain() {
      // An empty write settles after all earlier ones, whose callers get their own errors.
      if (isActive) await writeInOrder([() => {}]).catch(() => {});
    },
  };
}
