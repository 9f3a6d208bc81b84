import { isThenable } from "../agent/base/time.ts";
import type { Awaitable } from "../protocol/agent.ts";

/** Continues with a value, at once if it is no promise: most values of user code and of caches are none. */
export function whenDone<T, Next>(
  value: Awaitable<T>,
  next: (value: T) => Awaitable<Next>,
): Awaitable<Next> {
  return isThenable(value) ? value.then(next) : next(value);
}

/** All values, at once if none is a promise. */
export function allDone<T>(values: readonly Awaitable<T>[]): Awaitable<readonly T[]> {
  return values.some(isThenable) ? Promise.all(values) : (values as readonly T[]);
}
