import { describe, expect, it } from "vitest";
import { type Example, examples } from "../../test/support/examples.ts";
import { RivuletError } from "../base/error.ts";
import { parseEvent } from "./parse-event.ts";

function problemOf(value: unknown): RivuletError {
  try {
    parseEvent(value);
  } catch (error) {
    if (error instanceof RivuletError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

const added = examples.find((example) => example.type === "task.output_item.added") as Example;
const message = { type: "message", id: "msg_1", role: "assistant" };

describe("parseEvent", () => {
  it("returns every event of the catalogue unchanged", () => {
    const events = examples.filter((example) => !example.type.startsWith("stream."));
    for (const event of events) expect(parseEvent(event)).toEqual(event);
  });

  it("does not change its argument", () => {
    const before = JSON.stringify(examples);
    for (const event of examples) if (!event.type.startsWith("stream.")) parseEvent(event);
    expect(JSON.stringify(examples)).toBe(before);
  });

  it("sets `retryable` of a tool result's error to false by default", () => {
    const error = { code: "tool_error", message: "No answer." };
    const item = { type: "tool_result", id: "fco_1", call_id: "call_1", error };
    const event = parseEvent({ ...added, type: "task.output_item.done", item });
    expect(event).toHaveProperty("item.error", { ...error, retryable: false });
  });

  it.each([undefined, null, 7, "text", [], () => 1])("refuses %s", (value) => {
    const { code, message, hint } = problemOf(value);
    expect({ code, message }).toEqual({
      code: "invalid_event",
      message: "An event must be a JSON object.",
    });
    expect(hint).toBeTruthy();
  });

  it.each([undefined, 7, "task.unheard_of", "stream.opened", "constructor", "__proto__"])(
    "refuses the type %s and says what readers do with it",
    (type) => {
      const { code, message, hint } = problemOf({ ...added, type });
      expect(code).toBe("invalid_event");
      expect(message).toContain(typeof type === "string" ? JSON.stringify(type) : typeof type);
      expect(hint).toContain("ignore");
    },
  );

  it("shortens a long type in its message", () => {
    expect(problemOf({ type: "x".repeat(10_000_000) }).message.length).toBeLessThan(200);
  });

  it.each([
    ["task_seq", { ...added, task_seq: -1 }],
    ["item", { ...added, item: 7 }],
    ["item.type", { ...added, item: { id: "x_1" } }],
    ["item.id", { ...added, item: { type: "unheard_of", id: "" } }],
    ["item.block_list.0.text", { ...added, item: { ...message, block_list: [{ type: "text" }] } }],
    ["item.block_list.0.type", { ...added, item: { ...message, block_list: [{}] } }],
  ])("says that the problem is at %s", (path, event) => {
    const { code, message, hint } = problemOf(event);
    expect(code).toBe("invalid_event");
    expect(message).toMatch(`task.output_item.added, ${path}: `);
    expect(hint).toContain("taskStreamSchema.$defs");
  });

  it("changes no prototype", () => {
    const evil = JSON.parse(
      `{"__proto__":{"bad":1},"item":{"type":"unheard_of","id":"a","__proto__":{"bad":1}}}`,
    ) as object;
    const event: object = parseEvent({ ...added, ...evil, ["__proto__"]: { bad: 1 } });
    expect(event).not.toHaveProperty("bad");
    expect(event).not.toHaveProperty("item.bad");
    expect(Object.getPrototypeOf(event)).toBe(Object.prototype);
    expect({}).not.toHaveProperty("bad");
  });
});
