import type { LogSnapshot } from "../contract/index.ts";
import type { TaskEvent, TaskSnapshot } from "../protocol/index.ts";
import { sizeOfEvent } from "./event-size.ts";
import { isDelta, PackedEvents } from "./packed-events.ts";
import { type Group, type PackedSnapshots, unpack } from "./packed-snapshots.ts";

/** One log in memory. */
export interface EventLog {
  /** The conversation that writes the log. */
  readonly sessionId: string;
  /** The events from number `first` on. All segments but the last are full, so an event's number gives its place. */
  segments: Segment[];
  first: number;
  length: number;
  /** The approximate size of the stored events. */
  bytes: number;
  /** The number of the last trimmed event, and the snapshots that replace the trimmed events. */
  trimmedThrough: number;
  snapshots: readonly TaskSnapshot[] | Group;
  /** The index of this log in the group of its snapshots. */
  packedAt: number;
}

/** Full segments of mostly deltas are packed, except those that were trimmed before. */
type Segment = TaskEvent[] | PackedEvents;

const segmentSize = 64;
/** How many deltas a segment has at least when packing it saves more memory than the time is worth. */
const packedDeltas = 48;
const emptySegment: TaskEvent[] = [];
/** Of every log without events, because most logs in a store have ended; never written. */
const noSegments: Segment[] = [];
const noSnapshots: readonly TaskSnapshot[] = [];
/** Replaces a trimmed event; no reader gets it. */
const trimmedEvent = { type: "error", code: "trimmed", message: "", retryable: false } as const;

/** An empty log of one conversation. */
export function createEventLog(sessionId: string): EventLog {
  return {
    sessionId,
    segments: noSegments,
    first: 0,
    length: 0,
    bytes: 0,
    trimmedThrough: -1,
    snapshots: noSnapshots,
    packedAt: -1,
  };
}

/** Numbers events in place; throws at a frozen one. */
export function numberEvents(events: readonly TaskEvent[], after: number): void {
  let number = after;
  for (const event of events) {
    (event as unknown as { sequence_number: number }).sequence_number = ++number;
  }
}

/** Numbers the events in place and appends them. */
export function appendEvents(log: EventLog, events: readonly TaskEvent[]): void {
  // Numbers are set first: a frozen event throws before the log has changed.
  numberEvents(events, log.length - 1);
  let segment = log.segments.at(-1);
  for (const event of events) {
    if (segment === undefined || segment.length === segmentSize) {
      segment = [];
      if (log.segments === noSegments) log.segments = [];
      log.segments.push(segment);
    }
    (segment as TaskEvent[]).push(event);
    log.bytes += sizeOfEvent(event);
    log.length += 1;
    if (segment.length === segmentSize) packLast(log, segment as TaskEvent[]);
  }
}

/** Packs the last segment, which is full, if that saves memory. */
function packLast(log: EventLog, segment: readonly TaskEvent[]): void {
  const first = log.length - segmentSize;
  // A trimmed event has no content to pack.
  if (log.trimmedThrough >= first) return;
  let deltas = 0;
  for (const event of segment) if (isDelta(event)) deltas += 1;
  if (deltas < packedDeltas) return;
  log.segments[log.segments.length - 1] = new PackedEvents(segment, first);
}

/** The segment of an event and its index there. */
function placeOf({ first }: EventLog, number: number): readonly [segment: number, index: number] {
  return [Math.floor((number - first) / segmentSize), (number - first) % segmentSize];
}

/** The snapshot that replaces the trimmed events. */
export function snapshotIn(log: EventLog): LogSnapshot | undefined {
  const { trimmedThrough: through, snapshots, packedAt: index } = log;
  if (through < 0) return undefined;
  return { through, tasks: "logs" in snapshots ? unpack({ group: snapshots, index }) : snapshots };
}

/** Removes the events that the snapshot replaces; later events keep their places. */
export function trimEvents(
  log: EventLog,
  through: number,
  snapshots: readonly TaskSnapshot[] | PackedSnapshots,
): void {
  let next = log.trimmedThrough + 1;
  const end = through + 1;
  log.trimmedThrough = through;
  const isPacked = "group" in snapshots;
  log.snapshots = isPacked ? snapshots.group : snapshots;
  log.packedAt = isPacked ? snapshots.index : -1;
  if (end === log.length) {
    // Emptied, because an unused array in the old space keeps its events until a full garbage collection.
    for (const segment of log.segments) if (Array.isArray(segment)) segment.length = 0;
    log.segments = noSegments;
    log.first = end;
    log.bytes = 0;
    return;
  }
  while (next < end) {
    const [index, from] = placeOf(log, next);
    const segment = log.segments[index] as Segment;
    const to = Math.min(segment.length, from + end - next);
    for (let i = from; i < to; i++) log.bytes -= sizeOfEvent(segment.at(i) as TaskEvent);
    // The last segment still grows, and a partly trimmed one keeps its places.
    const isWhole = to === segmentSize && index < log.segments.length - 1;
    if (isWhole) log.segments[index] = emptySegment;
    else if (Array.isArray(segment)) segment.fill(trimmedEvent, from, to);
    next += to - from;
  }
}

/** How many events after a number have about so many bytes together, the last of them included; at least one. */
export function countWithin(log: EventLog, after: number, maxBytes: number): number {
  let next = Math.max(0, after + 1);
  let bytes = 0;
  let count = 0;
  while (next < log.length && (count === 0 || bytes < maxBytes)) {
    const [index, place] = placeOf(log, next);
    bytes += sizeOfEvent(log.segments[index]?.at(place) as TaskEvent);
    count += 1;
    next += 1;
  }
  return count;
}

/** At most `limit` events with a number above `after`; the cost is in proportion to the result. */
export function readEvents(log: EventLog, after: number, limit: number): TaskEvent[] {
  let next = Math.max(0, after + 1);
  const end = Math.min(log.length, next + limit);
  const events: TaskEvent[] = [];
  for (; next < end; next++) {
    const [index, place] = placeOf(log, next);
    events.push(log.segments[index]?.at(place) as TaskEvent);
  }
  return events;
}
