import { expect, it } from "vitest";
import type { Message } from "../../protocol/message.ts";
import { lastRepeat, type Repeat, repeatOf } from "./transcript.ts";

const output = [{ type: "text", text: "same" }] as const;
const call = { name: "look", input: { a: 1 } };

/** A stored result that carries its count. */
function stored(repeat: Repeat, taskId = "t"): Message {
  const metadata = { repeat };
  const block = { type: "tool_result", id: "c", name: "look", output, state: "success" } as const;
  return { id: "m", role: "tool", content: [{ ...block, metadata }], metadata: { taskId } };
}

it("counts equal calls with equal results in a row", () => {
  const messages: Message[] = [];
  const times = [1, 2, 3].map(() => {
    const repeat = repeatOf(messages, "t", call, output);
    messages.push(stored(repeat), { id: "a", role: "assistant", content: [] });
    return repeat.times;
  });
  expect(times).toEqual([1, 2, 3]);
  expect(lastRepeat(messages, "t")?.times).toBe(3);
});

it("counts equal calls of one reply once", () => {
  const messages: Message[] = [];
  const times = [1, 2, 3].map(() => {
    messages.push({ id: "a", role: "assistant", content: [] });
    return [1, 2].map(() => {
      const repeat = repeatOf(messages, "t", call, output);
      messages.push(stored(repeat));
      return repeat.times;
    });
  });
  expect(times).toEqual([
    [1, 1],
    [2, 2],
    [3, 3],
  ]);
});

it("ignores the order of fields, at any depth", () => {
  const a = { name: "look", input: { x: 1, y: [{ p: 1, q: 2 }] } };
  const b = { name: "look", input: { y: [{ q: 2, p: 1 }], x: 1 } };
  expect(repeatOf([], "t", a, output)).toEqual(repeatOf([], "t", b, output));
  const c = { name: "look", input: { y: [{ q: 1, p: 2 }], x: 1 } };
  expect(repeatOf([], "t", a, output)).not.toEqual(repeatOf([], "t", c, output));
});

it("restarts with another tool, input, result or task", () => {
  const reply: Message = { id: "a", role: "assistant", content: [] };
  const messages = [stored(repeatOf([], "t", call, output)), reply];
  expect(repeatOf(messages, "t", call, output).times).toBe(2);
  expect(repeatOf(messages, "t", { ...call, name: "see" }, output).times).toBe(1);
  expect(repeatOf(messages, "t", { ...call, input: { a: 2 } }, output).times).toBe(1);
  expect(repeatOf(messages, "t", call, [{ type: "text", text: "other" }]).times).toBe(1);
  expect(repeatOf(messages, "another", call, output).times).toBe(1);
  expect(lastRepeat([], "t")).toBeUndefined();
});
