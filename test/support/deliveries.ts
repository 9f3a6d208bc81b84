import type { LogEvent } from "../../src/protocol/event.ts";
import type { Random } from "./random.ts";

/**
 * Returns the events in another legal order: each task keeps its own order, but tasks are interleaved at random, so that a
 * child may precede its parent. No numbers change.
 */
export function legalInterleaving(random: Random, events: readonly LogEvent[]): LogEvent[] {
  const queues = [...Map.groupBy(events, (event) => event.task_id).values()];
  const mixed: LogEvent[] = [];
  while (queues.length > 0) {
    const at = random.int(0, queues.length - 1);
    const queue = queues[at] as LogEvent[];
    mixed.push(...queue.splice(0, random.int(1, 4)));
    if (queue.length === 0) queues.splice(at, 1);
  }
  return mixed;
}

/** Returns the events with some delivered again, at once or later. */
export function withDuplicates(random: Random, events: readonly LogEvent[]): LogEvent[] {
  const doubled: LogEvent[] = [];
  for (const event of events) {
    doubled.push(event);
    if (random.chance(0.2)) doubled.push(event);
    if (random.chance(0.2)) doubled.push(random.pick(doubled));
  }
  return doubled;
}

/** Splits the events into connections of a reader that reconnects at or before its last position. */
export function reconnects(random: Random, events: readonly LogEvent[]): LogEvent[][] {
  const connections: LogEvent[][] = [];
  for (let received = 0; received < events.length; ) {
    const from = random.int(Math.max(0, received - 10), received);
    const to = random.int(received + 1, events.length);
    connections.push(events.slice(from, to));
    received = to;
  }
  return connections;
}
