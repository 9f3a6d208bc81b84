import { createHash } from "node:crypto";
import type { LogEvent } from "../../protocol/event.ts";
import type { Commit, Files, Store, StoreMemory } from "../../protocol/store.ts";
import { trimLog } from "../../store/index.ts";

/** The loop yields beyond this many events that are not durable, so that a fast model does not starve the writer. */
const maxPending = 512;
/** The store gets at most this many commits at a time, because it encodes them all in one turn of the event loop. */
const maxCommits = 128;
/**
 * How long the events of a durable log wait for a step, or for the events of other logs, to share a transaction: one
 * transaction costs as much as a hundred events.
 */
const holdMs = 20;
/** The writers of durable logs whose events wait. One timer for all, so that all logs share a transaction. */
const held = new Set<LogWriter>();
/** How many of them are flushed before the event loop turns. */
const maxFlushed = 200;

async function flushHeld(): Promise<void> {
  const writers = [...held];
  held.clear();
  for (const [index, writer] of writers.entries()) {
    if (index > 0 && index % maxFlushed === 0) await nextTurn();
    // The next commit throws the error of a failed write.
    writer.flush().catch(() => {});
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The changes of a step besides its events. */
export type StepChange = Omit<Commit, "lease" | "log" | "events">;
/** A step of a log: its changes and its events. */
export type Step = Omit<Commit, "lease">;

interface WaitingStep {
  readonly step: Step;
  readonly count: number;
  /** Resolves when the blobs that its events name are stored. */
  readonly blobs: Promise<unknown> | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The writer of one log. Events become visible when they are durable. A step's changes and all events up to that moment
 * are one atomic commit. Steps that wait while the store writes go down together, in order.
 */
export class LogWriter {
  readonly rootTaskId: string;
  readonly #write: (steps: readonly Step[]) => Promise<number>;
  #pending: LogEvent[] = [];
  #undurable = 0;
  #waiting: WaitingStep[] = [];
  /** Settles with the last step. */
  #written: Promise<void> = Promise.resolve();
  #isWriting = false;
  #isScheduled = false;
  #failure: { readonly error: unknown } | undefined;
  readonly #room: LogRoom | undefined;
  readonly #files: Pick<Files, "put"> | undefined;
  readonly #isDurable: boolean;
  #blobs: Promise<unknown> | undefined;
  #makingRoom: Promise<void> | undefined;

  /** `write` resolves with the number of steps that are durable, at least 1, or rejects when the first is refused. */
  constructor(
    rootTaskId: string,
    write: (steps: readonly Step[]) => Promise<number>,
    store?: Store,
  ) {
    this.rootTaskId = rootTaskId;
    this.#write = write;
    this.#room = store && logRoom(store, rootTaskId);
    this.#files = store?.files;
    this.#isDurable = store !== undefined && store.memory === undefined;
  }

  /** Stores bytes that events name by the returned URL; they are durable before those events are. */
  addBlob(taskId: string, bytes: Uint8Array): string {
    const name = `sha256-${createHash("sha256").update(bytes).digest("hex")}`;
    const stored = this.#files?.put(`blobs/${taskId}/${name}`, bytes);
    this.#blobs = Promise.all([this.#blobs, stored]);
    this.#blobs.catch(() => {}); // the next commit throws
    return `task://${taskId}/blobs/${name}`;
  }

  /** Queues an event, which is written with the next step, in the next turn of the event loop or when it was held. */
  append(event: LogEvent): void {
    this.#pending.push(event);
    this.#undurable += 1;
    if (this.#isDurable) {
      if (held.size === 0) setTimeout(flushHeld, holdMs);
      held.add(this);
      return;
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // The next commit throws the error of a failed write.
      this.flush().catch(() => {});
    });
  }

  /**
   * Returns a promise if the loop should wait: for the writer and other work of the event loop, or for the log's
   * readers to make room.
   */
  catchUp(): Promise<void> | undefined {
    return this.#undurable >= maxPending ? this.#flushAndYield() : this.#makingRoom;
  }

  async #flushAndYield(): Promise<void> {
    await this.flush();
    await nextTurn();
  }

  /** Resolves when everything so far is durable. */
  flush(): Promise<void> {
    return this.#pending.length === 0 ? this.#written : this.commit({});
  }

  /**
   * Commits a change and every event so far, atomically. Takes the events now and not after the pending writes, so that
   * an event is never written without the change it belongs to.
   */
  commit(change: StepChange): Promise<void> {
    const events = this.#pending;
    this.#pending = [];
    const blobs = this.#blobs;
    this.#blobs = undefined;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const step = { log: this.rootTaskId, events, ...change };
    this.#waiting.push({ step, count: events.length, blobs, resolve, reject });
    this.#written = promise;
    promise.catch(() => {}); // not every caller waits
    if (!this.#isWriting) {
      this.#isWriting = true;
      void this.#writeWaiting();
    }
    return promise;
  }

  /** Gives the store the waiting steps in order, one list at a time: a step after a refused one would leave a gap. */
  async #writeWaiting(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        // The steps of one turn of the event loop share a transaction.
        if (this.#isDurable) await nextTurn();
        else await undefined;
        if (this.#failure) throw this.#failure.error;
        const steps = this.#nextSteps();
        await steps[0]?.blobs;
        const written = await this.#write(steps.map(({ step }) => step));
        for (const { count, resolve } of this.#waiting.splice(0, written)) {
          this.#undurable -= count;
          resolve();
        }
        this.#makeRoom();
      }
    } catch (error) {
      this.#failure = { error };
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    }
    this.#isWriting = false;
  }

  /** The first waiting steps, up to the first that waits for blobs. */
  #nextSteps(): readonly WaitingStep[] {
    const steps: WaitingStep[] = [];
    let count = 0;
    for (const step of this.#waiting) {
      if (steps.length > 0 && (step.blobs || count + step.count > maxPending)) break;
      count += step.count;
      if (steps.push(step) === maxCommits) break;
    }
    return steps;
  }

  /** Trims a full log; after an error the next write tries again. */
  #makeRoom(): void {
    if (this.#makingRoom !== undefined || !this.#room?.isFull()) return;
    const done = () => {
      this.#makingRoom = undefined;
    };
    this.#makingRoom = this.#room.make().then(done, done);
  }
}

/** A reader of a log in memory. */
export interface LogReader {
  /** Reports that the reader has read more, so that a waiting writer checks for room. */
  moved(): void;
  leave(): void;
}

/** The space that a log in memory may take. */
export interface LogRoom {
  isFull(): boolean;
  /** Trims the beginning of the log as soon as the slowest reader has read it. */
  make(): Promise<void>;
}

/** The readers of one log in memory. */
interface Readers {
  /** Each returns the number of the last event that its reader has read. */
  readonly positions: Set<() => number>;
  /** Called when a reader has moved or left. */
  readonly waiting: Set<() => void>;
  /** Pending while the log is trimmed. */
  trim?: Promise<void>;
}

// The readers in this process, by store and log. Durable logs are not in the map, because they are not trimmed.
const logsOf = new WeakMap<StoreMemory, Map<string, Readers>>();

function readersOf(memory: StoreMemory, log: string): Readers {
  const logs = logsOf.get(memory) ?? new Map<string, Readers>();
  logsOf.set(memory, logs);
  const readers = logs.get(log) ?? { positions: new Set(), waiting: new Set() };
  logs.set(log, readers);
  return readers;
}

/** Removes the entry of a log that has no readers. */
function removeIfUnused(memory: StoreMemory, log: string): void {
  const { positions, waiting, trim } = readersOf(memory, log);
  if (positions.size + waiting.size === 0 && !trim) logsOf.get(memory)?.delete(log);
}

/**
 * Registers a reader of a log in memory. The log keeps all events after `position`, the number of the last event that the
 * reader has read.
 */
export async function addLogReader(
  { memory }: Store,
  log: string,
  position: () => number,
): Promise<LogReader | undefined> {
  if (memory === undefined) return undefined;
  const readers = readersOf(memory, log);
  readers.positions.add(position);
  const moved = () => {
    for (const wake of readers.waiting) wake();
  };
  await readers.trim?.catch(() => {}); // a pending trim does not know this reader
  return {
    moved,
    leave() {
      readers.positions.delete(position);
      moved();
      removeIfUnused(memory, log);
    },
  };
}

/** The space that a log may take; undefined if the store is durable. */
function logRoom(store: Store, log: string): LogRoom | undefined {
  const { memory } = store;
  if (memory === undefined) return undefined;
  const { maxLogBytes } = memory;
  return {
    isFull: () => memory.logBytes(log) > maxLogBytes,
    async make() {
      for (;;) {
        const oldest = (await store.snapshot(log))?.through ?? -1;
        const last = await store.last(log);
        // Trims to half the limit: new readers still get recent events, and several writes fit.
        const bytes = memory.logBytes(log);
        if (bytes <= maxLogBytes / 2 || oldest === last) return removeIfUnused(memory, log);
        const share = 1 - maxLogBytes / 2 / bytes;
        const through = oldest + Math.ceil((last - oldest) * share);
        const readers = readersOf(memory, log);
        const isRead = [...readers.positions].every((position) => position() >= through);
        if (!isRead) {
          const { promise, resolve } = Promise.withResolvers<void>();
          readers.waiting.add(resolve);
          await promise;
          readers.waiting.delete(resolve);
          continue;
        }
        readers.trim = trimLog(store, log, through);
        await readers.trim.finally(() => {
          delete readers.trim;
          removeIfUnused(memory, log);
        });
      }
    },
  };
}
