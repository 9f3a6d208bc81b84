import { after, type Clock, onAbort } from "./clock.ts";

/** A value, or a promise of it. */
export type Awaitable<T> = T | PromiseLike<T>;

/** 24 days: the platform fires a longer timer at once. */
export const longestTimer = 2 ** 31 - 1;

/** How long cancelled code may take to stop. */
export const cancelGraceMs = 5_000;

/** Lets the event loop turn, so that timers and connections have their time. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The least time for work that starts after the grace has passed, so that it can clean up. */
const minGraceMs = 100;

const coarseClocks = new WeakMap<Pick<Clock, "now">, () => number>();

/** Reads the clock once per turn of the event loop, because a read per chunk costs as much as the chunk. */
export function coarseNow(clock: Pick<Clock, "now">): () => number {
  const known = coarseClocks.get(clock);
  if (known) return known;
  let time = 0;
  let isFresh = false;
  const expire = () => {
    isFresh = false;
  };
  const now = () => {
    if (!isFresh) {
      isFresh = true;
      time = clock.now();
      setImmediate(expire);
    }
    return time;
  };
  coarseClocks.set(clock, now);
  return now;
}

/** The signal that ends a wait, and the clock that measures the grace after it. */
export interface Patience {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** When the task was cancelled, so that all waits of a task share one grace; absent: the grace starts at the abort. */
  readonly cancelledAt?: () => number | undefined;
}

/** The parts of a task that decide how long it waits for user code. */
interface CancellableTask {
  readonly settings: { readonly clock: Clock };
  readonly control: {
    readonly controller: AbortController;
    readonly cancelledAt: number | undefined;
  };
}

/** How long a task, or the part of it that `signal` stops, waits for user code. */
export function patienceOf(
  { settings, control }: CancellableTask,
  signal = control.controller.signal,
): Patience {
  return { signal, clock: settings.clock, cancelledAt: () => control.cancelledAt };
}

/** Waits for user code, after an abort only for the grace; leaves no timer, listener or unhandled rejection. */
export function untilCancelled<T>(patience: Patience, work: () => Promise<T>): Promise<T>;
export function untilCancelled<T>(patience: Patience, work: () => Awaitable<T>): Awaitable<T>;
export function untilCancelled<T>(patience: Patience, work: () => Awaitable<T>): Awaitable<T> {
  let done: Awaitable<T>;
  try {
    done = work();
  } catch (error) {
    return Promise.reject(error);
  }
  return isThenable(done) ? settledOrCancelled(patience, done) : done;
}

async function settledOrCancelled<T>(
  { signal, clock, cancelledAt }: Patience,
  done: PromiseLike<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let endGrace = () => {};
  const ignoreAbort = onAbort(signal, () => {
    const now = clock.now();
    const leftMs = (cancelledAt?.() ?? now) + cancelGraceMs - now;
    endGrace = after(clock, Math.max(minGraceMs, leftMs), () => reject(signal.reason));
  });
  try {
    done.then(resolve, reject);
    return await promise;
  } finally {
    ignoreAbort();
    endGrace();
  }
}

/** Continues with a value; without a promise if the value is there. */
export function whenDone<T, R>(
  value: Awaitable<T>,
  next: (value: T) => Awaitable<R>,
): Awaitable<R> {
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value);
}

/** Whether an error is the reason of an aborted signal. */
export function isCancel(signal: AbortSignal, error: unknown): boolean {
  return signal.aborted && error === signal.reason;
}

/** All values, at once if none is a promise. */
export function allDone<T>(values: readonly Awaitable<T>[]): Awaitable<readonly T[]> {
  return values.some(isThenable) ? Promise.all(values) : (values as readonly T[]);
}

/** Whether a value is a promise of any kind. */
export function isThenable<T>(value: Awaitable<T>): value is PromiseLike<T> & Awaitable<T> {
  const then = (value as { then?: unknown } | null | undefined)?.then;
  return typeof then === "function";
}
