import { RivuletError } from "../protocol/error.ts";
import type { TaskEvent } from "../protocol/event.ts";
import type { Store } from "../protocol/store.ts";

/** What a reader of a log folds next. */
export interface Frames {
  readonly frames: readonly TaskEvent[];
  /** The number of the event that they bring the reader to. */
  readonly through: number;
  /** False: the log had nothing more behind them when it was read. */
  readonly mayHaveMore: boolean;
}

/**
 * What comes after event number `after` of a log: at most `limit` events, or the snapshots that stand for them when some
 * were trimmed. None when there is nothing more.
 */
export async function readFrames(
  store: Store,
  log: string,
  after: number,
  limit: number,
): Promise<Frames> {
  try {
    const frames = await store.read(log, after, limit);
    return { frames, through: after + frames.length, mayHaveMore: frames.length === limit };
  } catch (error) {
    if (!(error instanceof RivuletError && error.code === "cursor_expired")) throw error;
    const snapshot = await store.snapshot(log);
    if (snapshot === undefined) throw error;
    return { frames: snapshot.tasks, through: snapshot.through, mayHaveMore: true };
  }
}
