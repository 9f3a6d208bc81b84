import type { Clock } from "../protocol/clock.ts";

interface Sleeper {
  readonly ms: number;
  readonly due: number;
  wake(): void;
}

/** Which sleepers to wait for. */
export interface Sleepers {
  /** Only those who sleep for exactly so long; of any length when absent. */
  readonly ms?: number;
  /** At least so many of them; one by default. */
  readonly count?: number;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number;
  /** In the order in which they wake: by due time, then by who fell asleep first. */
  readonly #sleepers: Sleeper[] = [];
  /** Each looks again when somebody falls asleep, and says whether it has seen enough. */
  readonly #watchers = new Set<() => boolean>();

  constructor(now = 0) {
    this.#now = now;
  }

  /** How many sleepers wait for time to pass. */
  get pending(): number {
    return this.#sleepers.length;
  }

  now(): number {
    return this.#now;
  }

  /** Wakes when `advance` reaches it; at once for zero or less, since no time has to pass. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
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
      const later = this.#sleepers.findIndex((other) => other.due > sleeper.due);
      this.#sleepers.splice(later === -1 ? this.#sleepers.length : later, 0, sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
      for (const watcher of this.#watchers) if (watcher()) this.#watchers.delete(watcher);
    });
  }

  /** Resolves once enough sleepers wait: before `advance`, when what should wake may still be on its way to sleep. */
  sleeping({ ms, count = 1 }: Sleepers = {}): Promise<void> {
    return new Promise((resolve) => {
      const watcher = () => {
        const fitting = this.#sleepers.filter((sleeper) => ms === undefined || sleeper.ms === ms);
        if (fitting.length < count) return false;
        resolve();
        return true;
      };
      if (!watcher()) this.#watchers.add(watcher);
    });
  }

  /** Moves time on, waking whoever is due on the way, one by one; each runs as far as it can before the next. */
  async advance(ms: number): Promise<void> {
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

/** A macrotask: every microtask queued before it, and all they queue, has run by then. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
