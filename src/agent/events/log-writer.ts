import { createHash } from "node:crypto";
import type { LogEvent } from "../../protocol/event.ts";
import type { Commit, Files, Store, StoreMemory } from "../../protocol/store.ts";
import { trimLog } from "../../store/index.ts";

/** The loop yields beyond this many events that are not durable, so that a fast model does not starve the writer. */
const maxPending = 512;

/** The changes of a step besides its events. */
export type StepChange = Omit<Commit, "lease" | "log" | "events">;

/**
 * The writer of one log. Events become visible when they are durable. A step's changes and all events up to that moment
 * are one atomic commit.
 */
export class LogWriter {
  readonly rootTaskId: string;
  readonly #write: (step: Omit<Commit, "lease">) => Promise<void>;
  #pending: LogEvent[] = [];
  #undurable = 0;
  #written: Promise<void> = Promise.resolve();
  #isScheduled = false;
  readonly #room: LogRoom | undefined;
  readonly #files: Pick<Files, "put"> | undefined;
  #blobs: Promise<unknown> | undefined;
  #makingRoom: Promise<void> | undefined;

  /** `room`: absent if the log may grow without limit. `files`: takes the blobs of the events. */
  constructor(
    rootTaskId: string,
    write: (step: Omit<Commit, "lease">) => Promise<void>,
    room?: LogRoom,
    files?: Pick<Files, "put">,
  ) {
    this.rootTaskId = rootTaskId;
    this.#write = write;
    this.#room = room;
    this.#files = files;
  }

  /** Stores bytes that events name by the returned URL; they are durable before those events are. */
  addBlob(taskId: string, bytes: Uint8Array): string {
    const name = `sha256-${createHash("sha256").update(bytes).digest("hex")}`;
    const stored = this.#files?.put(`blobs/${taskId}/${name}`, bytes);
    this.#blobs = Promise.all([this.#blobs, stored]);
    this.#blobs.catch(() => {}); // the next commit throws
    return `task://${taskId}/blobs/${name}`;
  }

  /** Queues an event, which is written with the next step or in the next turn of the event loop. */
  append(event: LogEvent): void {
    this.#pending.push(event);
    this.#undurable += 1;
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
    await new Promise((resolve) => setImmediate(resolve));
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
    const log = this.rootTaskId;
    // The chain stops at a failure: a later write would leave a gap in the log.
    const blobs = this.#blobs;
    this.#blobs = undefined;
    const write = () => this.#write({ log, events, ...change });
    this.#written = this.#written.then(blobs === undefined ? write : () => blobs.then(write));
    this.#written.then(
      () => {
        this.#undurable -= events.length;
        if (events.length > 0) this.#makeRoom();
      },
      () => {},
    );
    return this.#written;
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
export function logRoom(store: Store, log: string): LogRoom | undefined {
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
