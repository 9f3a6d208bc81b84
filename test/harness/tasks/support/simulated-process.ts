import { RivuletError, type Store } from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing.ts";
import { callsThrough } from "../../../support/calls-through.ts";
import type { Random } from "../../../support/random.ts";

/** A simulated process with its own clock and its own connection to a shared store. */
export interface SimulatedProcess {
  readonly name: string;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly state: "alive" | "paused" | "dead";
  /** Stops all replies of the store, as if the process were killed. */
  kill(): void;
  /** Makes the store refuse all its calls. */
  cutOff(): void;
  /** Delays its calls of the store. */
  pause(): void;
  goOn(): void;
  /** Ends the leftover work of a killed process. */
  bury(): void;
}

/** Options of a process. */
export interface ProcessOptions {
  readonly name: string;
  /** The initial time of its clock. */
  readonly now: number;
  /** Chooses the duration of each store call. */
  readonly random: Random;
}

/** Starts a process. Its store calls take a random time. */
export function simulateProcess(shared: Store, options: ProcessOptions): SimulatedProcess {
  const { name, now, random } = options;
  let state: SimulatedProcess["state"] = "alive";
  let isCutOff = false;
  let running = Promise.withResolvers<void>();
  running.resolve();
  const grave = Promise.withResolvers<never>();
  grave.promise.catch(() => {});
  const isDead = () => state === "dead";
  const gone = () => new RivuletError("store_failed", "The store is gone.");

  async function reach<T>(ask: () => Promise<T>): Promise<T> {
    for (let turns = random.int(0, 2); turns > 0; turns--) await turn();
    await running.promise;
    if (isCutOff) throw gone();
    if (isDead()) return grave.promise;
    const answer = await ask();
    if (isCutOff) throw gone();
    return isDead() ? grave.promise : answer;
  }

  const store: Store = {
    ...callsThrough(shared, reach),
    watch: (key, wake) => shared.watch(key, () => isDead() || wake()),
    files: shared.files,
    ...(shared.memory && { memory: shared.memory }),
    close: () => Promise.resolve(),
  };

  return {
    name,
    store,
    clock: new ManualClock(now),
    get state() {
      return state;
    },
    kill() {
      state = "dead";
      running.resolve();
    },
    cutOff() {
      state = "dead";
      isCutOff = true;
      running.resolve();
    },
    pause() {
      if (state !== "alive") return;
      state = "paused";
      running = Promise.withResolvers<void>();
    },
    goOn() {
      if (state !== "paused") return;
      state = "alive";
      running.resolve();
    },
    bury() {
      isCutOff = true;
      grave.reject(gone());
    },
  };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
