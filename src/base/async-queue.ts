/** A source of values in order. */
export interface Supply<T> {
  /** Returns the next value if it is available. */
  take(): IteratorResult<T> | undefined;
  /** Waits for the next value or the end; never called again before it has settled. */
  pull(): Promise<IteratorResult<T>>;
  /** Ends the supply and any pending `pull`. */
  leave(): Promise<void>;
}

/** An async iterator that may also hand out the next value without a promise, if the value is at hand. */
export interface BufferedIterator<T> extends AsyncIterator<T> {
  takeReady?(): IteratorResult<T> | undefined;
}

/** Iterates over a supply, answering overlapping `next` calls in order; an async generator would cost more per value. */
export function inTurn<T>(supply: Supply<T>): AsyncIterableIterator<T> & BufferedIterator<T> {
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();

  function done(): void {
    waiting -= 1;
  }

  function queue(): Promise<IteratorResult<T>> {
    waiting += 1;
    const next = waiting === 1 ? supply.pull() : last.then(() => supply.take() ?? supply.pull());
    last = next.then(done, done);
    return next;
  }

  function takeReady(): IteratorResult<T> | undefined {
    return waiting === 0 ? supply.take() : undefined;
  }

  return {
    takeReady,
    next() {
      const value = takeReady();
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
