import { inTurn, type Supply } from "../../base/async-queue.ts";
import type { Store } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import { addLogReader, type Frames, type LogReader, LogTail } from "../../store/index.ts";

const batchSize = 1_000;
const ended = { value: undefined, done: true } as const;

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
  return inTurn(new LogFollower(store, open));
}

class LogFollower implements Supply<TaskEvent> {
  readonly #store: Store;
  readonly #open: () => Promise<Following>;
  #tail: LogTail | undefined;
  /** Keeps the log in memory from being trimmed before this reader has read it. */
  #reader: LogReader | undefined;
  /** The events of the last read, and how many of them were returned. */
  #batch: readonly TaskEvent[] = [];
  #returned = 0;
  /** The number of the last event that there will be. */
  #end: number | undefined;
  #isOver = false;
  #isLeft = false;
  /** Resolves at the next change, while a caller waits for it. */
  #changed: PromiseWithResolvers<void> | undefined;
  #following: Following | undefined;

  constructor(store: Store, open: () => Promise<Following>) {
    this.#store = store;
    this.#open = open;
  }

  take(): IteratorResult<TaskEvent> | undefined {
    if (this.#returned === this.#batch.length) return undefined;
    return { value: this.#batch[this.#returned++] as TaskEvent, done: false };
  }

  async pull(): Promise<IteratorResult<TaskEvent>> {
    try {
      this.#following ??= await this.#begin();
      const following = this.#following;
      this.#reader?.moved();
      while (!this.#isLeft) {
        const next = this.take();
        if (next) return next;
        if (await this.#isAtEnd(following)) {
          this.#stop();
          await following.over;
        }
      }
      return ended;
    } catch (error) {
      this.#stop(); // An iterator that throws gets no `return()`.
      throw error;
    }
  }

  async leave(): Promise<void> {
    this.#batch = [];
    this.#returned = 0;
    this.#stop();
  }

  async #begin(): Promise<Following> {
    const following = await this.#open();
    const { log, after, over } = following;
    const tail = new LogTail(this.#store, log, after, () => this.#changed?.resolve());
    this.#tail = tail;
    const onOver = () => {
      this.#isOver = true;
      tail.doubt();
      this.#changed?.resolve();
    };
    over.then(onOver, onOver);
    const position = () => tail.after - (this.#batch.length - this.#returned);
    this.#reader = await addLogReader(this.#store, log, position);
    if (this.#isLeft) this.#stop();
    return following;
  }

  /** Fetches the next events, or waits for a change; true if there will be no more. */
  async #isAtEnd({ log, endsWith, endsWithWork }: Following): Promise<boolean> {
    const tail = this.#tail as LogTail;
    const limit = Math.min(batchSize, (this.#end ?? Number.POSITIVE_INFINITY) - tail.after);
    if (limit <= 0) return true;
    const isOver = this.#isOver;
    if (isOver && endsWithWork && this.#end === undefined) {
      this.#end = await this.#store.last(log);
      return false;
    }
    const frames = tail.take(limit) ?? (tail.mustRead ? await tail.read(limit) : undefined);
    if (frames) this.#add(frames, endsWith);
    else if (isOver) return true;
    else await this.#change();
    return false;
  }

  #add({ frames, through }: Frames, endsWith: string | undefined): void {
    const last = endOf(frames, endsWith);
    // Snapshots belong together: they show how all tasks stand behind one event.
    const isCut = last >= 0 && frames[last]?.type !== "task.snapshot";
    this.#batch = isCut ? frames.slice(0, last + 1) : frames;
    this.#returned = 0;
    if (last < 0) return;
    this.#end = through;
    this.#reader?.leave(); // it has all that it wants of the log
  }

  #change(): Promise<void> {
    this.#changed = Promise.withResolvers();
    return this.#changed.promise;
  }

  #stop(): void {
    this.#isLeft = true;
    this.#tail?.leave();
    this.#reader?.leave();
    this.#changed?.resolve();
  }
}

/** The index of the event that ends a task, or of a snapshot after it; a suspension is no end, because it may be answered. */
function endOf(frames: readonly TaskEvent[], taskId: string | undefined): number {
  if (taskId === undefined) return -1;
  return frames.findIndex(
    (event) => "task" in event && event.task_id === taskId && isTerminal(event.task.status),
  );
}
