import { describe, expect, it } from "vitest";
import type { TaskEvent } from "../protocol/event.ts";
import { sizeOfEvent } from "./event-size.ts";

describe("sizeOfEvent", () => {
  it("does not count strings that events share", () => {
    const event = {
      type: "task.custom",
      task_id: "t",
      name: "n",
      value: 1,
    } as unknown as TaskEvent;
    const from = { path: "a".repeat(1_000) };
    expect(sizeOfEvent({ ...event, source: from } as unknown as TaskEvent)).toBe(
      sizeOfEvent(event),
    );
  });

  it("counts the text of an item and of arguments", () => {
    const done = (text: string) => ({ type: "task.text.done", item: { type: "text", text } });
    const sent = (text: string) => ({ type: "task.tool_call_arguments.done", arguments: text });
    for (const event of [done, sent]) {
      const [short, long] = [event(""), event("a".repeat(1_000))] as unknown as TaskEvent[];
      expect(sizeOfEvent(long as TaskEvent) - sizeOfEvent(short as TaskEvent)).toBe(2_000);
    }
  });

  it("accepts a circular value", () => {
    const value: unknown[] = [];
    value.push(value);
    expect(sizeOfEvent({ type: "task.custom", value } as unknown as TaskEvent)).toBeLessThan(1_000);
  });
});
