import { after, type Clock, systemClock } from "../../base/clock.ts";
import { nextTurn } from "../../base/time.ts";

/** How long the events of durable logs wait, because a transaction costs as much as a hundred events. */
const holdMs = 20;
const maxFlushedPerTurn = 200;

/** A writer with events that wait for a step. */
export interface HeldWriter {
  /** Writes the events that waited. */
  writeHeld(): void;
}

/** The writers of a process with waiting events. One timer for all: it costs less, and durable logs share a transaction. */
export class FlushQueue {
  readonly #clock: Pick<Clock, "sleep">;
  #durable: HeldWriter[] = [];
  #memory: HeldWriter[] = [];

  constructor(clock: Pick<Clock, "sleep"> = systemClock) {
    this.#clock = clock;
  }

  /** Flushes a writer after `holdMs` if its log is durable, else in the next turn. */
  add(writer: HeldWriter, isDurable: boolean): void {
    const held = isDurable ? this.#durable : this.#memory;
    if (held.push(writer) > 1) return;
    if (isDurable) after(this.#clock, holdMs, () => this.#flushDurable());
    else setImmediate(() => this.#flushMemory());
  }

  #flushDurable(): Promise<void> {
    const writers = this.#durable;
    this.#durable = [];
    return flush(writers);
  }

  #flushMemory(): Promise<void> {
    const writers = this.#memory;
    this.#memory = [];
    return flush(writers);
  }
}

async function flush(writers: readonly HeldWriter[]): Promise<void> {
  let flushed = 0;
  for (const writer of writers) {
    if (++flushed % maxFlushedPerTurn === 0) await nextTurn();
    writer.writeHeld();
  }
}
