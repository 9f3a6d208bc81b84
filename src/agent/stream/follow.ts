import { inTurn } from "../../base/async-queue.ts";
import type { Store } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import { addLogReader, type Frames, type LogReader, snapshotFrames } from "../../store/index.ts";

const batchSize = 1_000;

/** The log to follow, and where to stop. */
export interface Following {
  readonly log: string;
  readonly after: number;
  /** The task whose end is the last event to show; undefined: no event is. */
  readonly endsWith: string | undefined;
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
  /** The next event, while a caller waits for it. */
  let wanted: PromiseWithResolvers<IteratorResult<TaskEvent>> | undefined;
  /** Whether there may be more than what was read. */
  let isChanged = true;
  /** Whether it reads, or waits for the end of the work. */
  let isBusy = false;
  let isOver = false;
  /** Whether the work was over before the last read began. */
  let wasOver = false;
  /** The number of the last event that was read, and of the last one there will be. */
  let after = -1;
  let end: number | undefined;
  let limit = batchSize;
  /** The events of the last read, and how many of them were returned. */
  let batch: readonly TaskEvent[] = [];
  let shown = 0;
  let isLeft = false;

  function change(): void {
    isChanged = true;
    advance();
  }

  async function begin(): Promise<void> {
    const opened = await open();
    after = opened.after;
    unwatch = store.watch({ log: opened.log }, change);
    const onOver = () => {
      isOver = true;
      change();
    };
    opened.over.then(onOver, onOver);
    reader = await addLogReader(store, opened.log, () => after - (batch.length - shown));
    following = opened;
  }

  // Callbacks and not an async function, which would cost more than the rest of a read.
  function pull(): Promise<IteratorResult<TaskEvent>> {
    wanted = Promise.withResolvers();
    const { promise } = wanted;
    if (isLeft) give(stop());
    else if (following === undefined) begin().then(advance, fail);
    else {
      reader?.moved();
      advance();
    }
    return promise;
  }

  /** Reads on if a caller waits and there may be more; called again after each change. */
  function advance(): void {
    if (wanted === undefined || following === undefined || isBusy) return;
    const { log, endsWithWork, over } = following;
    if (isLeft) give(stop());
    else if (after >= (end ?? Number.POSITIVE_INFINITY)) finish(over);
    else if (isChanged || isOver) {
      isBusy = true;
      wasOver = isOver;
      try {
        if (isOver && endsWithWork && end === undefined) store.last(log).then(onLast, fail);
        else read(log);
      } catch (error) {
        fail(error);
      }
    }
  }

  function onLast(last: number): void {
    isBusy = false;
    end = last;
    advance();
  }

  function read(log: string): void {
    isChanged = false;
    limit = end === undefined ? batchSize : Math.min(batchSize, end - after);
    store.read(log, after, limit).then(onEvents, onReadError);
  }

  function onEvents(frames: readonly TaskEvent[]): void {
    const through = after + frames.length;
    onFrames({ frames, through, mayHaveMore: frames.length === limit });
  }

  function onReadError(error: unknown): void {
    const { log } = following as Following;
    snapshotFrames(store, log, error).then(onFrames, fail);
  }

  function onFrames({ frames, through, mayHaveMore }: Frames): void {
    isBusy = false;
    if (isLeft) {
      give(stop());
      return;
    }
    const { endsWith, over } = following as Following;
    const last = endOf(frames, endsWith);
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
    if (first !== undefined) give(first);
    else if (wasOver && !isChanged) finish(over);
    else advance();
  }

  function take(): IteratorResult<TaskEvent> | undefined {
    if (shown === batch.length) return undefined;
    return { value: batch[shown++] as TaskEvent, done: false };
  }

  function give(result: IteratorResult<TaskEvent>): void {
    wanted?.resolve(result);
    wanted = undefined;
  }

  function fail(error: unknown): void {
    stop(); // who is thrown at does not say that it leaves
    wanted?.reject(error);
    wanted = undefined;
  }

  function finish(over: Promise<unknown>): void {
    const ended = stop();
    isBusy = true;
    over.then(() => give(ended), fail);
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

/** The index of the event that ends a task, or of a snapshot after it; a suspension is no end, because it may be answered. */
function endOf(frames: readonly TaskEvent[], taskId: string | undefined): number {
  if (taskId === undefined) return -1;
  for (let at = 0; at < frames.length; at++) {
    const event = frames[at] as TaskEvent;
    if ("task" in event && event.task_id === taskId && isTerminal(event.task.status)) return at;
  }
  return -1;
}
