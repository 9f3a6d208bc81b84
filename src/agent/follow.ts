import type { TaskEvent } from "../protocol/event.ts";
import type { Store } from "../protocol/store.ts";

const batchSize = 1_000;

/** How far a log is followed. */
export interface FollowOptions {
  readonly after: number;
  /** Whether an event is the last one to show. */
  readonly isLast: (event: TaskEvent) => boolean;
  /** True: what is written after `over` has settled is not shown. */
  readonly endsWithWork: boolean;
  /** Settles when nothing more will be written; rejects with what the reader is to throw. */
  readonly over: Promise<unknown>;
}

/**
 * Reads a log as it grows. It pulls, so a slow reader costs nobody anything; the iterator is written by hand because
 * an async generator costs more per event than everything else on the way. It ends when the last event was read and
 * the work behind it is over, and it throws what the work threw.
 */
export function followLog(
  store: Store,
  log: string,
  options: FollowOptions,
): AsyncIterableIterator<TaskEvent> {
  let after = options.after;
  let batch: readonly TaskEvent[] = [];
  let at = 0;
  let ended = false;
  let isLeft = false;
  let isOver = false;
  let end = Number.POSITIVE_INFINITY;
  let wake = Promise.withResolvers<void>();
  const unwatch = store.watch({ log }, () => wake.resolve());
  options.over.then(
    () => finish(),
    () => finish(),
  );
  function finish() {
    isOver = true;
    wake.resolve();
  }

  async function fill(): Promise<IteratorResult<TaskEvent>> {
    for (;;) {
      if (isLeft) return { value: undefined, done: true };
      const over = isOver;
      if (over && options.endsWithWork) end = Math.min(end, await store.last(log));
      if (ended || after >= end) return stop();
      batch = await store.read(log, after, batchSize);
      at = 0;
      if (batch.length > 0 && !isLeft) return take();
      if (over) return stop();
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
  }

  function take(): IteratorResult<TaskEvent> {
    const value = batch[at++] as TaskEvent;
    after += 1;
    if (options.isLast(value)) {
      ended = true;
      batch = [];
    }
    return { value, done: false };
  }

  async function stop(): Promise<IteratorResult<TaskEvent>> {
    unwatch();
    ended = true;
    await options.over;
    return { value: undefined, done: true };
  }

  return {
    next: () => (at < batch.length ? Promise.resolve(take()) : fill()),
    return() {
      unwatch();
      isLeft = true;
      batch = [];
      wake.resolve(); // whoever waits for the next event waits no more
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
