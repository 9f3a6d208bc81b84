import type { LogEvent } from "../protocol/event.ts";
import type { Commit } from "../protocol/store.ts";
import type { LogRoom } from "./log-room.ts";

/** A fast model must not starve the writer: beyond this many events that are not yet durable, the loop yields. */
const maxPending = 512;

/** What a step changes besides the events. */
export type StepChange = Omit<Commit, "lease" | "log" | "events">;

/**
 * The writer of one log. Events become visible when they are durable; what a step changes goes with all events up to
 * that moment in one atomic commit.
 */
export class LogWriter {
  readonly rootTaskId: string;
  readonly #write: (step: Omit<Commit, "lease">) => Promise<void>;
  #pending: LogEvent[] = [];
  #undurable = 0;
  #written: Promise<void> = Promise.resolve();
  #scheduled = false;
  readonly #room: LogRoom | undefined;
  #makingRoom: Promise<void> | undefined;

  /** `room`: absent when the log may grow for ever. */
  constructor(
    rootTaskId: string,
    write: (step: Omit<Commit, "lease">) => Promise<void>,
    room?: LogRoom,
  ) {
    this.rootTaskId = rootTaskId;
    this.#write = write;
    this.#room = room;
  }

  /** Takes an event over; it is written with the next step, or soon. */
  append(event: LogEvent): void {
    this.#pending.push(event);
    this.#undurable += 1;
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      // A failed write reaches whoever commits next, and aborts what is driven here.
      this.flush().catch(() => {});
    });
  }

  /**
   * A promise when the loop should let the writer catch up, and whoever else waits for the event loop; or when the log
   * has no room until its readers have read on.
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
   * One atomic commit: this change, and every event so far. The events are taken now and not when the writes before
   * it have ended, so that an event never travels without the change that it was emitted with.
   */
  commit(change: StepChange): Promise<void> {
    const events = this.#pending;
    this.#pending = [];
    const log = this.rootTaskId;
    // After a failure nothing more is written: the log would have a hole.
    this.#written = this.#written.then(() => this.#write({ log, events, ...change }));
    this.#written.then(
      () => {
        this.#undurable -= events.length;
        if (events.length > 0) this.#makeRoom();
      },
      () => {},
    );
    return this.#written;
  }

  /** Begins when a write has left too little; what cannot be let go of now is tried again after the next one. */
  #makeRoom(): void {
    if (this.#makingRoom !== undefined || !this.#room?.isFull()) return;
    const done = () => {
      this.#makingRoom = undefined;
    };
    this.#makingRoom = this.#room.make().then(done, done);
  }
}
