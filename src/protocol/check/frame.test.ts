import { expect, it } from "vitest";
import { begin, end, found, log } from "../../../test/support/hand-log.ts";

const opened = {
  type: "stream.opened",
  protocol: "rivulet.task-stream/1",
  root_task_id: "task_r",
  oldest_sequence_number: 0,
  last_sequence_number: 1,
  heartbeat_ms: 15_000,
};
const closed = (reason: string, final: boolean) => ({
  type: "stream.closed",
  reason,
  final,
  last_sequence_number: 2,
});
const error = { type: "error", code: "cursor_expired", message: "gone", retryable: true };

it("accepts control frames in legal positions", () => {
  const [created, running, completed] = log(...begin, end);
  const frames = [
    opened,
    error,
    created,
    closed("slow_consumer", false),
    opened,
    running,
    { type: "stream.heartbeat", created_at: 0, last_sequence_number: 1 },
    completed,
    closed("terminal", true),
  ];
  expect(found(frames)).toEqual([]);
});

it("reports frames after stream.closed and a wrong `final`", () => {
  const events = log(...begin, end);
  expect(found([closed("idle", false), ...events])).toEqual([
    [1, "frame"],
    [2, "frame"],
    [3, "frame"],
  ]);
  expect(found([...events, closed("idle", true)])).toEqual([[3, "frame"]]);
  const early = { ...closed("terminal", true), last_sequence_number: 1 };
  expect(found([...log(...begin), early], { partial: true })).toEqual([[2, "frame"]]);
  expect(found([{ ...opened, protocol: 1 }])).toEqual([[0, "shape"]]);
});
