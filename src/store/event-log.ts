import type { TaskEvent } from "../protocol/event.ts";
import type { LogSnapshot } from "../protocol/store.ts";

/** One log in memory. */
export interface EventLog {
  /** The conversation that writes it. */
  readonly sessionId: string;
  /** All but the last are full, so that a number names its place and nothing is ever moved. */
  readonly segments: TaskEvent[][];
  length: number;
  /** What stands for the events that are no longer there. */
  snapshot?: LogSnapshot;
}

const segmentSize = 1024;
const emptySegment: TaskEvent[] = [];

/** An empty log of one conversation. */
export function createEventLog(sessionId: string): EventLog {
  return { sessionId, segments: [], length: 0 };
}

/** Numbers the events in place and appends them. */
export function appendEvents(log: EventLog, events: readonly TaskEvent[]): void {
  // All numbers first: a frozen event throws here, while the log is still as it was.
  let number = log.length;
  for (const event of events as readonly unknown[] as { sequence_number: number }[]) {
    event.sequence_number = number++;
  }
  for (let from = 0; from < events.length; ) {
    let segment = log.segments.at(-1);
    if (segment === undefined || segment.length === segmentSize) {
      segment = [];
      log.segments.push(segment);
    }
    const piece = events.slice(from, from + segmentSize - segment.length);
    segment.push(...piece);
    from += piece.length;
  }
  log.length = number;
}

/** Lets go of the events that the snapshot stands for, whole segments at a time; the last one grows and stays. */
export function trimEvents(log: EventLog, snapshot: LogSnapshot): void {
  log.snapshot = snapshot;
  const full = Math.floor((snapshot.through + 1) / segmentSize);
  const gone = Math.min(full, log.segments.length - 1);
  for (let i = 0; i < gone; i++) log.segments[i] = emptySegment;
}

/** At most `limit` events with a number above `after`, in order; costs what it returns. */
export function readEvents(log: EventLog, after: number, limit: number): TaskEvent[] {
  let next = Math.max(0, after + 1);
  const end = Math.min(log.length, next + limit);
  const pieces: TaskEvent[][] = [];
  while (next < end) {
    const segment = log.segments[Math.floor(next / segmentSize)] as TaskEvent[];
    const from = next % segmentSize;
    const piece = segment.slice(from, from + end - next);
    pieces.push(piece);
    next += piece.length;
  }
  const [first = [], ...rest] = pieces;
  return rest.length === 0 ? first : first.concat(...rest);
}
