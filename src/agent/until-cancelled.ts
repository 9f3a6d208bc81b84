import type { Awaitable } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import { after } from "./after.ts";
import type { TaskRun } from "./task-run.ts";

/** How long what does not hear of a cancel may go on after it. */
export const cancelGraceMs = 5_000;

/** What is begun when the grace is over gets a moment all the same: it may have something to put in order. */
const momentMs = 100;

/** Whose cancel ends a wait, and by which clock the grace is measured. */
export interface Patience {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** When the cancel came: all that one task waits for has one grace. Absent: the grace begins when the wait hears of it. */
  readonly cancelledAt?: () => number | undefined;
}

/** How long the user's code is waited for: that is up to who cancels the task, or the part of it that calls the code. */
export function patienceOf(task: TaskRun, signal = task.controller.signal): Patience {
  return { signal, clock: task.settings.clock, cancelledAt: () => task.cancelledAt };
}

/**
 * Waits for code of the user's: as long as it takes, but only for a grace after a cancel. Then it rejects with the
 * signal's reason, and what still comes is not heard. It leaves no timer, no listener and no unhandled rejection.
 */
export async function untilCancelled<T>(
  { signal, clock, cancelledAt }: Patience,
  work: () => Awaitable<T>,
): Promise<T> {
  const done = work();
  if (!isThenable(done)) return done;
  const givenUp = Promise.withResolvers<never>();
  let endGrace = () => {};
  const onAbort = () => {
    const now = clock.now();
    const leftMs = (cancelledAt?.() ?? now) + cancelGraceMs - now;
    endGrace = after(clock, Math.max(momentMs, leftMs), () => givenUp.reject(signal.reason));
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([done, givenUp.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    endGrace();
  }
}

/** Whether an error is what a cancel looks like to those who waited. */
export function isCancel(signal: AbortSignal, error: unknown): boolean {
  return signal.aborted && error === signal.reason;
}

function isThenable<T>(value: Awaitable<T>): value is PromiseLike<T> & Awaitable<T> {
  const then = (value as { then?: unknown } | null | undefined)?.then;
  return typeof then === "function";
}
