import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../src/protocol/event.ts";
import { legalInterleaving, reconnects, withDuplicates } from "./deliveries.ts";
import { generateTree } from "./generate-tree.ts";
import { lens } from "./lens.ts";
import { seededRandom } from "./random.ts";

const logs = Array.from({ length: 50 }, (_, seed) => generateTree(seededRandom(seed)).events);
const bySequence = (events: readonly LogEvent[]) =>
  events.toSorted((one, other) => one.sequence_number - other.sequence_number);

describe("legalInterleaving", () => {
  it("keeps every event and every task's own order, and mixes the tasks", () => {
    let moved = 0;
    for (const [seed, events] of logs.entries()) {
      const mixed = legalInterleaving(seededRandom(seed), events);
      if (mixed.some((event, at) => event !== events[at])) moved++;
      expect(bySequence(mixed)).toEqual(events);
      for (const own of Map.groupBy(mixed, (event) => event.task_id).values()) {
        expect(own.map(({ task_seq }) => task_seq)).toEqual(own.map((_, nth) => nth));
      }
    }
    expect(moved).toBeGreaterThan(10);
  });
});

describe("withDuplicates", () => {
  it("keeps all events, in the order of their first delivery, and repeats some", () => {
    for (const [seed, events] of logs.entries()) {
      const doubled = withDuplicates(seededRandom(seed), events);
      expect([...new Set(doubled)]).toEqual(events);
      if (events.length > 20) expect(doubled.length).toBeGreaterThan(events.length);
    }
  });
});

describe("reconnects", () => {
  it("overlaps and leaves no gap", () => {
    for (const [seed, events] of logs.entries()) {
      const connections = reconnects(seededRandom(seed), events);
      expect([...new Set(connections.flat())]).toEqual(events);
      for (const connection of connections) expect(connection.length).toBeGreaterThan(0);
    }
  });
});

describe("lens", () => {
  it("shows complete tasks down to a depth, without a hint about missing events", () => {
    for (const events of logs) {
      expect(lens(events, { depth: 1 })).toEqual(
        events.filter(({ source }) => (source?.depth ?? 0) <= 1),
      );
    }
  });

  it("shows a path and what is below it", () => {
    const events = logs.find((log) => log.some(({ source }) => source?.depth === 2)) ?? [];
    const path = events.find(({ source }) => source?.depth === 1)?.source?.path ?? "";
    const seen = lens(events, { path });
    expect(seen.length).toBeGreaterThan(0);
    for (const { source } of seen) expect(`${source?.path}/`).toContain(`${path}/`);
    const [root] = events;
    const session = root?.type === "task.created" ? root.task.session_id : undefined;
    expect(lens(events, { path: session ?? "" })).toEqual(events);
  });

  it("omits items and names the last event of the task", () => {
    for (const events of logs) {
      const seen = lens(events, { exclude: ["reasoning", "tool_call"] });
      expect(seen.some(({ type }) => type.startsWith("task.reasoning_"))).toBe(false);
      for (const own of Map.groupBy(seen, (event) => event.task_id).values()) {
        for (const [nth, event] of own.entries()) {
          const before = own[nth - 1]?.task_seq ?? -1;
          expect(event.prev_task_seq ?? event.task_seq - 1).toBe(before);
        }
      }
      expect(lens(events, { include: ["message", "tool_result"] })).toEqual(seen);
    }
  });
});
