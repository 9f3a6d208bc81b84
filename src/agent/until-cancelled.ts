import type { Awaitable } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import { after } from "./timer.ts";

/** How long what does not hear of a cancel may go on after it. */
export const cancelGraceMs = 5_000;

/** Whose cancel ends a wait, and by which clock the grace is measured. */
export interface Patience {
  readonly signal: AbortSignal;
  readonly clock: Pick<Clock, "sleep">;
}

/**
 * Waits for code of the user's: as long as it takes, but only for a grace after a cancel. Then it rejects with the
 * signal's reason, and what still comes is not heard. It leaves no timer, no listener and no unhandled rejection.
 */
export async function untilCancelled<T>(
  { signal, clock }: Patience,
  work: () => Awaitable<T>,
): Promise<T> {
  const done = work();
  if (!isThenable(done)) return done;
  const givenUp = Promise.withResolvers<never>();
  let endGrace = () => {};
  const onAbort = () => {
    endGrace = after(clock, cancelGraceMs, () => givenUp.reject(signal.reason));
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
