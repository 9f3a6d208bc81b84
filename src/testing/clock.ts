import type { Clock } from "../base/clock.ts";
import {
  type Field,
  type Fields,
  integer,
  readArgument,
  readOptions,
  required,
  signal as signalField,
} from "../base/options.ts";

interface Sleeper {
  readonly ms: number;
  readonly due: number;
  wake(): void;
}

/** Which sleepers to wait for. */
export interface Sleepers {
  /** Only sleeps of exactly this length; defaults to any length. */
  readonly ms?: number;
  /** The least number of sleepers; defaults to 1. */
  readonly count?: number;
}

const milliseconds: Field = {
  fits: (value) => typeof value === "number" && !Number.isNaN(value),
  expected: "a number of milliseconds",
};
const sleeperFields: Fields<Sleepers> = { ms: milliseconds, count: integer(0) };

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number;
  /** Sorted by due time, then by the start of the sleep. */
  readonly #sleepers: Sleeper[] = [];
  /** Called at the start of every sleep; returns true when it is done. */
  readonly #watchers = new Set<() => boolean>();

  constructor(now = 0) {
    this.#now = readArgument("now", now, milliseconds);
  }

  /** The number of pending sleeps. */
  get pending(): number {
    return this.#sleepers.length;
  }

  now(): number {
    return this.#now;
  }

  /** Resolves when `advance` reaches the due time; immediately for zero or less. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      readArgument("ms", ms, required(milliseconds));
      readArgument("signal", signal, signalField);
      if (signal?.aborted) return reject(signal.reason);
      if (ms <= 0) return resolve();
      const onAbort = () => {
        this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        ms,
        due: this.#now + ms,
        wake() {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      const later = this.#sleepers.findIndex(({ due }) => due > sleeper.due);
      this.#sleepers.splice(later === -1 ? this.#sleepers.length : later, 0, sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
      for (const watcher of this.#watchers) if (watcher()) this.#watchers.delete(watcher);
    });
  }

  /** Resolves once enough sleeps are pending; await it before `advance` when they may not have started yet. */
  sleeping(sleepers: Sleepers = {}): Promise<void> {
    return new Promise((resolve) => {
      const { ms, count = 1 } = readOptions("sleeping()", sleepers, sleeperFields);
      const watcher = () => {
        const matching = this.#sleepers.filter((sleeper) => ms === undefined || sleeper.ms === ms);
        if (matching.length < count) return false;
        resolve();
        return true;
      };
      if (!watcher()) this.#watchers.add(watcher);
    });
  }

  /** Moves time and wakes due sleepers in order; each runs until it waits before the next one wakes. */
  async advance(ms: number): Promise<void> {
    readArgument("ms", ms, required(milliseconds));
    const target = this.#now + ms;
    await settle();
    for (;;) {
      const next = this.#sleepers[0];
      if (next === undefined || next.due > target) break;
      this.#sleepers.shift();
      this.#now = Math.max(this.#now, next.due);
      next.wake();
      await settle();
    }
    this.#now = Math.max(this.#now, target);
  }
}

/** Resolves in a macrotask, after all pending microtasks. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
