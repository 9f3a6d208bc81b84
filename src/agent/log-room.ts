import type { Store, StoreMemory } from "../protocol/store.ts";
import { trimLog } from "../store/index.ts";

/** A reader of a log, as its writer knows it. */
export interface LogReader {
  /** It has read on: whoever waits for room looks again. */
  moved(): void;
  /** It wants nothing more of the log. */
  leave(): void;
}

/** The room that a log in memory has. */
export interface LogRoom {
  isFull(): boolean;
  /** Lets go of the beginning of the log, as soon as its slowest reader has read that. */
  make(): Promise<void>;
}

/** Who reads a log, and what they and its writer wait for. */
interface Readers {
  /** How far each has come. */
  readonly positions: Set<() => number>;
  /** Called when one has moved or left. */
  readonly waiting: Set<() => void>;
  /** Events are being let go of. */
  trim?: Promise<void>;
}

// The readers of this process, by store and log. Durable logs are not here: they need no room.
const logsOf = new WeakMap<StoreMemory, Map<string, Readers>>();

function readersOf(memory: StoreMemory, log: string): Readers {
  const logs = logsOf.get(memory) ?? new Map<string, Readers>();
  logsOf.set(memory, logs);
  const readers = logs.get(log) ?? { positions: new Set(), waiting: new Set() };
  logs.set(log, readers);
  return readers;
}

/** Forgets what nobody needs. */
function release(memory: StoreMemory, log: string): void {
  const readers = readersOf(memory, log);
  if (readers.positions.size + readers.waiting.size > 0 || readers.trim !== undefined) return;
  logsOf.get(memory)?.delete(log);
}

/**
 * Makes a reader known; `position` is the number of the last event that it has done with. Nothing that comes after that
 * is let go of from then on.
 */
export async function readLog(
  { memory }: Store,
  log: string,
  position: () => number,
): Promise<LogReader | undefined> {
  if (memory === undefined) return undefined;
  const readers = readersOf(memory, log);
  readers.positions.add(position);
  const moved = () => {
    for (const wake of readers.waiting) wake();
  };
  await readers.trim?.catch(() => {}); // what it has begun with must not go while it reads
  return {
    moved,
    leave() {
      readers.positions.delete(position);
      moved();
      release(memory, log);
    },
  };
}

/** The room of a log; undefined when its store is durable. */
export function logRoom(store: Store, log: string): LogRoom | undefined {
  const { memory } = store;
  if (memory === undefined) return undefined;
  const { maxLogBytes } = memory;
  return {
    isFull: () => memory.logBytes(log) > maxLogBytes,
    async make() {
      for (;;) {
        const oldest = (await store.snapshot(log))?.through ?? -1;
        const last = await store.last(log);
        // Half of it goes: what was read last may be read again, and there is room for more than one write.
        const bytes = memory.logBytes(log);
        if (bytes <= maxLogBytes / 2 || oldest === last) return release(memory, log);
        const share = 1 - maxLogBytes / 2 / bytes;
        const through = oldest + Math.ceil((last - oldest) * share);
        const readers = readersOf(memory, log);
        const isRead = [...readers.positions].every((position) => position() >= through);
        if (!isRead) {
          await nextMove(readers);
          continue;
        }
        readers.trim = trimLog(store, log, through);
        await readers.trim.finally(() => {
          delete readers.trim;
          release(memory, log);
        });
      }
    },
  };
}

function nextMove({ waiting }: Readers): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.add(resolve);
  return promise.finally(() => waiting.delete(resolve));
}
