import type { CheckRule } from "../../../src/protocol/check/check.ts";
import type { LogEvent } from "../../../src/protocol/event.ts";
import type { Random } from "../random.ts";

export type Log = readonly LogEvent[];
type Type = LogEvent["type"];
type EventOf<T extends Type> = Extract<LogEvent, { readonly type: T }>;
type Fits<T extends Type> = (event: EventOf<T>, at: number, events: Log) => boolean;

/** One way to spoil a legal log, and the rule that must notice. */
export interface Mutation {
  readonly name: string;
  readonly rule: CheckRule;
  /** The spoilt log; undefined when this one has no place for it. */
  readonly apply: (random: Random, events: Log) => readonly unknown[] | undefined;
}

/** Gives every event the numbers of its new place, so that nothing but the order is wrong. */
export function renumber(events: Log): LogEvent[] {
  const sent = new Map<string, number>();
  return events.map((event, sequence_number) => {
    const task_seq = sent.get(event.task_id) ?? 0;
    sent.set(event.task_id, task_seq + 1);
    return { ...event, sequence_number, task_seq };
  });
}

/** An event of one of these types that fits, and its place. */
export function find<T extends Type>(
  random: Random,
  events: Log,
  types: readonly T[],
  fits: Fits<T> = () => true,
): { readonly at: number; readonly event: EventOf<T> } | undefined {
  const places = events.flatMap((event, at) =>
    (types as readonly string[]).includes(event.type) && fits(event as EventOf<T>, at, events)
      ? [at]
      : [],
  );
  if (places.length === 0) return undefined;
  const at = random.pick(places);
  return { at, event: events[at] as EventOf<T> };
}

/** Changes some fields of one event. */
export function edit<T extends Type>(
  types: readonly T[],
  change: (event: EventOf<T>) => object,
  fits?: Fits<T>,
): Mutation["apply"] {
  return (random, events) => {
    const found = find(random, events, types, fits);
    return found && events.with(found.at, { ...found.event, ...change(found.event) } as LogEvent);
  };
}

/** Leaves one event out, and closes the gap in the numbers. */
export function drop<T extends Type>(types: readonly T[], fits?: Fits<T>): Mutation["apply"] {
  return (random, events) => {
    const found = find(random, events, types, fits);
    return found && renumber(events.toSpliced(found.at, 1));
  };
}

/** Puts another event of the same task behind one, and makes room in the numbers. */
export function insertAfter<T extends Type>(
  types: readonly T[],
  make: (event: EventOf<T>) => object,
  fits?: Fits<T>,
): Mutation["apply"] {
  return (random, events) => {
    const found = find(random, events, types, fits);
    if (found === undefined) return undefined;
    const { task_id, created_at, source } = found.event;
    const envelope = { task_id, created_at, ...(source !== undefined && { source }) };
    const added = { ...make(found.event), ...envelope } as LogEvent;
    return renumber(events.toSpliced(found.at + 1, 0, added));
  };
}

/** The events that end a task. */
export const ends = ["task.completed", "task.failed", "task.cancelled", "task.incomplete"] as const;
