import { AsyncLocalStorage } from "node:async_hooks";

/** A machine of a simulation: its timers and messages wait while it is stopped, and vanish when it is killed. */
export interface Machine {
  readonly name: string;
  /** How far its clock is from the time of the simulation. */
  readonly skewMs: number;
  state: "runs" | "stopped" | "killed";
}

/** Something that will happen. */
interface Happening {
  readonly at: number;
  readonly order: number;
  readonly machine: Machine;
  readonly run: () => void;
  isCancelled: boolean;
}

/** A timer of a machine, as `setTimeout` returns it. */
class Timer {
  happening: Happening | undefined;
  isCancelled = false;
  cancel(): void {
    this.isCancelled = true;
    if (this.happening) this.happening.isCancelled = true;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
}

const machines = new AsyncLocalStorage<readonly [VirtualTime, Machine]>();
const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate,
  now: Date.now,
  performanceNow: performance.now.bind(performance),
  random: Math.random,
};
/** The date at which every simulation begins. */
const epoch = Date.UTC(2030, 0, 1);

/** The time of a simulation: what happens is ordered by it, and takes none of it. */
export class VirtualTime {
  readonly #queue: Happening[] = [];
  readonly #held = new Map<Machine, Happening[]>();
  readonly #random: () => number;
  #now = 0;
  #order = 0;

  /** `random` replaces `Math.random` on all machines. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Milliseconds since the simulation began. */
  get now(): number {
    return this.#now;
  }

  /** The number of randomness that the machines see. */
  random(): number {
    return this.#random();
  }

  /** Runs something on a machine after a delay. */
  after(ms: number, machine: Machine, run: () => void): Happening {
    const at = this.#now + Math.max(0, ms);
    const happening = { at, order: this.#order++, machine, run, isCancelled: false };
    let place = this.#queue.length;
    while (place > 0 && (this.#queue[place - 1] as Happening).at > at) place -= 1;
    this.#queue.splice(place, 0, happening);
    return happening;
  }

  /** Resolves after a delay, unless the machine is killed before. */
  sleep(ms: number, machine: Machine): Promise<void> {
    return new Promise((resolve) => this.after(ms, machine, resolve));
  }

  /** Runs something on a machine now. */
  on<T>(machine: Machine, run: () => T): T {
    return machines.run([this, machine], run);
  }

  /** Lets a stopped machine continue: what it missed happens now, in order. */
  resume(machine: Machine): void {
    if (machine.state !== "stopped") return;
    machine.state = "runs";
    for (const { run } of this.#take(machine)) this.after(0, machine, run);
  }

  /** Lets the next thing happen, and all that follows from it without a delay; false when nothing is left. */
  async step(): Promise<boolean> {
    const next = this.#queue.shift();
    if (next === undefined) return false;
    this.#now = next.at;
    const { machine } = next;
    if (next.isCancelled || machine.state === "killed") return true;
    if (machine.state === "stopped") {
      const held = this.#held.get(machine) ?? [];
      held.push(next);
      this.#held.set(machine, held);
      return true;
    }
    this.on(machine, next.run);
    await quiet();
    return true;
  }

  #take(machine: Machine): readonly Happening[] {
    const held = (this.#held.get(machine) ?? []).filter(({ isCancelled }) => !isCancelled);
    this.#held.delete(machine);
    return held;
  }
}

/** Resolves when no promise can settle any more; the store lets one turn of the event loop pass. */
async function quiet(): Promise<void> {
  for (let turns = 0; turns < 2; turns++)
    await new Promise((resolve) => real.setImmediate(resolve));
}

function startTimer(run: () => void, ms: number, repeats: boolean): Timer | undefined {
  const here = machines.getStore();
  if (here === undefined) return undefined;
  const [time, machine] = here;
  const timer = new Timer();
  const arm = () => {
    timer.happening = time.after(Math.max(1, Math.trunc(ms || 0)), machine, () => {
      run();
      if (repeats && !timer.isCancelled) arm();
    });
  };
  arm();
  return timer;
}

function startImmediate(run: () => void): Timer | undefined {
  const here = machines.getStore();
  if (here === undefined) return undefined;
  const timer = new Timer();
  timer.happening = here[0].after(0, here[1], run);
  return timer;
}

type Callback = (...args: unknown[]) => void;

/**
 * Replaces the clocks, timers and randomness of the platform for code that runs on machines of a simulation, until the
 * returned function is called. All other code keeps the real ones. One simulation runs at a time.
 */
export function replaceClocks(): () => void {
  const clear = (fallback: (timer: never) => void) => (timer: unknown) =>
    timer instanceof Timer ? timer.cancel() : fallback(timer as never);
  Object.assign(globalThis, {
    setTimeout: Object.assign(
      (run: Callback, ms = 0, ...args: unknown[]) =>
        startTimer(() => run(...args), ms, false) ?? real.setTimeout(run, ms, ...args),
      real.setTimeout,
    ),
    setInterval: (run: Callback, ms = 0, ...args: unknown[]) =>
      startTimer(() => run(...args), ms, true) ?? real.setInterval(run, ms, ...args),
    setImmediate: Object.assign(
      (run: Callback, ...args: unknown[]) =>
        startImmediate(() => run(...args)) ?? real.setImmediate(run, ...args),
      real.setImmediate,
    ),
    clearTimeout: clear(real.clearTimeout),
    clearInterval: clear(real.clearInterval),
    clearImmediate: clear(real.clearImmediate),
  });
  Date.now = () => {
    const here = machines.getStore();
    return here ? epoch + here[0].now + here[1].skewMs : real.now();
  };
  performance.now = () => {
    const here = machines.getStore();
    return here ? here[0].now + Math.abs(here[1].skewMs) : real.performanceNow();
  };
  Math.random = () => machines.getStore()?.[0].random() ?? real.random();
  return () => {
    const { now, performanceNow, random, ...timers } = real;
    Object.assign(globalThis, timers);
    Date.now = now;
    performance.now = performanceNow;
    Math.random = random;
  };
}
