import { RivuletError, type Store } from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing/index.ts";
import type { Random } from "../../../support/random.ts";

/** A process on a shared store, in this one: it has its own clock and its own way to the store. */
export interface SimulatedProcess {
  readonly name: string;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly state: "alive" | "paused" | "dead";
  /** From now on nothing that it asks of the store comes back, as if it were killed. */
  kill(): void;
  /** From now on the store refuses it, and it knows. */
  cutOff(): void;
  /** What it asks of the store has to wait. */
  pause(): void;
  goOn(): void;
  /** Ends what a killed process has left in this one. */
  bury(): void;
}

/** How a process differs from others. */
export interface ProcessOptions {
  readonly name: string;
  /** What its clock shows. */
  readonly now: number;
  /** For how long each of its steps takes. */
  readonly random: Random;
}

/** Starts a process. Everything that it asks of the store takes a while, now more and now less. */
export function simulateProcess(shared: Store, options: ProcessOptions): SimulatedProcess {
  const { name, now, random } = options;
  let state: SimulatedProcess["state"] = "alive";
  let isCutOff = false;
  let running = Promise.withResolvers<void>();
  running.resolve();
  const grave = Promise.withResolvers<never>();
  grave.promise.catch(() => {});
  const isDead = () => state === "dead";
  const gone = () => new RivuletError("fenced", "The store is gone.");

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
    acquire: (...args) => reach(() => shared.acquire(...args)),
    renew: (...args) => reach(() => shared.renew(...args)),
    release: (...args) => reach(() => shared.release(...args)),
    expired: (...args) => reach(() => shared.expired(...args)),
    commit: (...args) => reach(() => shared.commit(...args)),
    post: (...args) => reach(() => shared.post(...args)),
    posts: (...args) => reach(() => shared.posts(...args)),
    read: (...args) => reach(() => shared.read(...args)),
    last: (...args) => reach(() => shared.last(...args)),
    trim: (...args) => reach(() => shared.trim(...args)),
    snapshot: (...args) => reach(() => shared.snapshot(...args)),
    session: (...args) => reach(() => shared.session(...args)),
    sessions: (...args) => reach(() => shared.sessions(...args)),
    search: (...args) => reach(() => shared.search(...args)),
    deleteSession: (...args) => reach(() => shared.deleteSession(...args)),
    task: (...args) => reach(() => shared.task(...args)),
    tasks: (...args) => reach(() => shared.tasks(...args)),
    watch: (key, wake) => shared.watch(key, () => isDead() || wake()),
    files: shared.files,
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
