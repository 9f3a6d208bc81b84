import { sha256 } from "../../base/plain.ts";
import { nextTurn } from "../../base/time.ts";
import type { Commit, Lease, Store } from "../../contract/index.ts";
import type { LogEvent } from "../../protocol/index.ts";
import { makeRoom } from "../../store/index.ts";
import { FlushQueue } from "./flush-queue.ts";

/** The loop yields beyond this many events that are not durable, so that a fast model does not starve the writer. */
const maxPending = 512;
/** The store gets at most this many steps at a time, because it encodes them all in one turn of the event loop. */
const maxSteps = 128;

/** A step of a log: its changes and its events. */
export interface Step extends Omit<Commit, "lease"> {
  /** Set when it is written. */
  lease?: Lease;
}
/** The changes of a step besides its events. */
export type StepChange = Omit<Commit, "lease" | "log" | "events">;

interface WaitingStep {
  readonly step: Step & { readonly events: LogEvent[] };
  /** How many events it has, those that were merged included. */
  weight: number;
  /** It has no change and is not sent, so that later events can join it. */
  isOpen: boolean;
  /** Resolves when the blobs that its events name are stored. */
  readonly blobs: Promise<unknown> | undefined;
  /** Settles with the step; absent while nobody waits for it. */
  done: PromiseWithResolvers<void> | undefined;
}

/** The events of a log that wait together, as a token of them. */
export type WaitingEvents = readonly LogEvent[];

/** Shared by writers without pending events; never changed. */
const none: LogEvent[] = [];
const resolved = Promise.resolve();

/** Settles with the step. */
function settled(waiting: WaitingStep): Promise<void> {
  waiting.done ??= Promise.withResolvers<void>();
  waiting.done.promise.catch(() => {}); // not every caller waits
  return waiting.done.promise;
}

/**
 * The writer of one log. Events become visible when they are durable. A step's changes and all events up to that moment
 * are one atomic commit. Steps that wait while the store writes go down together, in order.
 */
export class LogWriter {
  readonly rootTaskId: string;
  readonly #write: (steps: readonly Step[]) => Promise<number>;
  readonly #store: Store | undefined;
  readonly #flushes: FlushQueue;
  readonly #isDurable: boolean;
  #pending: LogEvent[] = none;
  #pendingWeight = 0;
  #undurable = 0;
  #isHeld = false;
  #sentAt = 0;
  readonly #waiting: WaitingStep[] = [];
  /** Rejects after a refused step: later steps fail as well, because the log would have a gap. */
  #failed: Promise<never> | undefined;
  #blobs: Promise<unknown> | undefined;
  #makingRoom: Promise<void> | undefined;
  #catchingUp: Promise<void> | undefined;

  /** `write` resolves with the number of steps that are durable, at least 1; it rejects when the first is refused. */
  constructor(
    rootTaskId: string,
    write: (steps: readonly Step[]) => Promise<number>,
    store?: Store,
    flushes = new FlushQueue(),
  ) {
    this.rootTaskId = rootTaskId;
    this.#flushes = flushes;
    this.#write = write;
    this.#store = store;
    this.#isDurable = store !== undefined && store.memory === undefined;
  }

  /** Stores bytes that events name by the returned URL; they are durable before those events are. */
  addBlob(taskId: string, bytes: Uint8Array): string {
    const name = `sha256-${sha256(bytes)}`;
    const stored = this.#store?.files.put(`blobs/${taskId}/${name}`, bytes);
    this.#blobs = Promise.all([this.#blobs, stored]);
    this.#blobs.catch(() => {}); // the next commit throws
    return `task://${taskId}/blobs/${name}`;
  }

  /**
   * Queues an event, which is written with the next step; without one when the flush queue writes it. Returns the list in
   * which it waits. `isFirst`: it is the first delta of a block, which does not wait for the end of the window.
   */
  append(event: LogEvent, isFirst = false): WaitingEvents {
    this.#count();
    if (this.#pending.length > 0) this.#pending.push(event);
    else {
      this.#pending = [event]; // an array that grows reserves room for 16 more
      if (!this.#isHeld) {
        this.#isHeld = true;
        this.#flushes.add(this);
      }
    }
    if (isFirst) this.#flushes.hurry();
    return this.#pending;
  }

  /** Whether the events of a list still wait and may be merged; the caller then adds to its last event. */
  merge(list: WaitingEvents | undefined): boolean {
    if (list !== this.#pending || !this.#flushes.merges) return false;
    this.#count();
    return true;
  }

  #count(): void {
    this.#pendingWeight += 1;
    this.#undurable += 1;
    this.#flushes.unwritten += 1;
    this.#flushes.written.events += 1;
  }

  /** Writes the events that waited for a step. */
  writeHeld(): void {
    this.#isHeld = false;
    this.#writePending();
  }

  /** Returns a promise, one for thousands of children, if the loop should wait for the writer or for readers. */
  readonly catchUp = (): Promise<void> | undefined => {
    const isFull = this.#flushes.isFull && this.#undurable > 0;
    if (this.#undurable < maxPending && !isFull) return this.#makingRoom;
    const done = () => {
      this.#catchingUp = undefined;
    };
    this.#catchingUp ??= this.flush().then(nextTurn).finally(done);
    return this.#catchingUp;
  };

  /** Resolves when everything so far is durable. */
  flush(): Promise<void> {
    this.#writePending();
    const last = this.#waiting.at(-1);
    return last ? settled(last) : (this.#failed ?? Promise.resolve());
  }

  /** Writes the events so far, with those of an unsent step: else each of thousands of children would make a step. */
  #writePending(): void {
    const last = this.#waiting.at(-1);
    if (this.#pending.length === 0) return;
    if (last?.isOpen && !this.#blobs) {
      for (const event of this.#pending) last.step.events.push(event);
      last.weight += this.#takeWeight();
      this.#pending = none;
    } else this.#add({}, true);
  }

  /** Like `write`, and resolves when the step is durable. */
  commit(change: StepChange): Promise<void> {
    return settled(this.#add(change));
  }

  /** Writes a change with every event so far; the next `commit` or `flush` throws the error of a refused step. */
  write(change: StepChange): void {
    this.#add(change);
  }

  #add(change: StepChange, isOpen = false): WaitingStep {
    const step = { log: this.rootTaskId, events: this.#pending, ...change };
    const weight = this.#takeWeight();
    if (!isOpen) this.#flushes.written.steps += 1;
    const waiting = { step, weight, isOpen, blobs: this.#blobs, done: undefined };
    this.#pending = none;
    this.#blobs = undefined;
    if (this.#waiting.push(waiting) === 1) this.#begin(waiting);
    return waiting;
  }

  #takeWeight(): number {
    const weight = this.#pendingWeight;
    this.#pendingWeight = 0;
    return weight;
  }

  /** Gives the store the waiting steps in order, one list at a time: a step after a refused one would leave a gap. */
  #begin({ blobs }: WaitingStep): void {
    const ready: Promise<unknown> = this.#failed ?? blobs ?? resolved;
    // The steps of one turn share a transaction.
    void (this.#isDurable ? ready.then(nextTurn) : ready).then(this.#send, this.#onRefused);
  }

  // Fields and not methods, because a closure for each write of a thousand runs is work for the garbage collector.
  readonly #send = (): void => {
    this.#sentAt = performance.now();
    void this.#write(this.#nextSteps()).then(this.#onWritten, this.#onRefused);
  };

  readonly #onWritten = (written: number): void => {
    const stats = this.#flushes.written;
    stats.commits += written;
    stats.commitMs += performance.now() - this.#sentAt;
    for (let left = written; left > 0 && this.#waiting.length > 0; left--) {
      const { weight, done } = this.#waiting.shift() as WaitingStep;
      this.#undurable -= weight;
      this.#flushes.unwritten -= weight;
      done?.resolve();
    }
    this.#makeRoom();
    if (this.#waiting[0]) this.#begin(this.#waiting[0]);
  };

  readonly #onRefused = (error: unknown): void => {
    if (this.#failed === undefined) this.#flushes.written.errors += 1;
    this.#failed ??= Promise.reject(error);
    this.#failed.catch(() => {}); // not every caller waits
    for (const { weight, done } of this.#waiting.splice(0)) {
      this.#flushes.unwritten -= weight;
      done?.reject(error);
    }
  };

  /** The first waiting steps, up to one that waits for blobs. */
  #nextSteps(): readonly Step[] {
    const steps: Step[] = [];
    let events = 0;
    for (const waiting of this.#waiting) {
      events += waiting.step.events.length;
      const isFull = events > maxPending || steps.length === maxSteps;
      if (steps.length > 0 && (waiting.blobs || isFull)) break;
      waiting.isOpen = false;
      steps.push(waiting.step);
    }
    return steps;
  }

  /** Trims a full log; after an error the next write tries again. */
  #makeRoom(): void {
    if (this.#store === undefined || this.#makingRoom !== undefined) return;
    const making = makeRoom(this.#store, this.rootTaskId);
    if (making === undefined) return;
    const done = () => {
      this.#makingRoom = undefined;
    };
    this.#makingRoom = making.then(done, done);
  }
}
