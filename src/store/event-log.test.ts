import { describe, expect, it } from "vitest";
import type { TaskEvent } from "../protocol/event.ts";
import { appendEvents, createEventLog, readEvents, trimEvents } from "./event-log.ts";

const eventsOf = (count: number) =>
  Array.from({ length: count }, () => ({ type: "task.text.delta", delta: "x" }) as TaskEvent);
const numbersIn = (events: readonly TaskEvent[]) =>
  events.map((event) => (event as { sequence_number?: number }).sequence_number);

describe("an event log", () => {
  it("reads across its segments, whatever the size of the appends", () => {
    const log = createEventLog("s");
    for (const count of [1, 1_022, 3, 2_048]) appendEvents(log, eventsOf(count));
    const lengths = log.segments.map(({ length }) => length);
    expect([new Set(lengths.slice(0, -1)), lengths.at(-1)]).toEqual([new Set([64]), 2]);
    expect(numbersIn(readEvents(log, 1_022, 3))).toEqual([1_023, 1_024, 1_025]);
    expect(numbersIn(readEvents(log, -1, 5_000))).toEqual([...Array(3_074).keys()]);
    expect(readEvents(log, 3_073, 10)).toEqual([]);
  });

  it("lets go of trimmed events, also where its arrays outlive it in the old space", () => {
    const log = createEventLog("s");
    appendEvents(log, eventsOf(1_100));
    const { segments } = log;
    trimEvents(log, 1_099, []);
    expect(segments.filter(Array.isArray)).toEqual([[]]);
    appendEvents(log, eventsOf(1));
    expect(numbersIn(readEvents(log, 1_099, 10))).toEqual([1_100]);
  });

  it("packs a segment only if most of its events are deltas", () => {
    const log = createEventLog("s");
    const others = (count: number) =>
      Array.from({ length: count }, () => ({ type: "task.completed" }) as TaskEvent);
    appendEvents(log, [...eventsOf(48), ...others(16)]);
    appendEvents(log, [...eventsOf(47), ...others(17)]);
    expect(log.segments.map(Array.isArray)).toEqual([false, true]);
    expect(numbersIn(readEvents(log, -1, 128))).toEqual([...Array(128).keys()]);
  });
});
