import { inTurn } from "../../protocol/async-queue.ts";
import type { TaskEvent } from "../../protocol/event.ts";
import type { Store } from "../../protocol/store.ts";
import { addLogReader, type LogReader, readFrames } from "../../store/index.ts";

const batchSize = 1_000;

/** The log to follow, and where to stop. */
export interface Following {
  readonly log: string;
  readonly after: number;
  /** Whether an event is the last one to show, or a snapshot replaces it. */
  readonly isLast: (event: TaskEvent) => boolean;
  /** True: what is written after `over` has settled is not shown. */
  readonly endsWithWork: boolean;
  /** Settles when nothing more will be written; rejects with what the reader is to throw. */
  readonly over: Promise<unknown>;
}

/**
 * Reads a log as it grows, from the first `next` on; snapshots replace events that were trimmed by then. It pulls, so a slow
 * reader costs no more than what the log may keep. It ends when the last event was read and the work behind it is over,
 * and it throws what the work threw.
 */
export function followLog(
  store: Store,
  open: () => Promise<Following>,
): AsyncIterableIterator<TaskEvent> {
  let following: Following | undefined;
  let unwatch = () => {};
  let reader: LogReader | undefined;
  let wake = () => {};
  /** Whether there may be more than what was read. */
  let isChanged = true;
  let isOver = false;
  /** The number of the last event that was read, and of the last one there will be. */
  let after = -1;
  let end = Number.POSITIVE_INFINITY;
  /** The events of the last read, and how many of them were returned. */
  let batch: readonly TaskEvent[] = [];
  let shown = 0;
  let isLeft = false;

  function change(): void {
    isChanged = true;
    wake();
  }

  async function begin(opened: Following): Promise<Following> {
    after = opened.after;
    unwatch = store.watch({ log: opened.log }, change);
    const onOver = () => {
      isOver = true;
      change();
    };
    opened.over.then(onOver, onOver);
    reader = await addLogReader(store, opened.log, () => after - (batch.length - shown));
    return opened;
  }

  async function pull(): Promise<IteratorResult<TaskEvent>> {
    try {
      if (isLeft) return stop();
      following ??= await begin(await open());
      const { log, isLast, endsWithWork } = following;
      reader?.moved();
      for (;;) {
        if (isLeft) return stop();
        const over = isOver;
        if (over && endsWithWork) end = Math.min(end, await store.last(log));
        if (after >= end) return await finish(following.over);
        if (!isChanged && !over) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        const limit = Math.min(batchSize, end - after);
        isChanged = false;
        const { frames, through, mayHaveMore } = await readFrames(store, log, after, limit);
        if (isLeft) return stop();
        const last = frames.findIndex(isLast);
        isChanged ||= mayHaveMore;
        after = through;
        // Snapshots belong together: they show how all tasks stand behind one event.
        const isCut = last >= 0 && frames[last]?.type !== "task.snapshot";
        batch = isCut ? frames.slice(0, last + 1) : frames;
        shown = 0;
        if (last >= 0) {
          end = after;
          reader?.leave(); // it has all that it wants of the log
        }
        const first = take();
        if (first !== undefined) return first;
        if (over && !isChanged) return await finish(following.over);
      }
    } catch (error) {
      stop(); // who is thrown at does not say that it leaves
      throw error;
    }
  }

  function take(): IteratorResult<TaskEvent> | undefined {
    if (shown === batch.length) return undefined;
    return { value: batch[shown++] as TaskEvent, done: false };
  }

  async function finish(over: Promise<unknown>): Promise<IteratorResult<TaskEvent>> {
    stop();
    await over;
    return { value: undefined, done: true };
  }

  function stop(): IteratorResult<TaskEvent> {
    isLeft = true;
    unwatch();
    reader?.leave();
    return { value: undefined, done: true };
  }

  return inTurn({
    take,
    pull,
    async leave() {
      stop();
      batch = [];
      shown = 0;
      change(); // ends a pending wait for the next event
    },
  });
}
