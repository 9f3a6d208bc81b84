import type { LogSnapshot, Store, StoreMemory } from "../contract/index.ts";
import { type LogEvent, snapshotOf, type TaskEvent, TaskTree } from "../protocol/index.ts";
import { readPages } from "./read-frames.ts";

/**
 * Deletes the events of a log up to number `through` and keeps a snapshot of every task instead: the snapshots and the
 * remaining events fold to the same tree as the whole log. Yields to the event loop while it reads a long log.
 */
export async function trimLog(
  store: Pick<Store, "read" | "snapshot" | "trim">,
  log: string,
  through: number,
): Promise<void> {
  const folded = new TaskTree();
  let createdAt = 0;
  for await (const { frames, mayHaveMore } of readPages(store, log, through)) {
    folded.apply(frames);
    createdAt = (frames.at(-1) as LogEvent | undefined)?.created_at ?? createdAt;
    if (mayHaveMore) await new Promise((resolve) => setImmediate(resolve));
  }
  await store.trim(log, snapshotAt(folded, through, createdAt));
}

/** The snapshot of a short log that replaces all its events. */
export function snapshotOfEvents(events: readonly TaskEvent[]): LogSnapshot {
  const folded = new TaskTree();
  folded.apply(events);
  const last = events.at(-1) as LogEvent;
  return snapshotAt(folded, last.sequence_number, last.created_at);
}

function snapshotAt({ tree }: TaskTree, through: number, createdAt: number): LogSnapshot {
  const at = { sequenceNumber: through, createdAt };
  const tasks = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  return { through, tasks };
}

/** A reader of a log in memory. */
export interface LogReader {
  /** Reports that the reader has read more, so that a waiting writer checks for room. */
  moved(): void;
  leave(): void;
}

/** The readers of one log in memory. */
interface Readers {
  /** Each returns the number of the last event that its reader has read. */
  readonly positions: Set<() => number>;
  /** Called when a reader has moved or left. */
  moved: () => void;
  /** Pending while the log is trimmed. */
  trim?: Promise<void>;
}

// The readers in this process, by store and log. Durable logs are not in the map, because they are not trimmed.
const logsOf = new WeakMap<StoreMemory, Map<string, Readers>>();

function readersOf(memory: StoreMemory, log: string): Readers {
  const logs = logsOf.get(memory) ?? new Map<string, Readers>();
  logsOf.set(memory, logs);
  const readers = logs.get(log) ?? { positions: new Set(), moved: () => {} };
  logs.set(log, readers);
  return readers;
}

/** Removes the entry of a log that has no readers. */
function removeIfUnused(memory: StoreMemory, log: string): void {
  const { positions, trim } = readersOf(memory, log);
  if (positions.size === 0 && !trim) logsOf.get(memory)?.delete(log);
}

/**
 * Registers a reader of a log in memory. The log keeps all events after `position`, the number of the last event that the
 * reader has read.
 */
export async function addLogReader(
  { memory }: Store,
  log: string,
  position: () => number,
): Promise<LogReader | undefined> {
  if (memory === undefined) return undefined;
  const readers = readersOf(memory, log);
  readers.positions.add(position);
  await readers.trim?.catch(() => {}); // a pending trim does not know this reader
  return {
    moved: () => readers.moved(),
    leave() {
      readers.positions.delete(position);
      readers.moved();
      removeIfUnused(memory, log);
    },
  };
}

/** Trims a full log in memory as soon as the slowest reader has read its beginning; undefined if there is room. */
export function makeRoom(store: Store, log: string): Promise<void> | undefined {
  const { memory } = store;
  const isFull = memory && memory.logBytes(log) > memory.maxLogBytes;
  return isFull ? trimToHalf(store, memory, log) : undefined;
}

/** To half the limit: new readers still get recent events, and several writes fit. */
async function trimToHalf(store: Store, memory: StoreMemory, log: string): Promise<void> {
  for (;;) {
    const oldest = (await store.snapshot(log))?.through ?? -1;
    const last = await store.last(log);
    const share = 1 - memory.maxLogBytes / 2 / memory.logBytes(log);
    if (share <= 0 || oldest === last) return removeIfUnused(memory, log);
    const through = oldest + Math.ceil((last - oldest) * share);
    const readers = readersOf(memory, log);
    if ([...readers.positions].every((position) => position() >= through)) {
      readers.trim = trimLog(store, log, through);
      await readers.trim.finally(() => {
        delete readers.trim;
        removeIfUnused(memory, log);
      });
    } else {
      await new Promise<void>((resolve) => {
        readers.moved = resolve;
      });
    }
  }
}
