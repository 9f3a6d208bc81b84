import fc from "fast-check";
import { expect, it } from "vitest";
import type { TaskEvent } from "../protocol/index.ts";
import { PackedEvents } from "./packed-events.ts";

const source = { path: "s/a", agentId: "a" };
const field = fc.record(
  {
    type: fc.constantFrom("task.text.delta", "task.reasoning_text.delta", "task.custom"),
    task_id: fc.constantFrom("t", "child"),
    item_id: fc.constantFrom("one", "two"),
    task_seq: fc.nat(),
    created_at: fc.double({ noNaN: true }),
    output_index: fc.nat(2),
    block_index: fc.nat(1),
    delta: fc.string({ unit: "grapheme" }),
    source: fc.constant(source),
    prev_task_seq: fc.nat(2),
  },
  { requiredKeys: ["type", "task_id", "task_seq", "created_at"] },
);

it("gives back every event", () => {
  fc.assert(
    fc.property(fc.array(field, { maxLength: 80 }), fc.nat(1_000), (fields, first) => {
      const events = fields.map((event, index) => ({
        ...event,
        sequence_number: first + index,
      })) as unknown as TaskEvent[];
      const packed = new PackedEvents(events, first);
      expect(packed.length).toBe(events.length);
      expect(events.map((_, index) => packed.at(index))).toEqual(events);
    }),
  );
});

it("shares one event between the deltas of a block", () => {
  const events = Array.from({ length: 64 }, (_, index) => ({
    type: "task.text.delta",
    task_id: `t${index % 2}`,
    task_seq: index,
    created_at: 5,
    sequence_number: index,
    delta: "x",
  })) as unknown as TaskEvent[];
  const packed = new PackedEvents(events, 0);
  expect(packed.at(63)).toEqual(events[63]);
  expect(packed.shared).toBe(2);
});
