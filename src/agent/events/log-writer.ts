import type { LogEvent } from "../../protocol/event.ts";
import type { Commit, Store } from "../../protocol/store.ts";
import { makeRoom } from "../../store/index.ts";
import { sha256 } from "../base/plain.ts";

/** The loop yields beyond this many events that are not durable, so that a fast model does not starve the writer. */
const maxPending = 512;
/** The store gets at most this many steps at a time, because it encodes them all in one turn of the event loop. */
const maxSteps = 128;
/** How long the events of durable logs wait, because a transaction costs as much as a hundred events. */
const holdMs = 20;
/** The writers of durable logs with waiting events. One timer for all, so that all logs share a transaction. */
const held = new Set<LogWriter>();
const maxFlushedPerTurn = 200;

async function flushHeld(): Promise<void> {
  const writers = [...held];
  held.clear();
  for (const [index, writer] of writers.entries()) {
    if (index % maxFlushedPerTurn === maxFlushedPerTurn - 1) await nextTurn();
    void writer.flush(); // the next commit throws the error of a failed write
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A step of a log: its changes and its events. */
export type Step = Omit<Commit, "lease">;
/** The changes of a step besides its events. */
export type StepChange = Omit<Step, "log" | "events">;

interface WaitingStep extends PromiseWithResolvers<void> {
  readonly step: Step & { readonly events: readonly LogEvent[] };
  /** Resolves when the blobs that its events name are stored. */
  readonly blobs: Promise<unknown> | undefined;
}

/**
 * The writer of one log. Events become visible when they are durable. A step's changes and all events up to that moment
 * are one atomic commit. Steps that wait while the store writes go down together, in order.
 */
export class LogWriter {
  readonly rootTaskId: string;
  #write: (steps: readonly Step[]) => Promise<number>;
  readonly #store: Store | undefined;
  #pending: LogEvent[] = [];
  #undurable = 0;
  readonly #waiting: WaitingStep[] = [];
  /** Settles with the last step. */
  #written: Promise<void> = Promise.resolve();
  #writing: Promise<void> | undefined;
  #blobs: Promise<unknown> | undefined;
  #makingRoom: Promise<void> | undefined;

  /** `write` resolves with the number of steps that are durable, at least 1; it rejects when the first is refused. */
  constructor(
    rootTaskId: string,
    write: (steps: readonly Step[]) => Promise<number>,
    store?: Store,
  ) {
    this.rootTaskId = rootTaskId;
    this.#write = write;
    this.#store = store;
  }

  get #isDurable(): boolean {
    return this.#store !== undefined && this.#store.memory === undefined;
  }

  /** Stores bytes that events name by the returned URL; they are durable before those events are. */
  addBlob(taskId: string, bytes: Uint8Array): string {
    const name = `sha256-${sha256(bytes)}`;
    const stored = this.#store?.files.put(`blobs/${taskId}/${name}`, bytes);
    this.#blobs = Promise.all([this.#blobs, stored]);
    this.#blobs.catch(() => {}); // the next commit throws
    return `task://${taskId}/blobs/${name}`;
  }

  /** Queues an event, which is written with the next step; without one in the next turn, or after `holdMs`. */
  append(event: LogEvent): void {
    this.#undurable += 1;
    if (this.#pending.push(event) > 1) return;
    if (!this.#isDurable) {
      setImmediate(() => void this.flush()); // the next commit throws the error of a failed write
      return;
    }
    if (held.size === 0) setTimeout(flushHeld, holdMs);
    held.add(this);
  }

  /**
   * Returns a promise if the loop should wait: for the writer and other work of the event loop, or for the log's
   * readers to make room.
   */
  catchUp(): Promise<void> | undefined {
    return this.#undurable >= maxPending ? this.flush().then(nextTurn) : this.#makingRoom;
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
    const step = { log: this.rootTaskId, events: this.#pending, ...change };
    const waiting = { ...Promise.withResolvers<void>(), step, blobs: this.#blobs };
    this.#pending = [];
    this.#blobs = undefined;
    this.#waiting.push(waiting);
    this.#written = waiting.promise;
    this.#written.catch(() => {}); // not every caller waits
    this.#writing ??= this.#writeWaiting();
    return this.#written;
  }

  /** Gives the store the waiting steps in order, one list at a time: a step after a refused one would leave a gap. */
  async #writeWaiting(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        await (this.#isDurable && nextTurn()); // the steps of one turn share a transaction
        const steps = this.#nextSteps();
        await steps[0]?.blobs;
        const written = await this.#write(steps.map(({ step }) => step));
        for (const { step, resolve } of this.#waiting.splice(0, written)) {
          this.#undurable -= step.events.length;
          resolve();
        }
        this.#makeRoom();
      }
    } catch (error) {
      this.#write = () => Promise.reject(error); // later steps fail as well
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    }
    this.#writing = undefined;
  }

  /** The first waiting steps, up to one that waits for blobs. */
  #nextSteps(): readonly WaitingStep[] {
    let count = 0;
    const end = this.#waiting.findIndex(({ step, blobs }, index) => {
      count += step.events.length;
      return index > 0 && (blobs || count > maxPending || index === maxSteps);
    });
    return this.#waiting.slice(0, end < 0 ? undefined : end);
  }

  /** Trims a full log; after an error the next write tries again. */
  #makeRoom(): void {
    if (this.#store === undefined || this.#makingRoom !== undefined) return;
    const done = () => {
      this.#makingRoom = undefined;
    };
    this.#makingRoom = makeRoom(this.#store, this.rootTaskId)?.then(done, done);
  }
}
