/** Where values come from, one after the other. */
export interface Supply<T> {
  /** The next value, if it is at hand. */
  take(): IteratorResult<T> | undefined;
  /** Waits for the next value, or for the end. Never called again before it has settled. */
  pull(): Promise<IteratorResult<T>>;
  /** Nobody wants any more; whoever waits is let go. */
  leave(): Promise<void>;
}

/**
 * An iterator over a supply. Whoever asks before the last answer has come gets the one after it. Written by hand, because
 * an async generator costs more per value than everything else on the way.
 */
export function inTurn<T>(supply: Supply<T>): AsyncIterableIterator<T> {
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();

  function queue(): Promise<IteratorResult<T>> {
    waiting += 1;
    const next = last.then(() => supply.take() ?? supply.pull());
    const done = () => {
      waiting -= 1;
    };
    last = next.then(done, done);
    return next;
  }

  return {
    next() {
      const value = waiting === 0 ? supply.take() : undefined;
      return value === undefined ? queue() : Promise.resolve(value);
    },
    async return() {
      await supply.leave();
      return { value: undefined, done: true };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
