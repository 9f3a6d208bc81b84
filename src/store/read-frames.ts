import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import type { TaskEvent } from "../protocol/index.ts";

/** The next frames of a log. */
export interface Frames {
  readonly frames: readonly TaskEvent[];
  /** The number of the last event that the frames include. */
  readonly through: number;
  /** False when the log ended there at the time of reading. */
  readonly mayHaveMore: boolean;
}

/**
 * Reads a log after event number `after`: at most `limit` events of about `maxBytes`, or the snapshots that replace them
 * when some were trimmed.
 */
export async function readFrames(
  store: Pick<Store, "read" | "snapshot">,
  log: string,
  after: number,
  limit: number,
  maxBytes?: number,
): Promise<Frames> {
  try {
    const frames = await store.read(log, after, limit, maxBytes);
    const isCut = maxBytes !== undefined && frames.length > 0;
    const mayHaveMore = isCut || frames.length === limit;
    return { frames, through: after + frames.length, mayHaveMore };
  } catch (error) {
    return snapshotFrames(store, log, error);
  }
}

/** The snapshots that replace trimmed events, after the error of reading those; throws any other error. */
async function snapshotFrames(
  store: Pick<Store, "snapshot">,
  log: string,
  error: unknown,
): Promise<Frames> {
  if (!(error instanceof RivuletError && error.code === "cursor_expired")) throw error;
  const snapshot = await store.snapshot(log);
  if (snapshot === undefined) throw error;
  const { tasks, through } = snapshot;
  const frames = tasks.map((task, at) => (at < tasks.length - 1 ? task : { ...task, final: true }));
  return { frames, through, mayHaveMore: true };
}

const pageSize = 1_000;
/** Bounds the memory and the time that one page takes, however large its events are. */
const pageBytes = 256 * 1024;

/** Reads a log in pages up to event number `through`, or to its end at the time of reading. */
export async function* readPages(
  store: Pick<Store, "read" | "snapshot">,
  log: string,
  through = Number.POSITIVE_INFINITY,
): AsyncGenerator<Frames> {
  for (let after = -1; after < through; ) {
    const limit = Math.min(pageSize, through - after);
    const page = await readFrames(store, log, after, limit, pageBytes);
    if (page.through === after) return;
    yield page;
    after = page.through;
  }
}
