import { expect, it } from "vitest";
import type { Fields } from "../../../test/support/hand-log.ts";
import {
  begin,
  block,
  end,
  found,
  log,
  message,
  open,
  task,
  text,
} from "../../../test/support/hand-log.ts";

it("continues from a snapshot", () => {
  const snapshot = {
    type: "task.snapshot",
    task_id: "task_r",
    through_sequence_number: 41,
    through_task_seq: 30,
    created_at: 0,
    task: {
      ...task("in_progress").task,
      output: [
        { ...message("in_progress").item, block_list: [text("Hel", { status: "in_progress" })] },
      ],
    },
  };
  const tail: Fields[] = log(
    ["text.delta", { ...block, delta: "lo" }],
    ["text.done", { ...block, item: text("Hello") }],
    ["output_item.done", message("completed", text("Hello"))],
    end,
  ).map((event, nth) => ({ ...event, sequence_number: 42 + nth, task_seq: 31 + nth }));
  expect(found([snapshot, ...tail])).toEqual([]);
  expect(found([snapshot, ...tail.with(0, { ...tail[0], delta: "p" })])).toEqual([[2, "I5"]]);
  expect(found([snapshot, ...tail.slice(1)])).toContainEqual([1, "sequence"]);
});

it("accepts an older snapshot with the events after it again, and reports a different one", () => {
  const events = log(
    ...begin,
    open,
    ["text.done", { ...block, item: text("Hi") }],
    ["output_item.done", message("completed", text("Hi"))],
    end,
  );
  const older = (status: string) => ({
    type: "task.snapshot",
    task_id: "task_r",
    through_sequence_number: 2,
    through_task_seq: 2,
    created_at: 0,
    task: { ...task(status, { session_id: "sess-1" }).task, output: [message("in_progress").item] },
  });
  expect(found([...events, older("in_progress"), ...events.slice(3)])).toEqual([]);
  expect(found([...events, older("completed"), ...events.slice(3)])).toEqual([[6, "snapshot"]]);
});
