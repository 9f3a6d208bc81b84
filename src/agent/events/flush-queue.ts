import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { after, type Clock, systemClock } from "../../base/clock.ts";
import { nextTurn } from "../../base/time.ts";
import type { FlushMs } from "../../contract/index.ts";

/** How long the events of durable logs wait at least, because a transaction costs as much as a hundred events. */
const durableMs = 20;
/** The longest adaptive window; readers do not notice it. */
const longestMs = 50;
/** The window grows from its shortest to its longest while the event loop is at work for these shares of its time. */
const idleShare = 0.1;
const busyShare = 0.25;
const measureEveryMs = 100;
/** How much a window grows at a time, so that a short burst merges nothing that a person would see apart. */
const maxGrowthMs = 10;
/** How often the first delta of a block may end a window. */
const hurryEveryMs = 5;
const maxFlushedPerTurn = 200;
/** Beyond this many events that are not durable, all models wait. */
const maxUnwritten = 100_000;
/** A process whose windows end so much too late takes no new runs. */
const maxLateMs = 1_000;

/** A writer with events that wait for a step. */
export interface HeldWriter {
  /** Writes the events that waited. */
  writeHeld(): void;
}

/** The parts of a process that its queue uses. */
export interface FlushQueueOptions {
  readonly isDurable?: boolean;
  readonly flushMs?: FlushMs | undefined;
  readonly clock?: Pick<Clock, "now" | "sleep">;
  /** The share of its time that the event loop was at work since the last call. */
  readonly utilization?: () => number;
}

/** The writers of a process with waiting events. One timer for all: it costs less, and durable logs share a transaction. */
export class FlushQueue {
  /** How many events are not durable yet. */
  unwritten = 0;
  /** Totals since the process started; `events` counts merged events too. */
  readonly written = { events: 0, steps: 0, commits: 0, commitMs: 0, errors: 0 };
  readonly #isDurable: boolean;
  readonly #clock: Pick<Clock, "now" | "sleep">;
  readonly #utilization: () => number;
  #flushMs: FlushMs | undefined;
  #adaptiveMs: number;
  #measuredAt = 0;
  #hurriedAt = 0;
  #held: HeldWriter[] = [];
  #cancelTimer: (() => void) | undefined;
  /** When the window should end, and how late the last one was. */
  #dueAt = 0;
  #late = { at: 0, ms: 0 };

  constructor(options: FlushQueueOptions = {}) {
    const { isDurable = false, flushMs, clock = systemClock } = options;
    this.#isDurable = isDurable;
    this.#flushMs = flushMs;
    this.#clock = clock;
    this.#utilization = options.utilization ?? loopUtilization();
    this.#adaptiveMs = this.#shortestMs;
  }

  /** Whether deltas of a block that wait together become one; in an adaptive window only under load. */
  get merges(): boolean {
    if (this.#flushMs === "adaptive") return this.#adaptiveMs > this.#shortestMs;
    return this.#flushMs !== undefined && this.#flushMs !== 0;
  }

  /** Whether so much waits for the store that models must wait. */
  get isFull(): boolean {
    return this.unwritten > maxUnwritten;
  }

  /** Whether the process has more to do than it can. */
  get isOverloaded(): boolean {
    const { at, ms } = this.#late;
    return this.isFull || (ms > maxLateMs && this.#clock.now() - at < 2 * maxLateMs);
  }

  /** How long the next events wait. */
  get windowMs(): number {
    const flushMs = this.#flushMs ?? this.#shortestMs;
    return flushMs === "adaptive" ? this.#adaptiveMs : flushMs;
  }

  get #shortestMs(): number {
    return this.#isDurable ? durableMs : 0;
  }

  /** Adapts the window to the load, unless the store's options set it. */
  adapt(): void {
    this.#flushMs ??= "adaptive";
  }

  /** Flushes a writer at the end of the window; in the next turn if it has no length. */
  add(writer: HeldWriter): void {
    if (this.#held.push(writer) > 1) return;
    const ms = this.windowMs;
    this.#dueAt = this.#clock.now() + ms;
    if (ms < 1) setImmediate(this.#flush);
    else this.#cancelTimer = after(this.#clock, ms, this.#flush);
  }

  /** Ends the window early for the first delta of a block. */
  hurry(): void {
    if (!this.merges || this.#cancelTimer === undefined) return;
    const now = this.#clock.now();
    if (now - this.#hurriedAt < hurryEveryMs) return;
    this.#hurriedAt = now;
    this.#cancelTimer();
    this.#cancelTimer = undefined;
    setImmediate(this.#flush);
  }

  readonly #flush = async (): Promise<void> => {
    const writers = this.#held;
    this.#held = [];
    this.#cancelTimer = undefined;
    const now = this.#clock.now();
    this.#late = { at: now, ms: now - this.#dueAt };
    if (this.#flushMs === "adaptive") this.#measure(now);
    let flushed = 0;
    for (const writer of writers) {
      if (++flushed % maxFlushedPerTurn === 0) await nextTurn();
      writer.writeHeld();
    }
  };

  #measure(now: number): void {
    if (now - this.#measuredAt < measureEveryMs) return;
    const isFirst = this.#measuredAt === 0;
    this.#measuredAt = now;
    const share = (this.#utilization() - idleShare) / (busyShare - idleShare);
    if (isFirst) return; // it includes the start of the process
    const range = longestMs - this.#shortestMs;
    const wanted = Math.round(this.#shortestMs + range * Math.min(1, Math.max(0, share)));
    this.#adaptiveMs = Math.min(wanted, this.#adaptiveMs + maxGrowthMs);
  }
}

function loopUtilization(): () => number {
  let last: EventLoopUtilization | undefined;
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
