import { readInput } from "./argument.ts";

/** The source of time; tests inject their own. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      readInput(
        "ms",
        "a number of milliseconds",
        ms,
        () => typeof ms === "number" && !Number.isNaN(ms),
      );
      const isSignal = () =>
        signal === undefined || typeof signal.removeEventListener === "function";
      readInput("signal", "an AbortSignal", signal, isSignal);
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
};

/** Calls `run` after a delay; the returned function cancels it. */
export function after(clock: Pick<Clock, "sleep">, ms: number, run: () => unknown): () => void {
  if (clock === systemClock) {
    const timer = setTimeout(run, ms); // a sleep that is aborted costs ten times as much
    return () => clearTimeout(timer);
  }
  const off = new AbortController();
  clock.sleep(ms, off.signal).then(
    () => (off.signal.aborted ? undefined : run()),
    () => {},
  );
  // Without a reason the platform creates an error with a stack for each abort.
  return () => off.abort("called off");
}

/** The waits for one signal, behind one listener: the platform compares each new listener with all earlier ones. */
class AbortWaits extends Set<() => void> {
  readonly end = (): void => {
    for (const run of [...this]) if (this.has(run)) run(); // a run may add and remove others
  };
}
/** A property of the signal: an entry in a WeakMap would outlive the signal until the next full garbage collection. */
const abortWaits = Symbol("abortWaits");

/** Calls `run` at the abort, or now if the signal has aborted; the returned function cancels it. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) run();
  const waiting = signal as AbortSignal & { [abortWaits]?: AbortWaits };
  waiting[abortWaits] ??= new AbortWaits();
  const waits = waiting[abortWaits];
  const wait = () => run(); // the same function may wait twice
  waits.add(wait);
  if (waits.size === 1) signal.addEventListener("abort", waits.end);
  return () => {
    if (waits.delete(wait) && waits.size === 0) signal.removeEventListener("abort", waits.end);
  };
}
