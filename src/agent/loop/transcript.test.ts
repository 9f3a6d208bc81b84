import { expect, it } from "vitest";
import type { Message } from "../../contract/message.ts";
import { memoryStore } from "../../store/memory.ts";
import { commitOnce, message, record } from "../../testing/store-contract/samples.ts";
import { lastRepeat, type Repeat, readTranscript, repeatOf } from "./transcript.ts";

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

it("reads a long session in pages, one in each turn of the event loop", async () => {
  const store = memoryStore();
  const task = record({ status: "queued" });
  const messages = Array.from({ length: 7_001 }, (_, n) => message(`${n}`));
  await commitOnce(store, { tasks: [task], appends: [{ sessionId: "sess_1", at: 0, messages }] });
  const pages: number[] = [];
  let [inTurn, most] = [0, 0];
  const counted: typeof store = {
    ...store,
    async session(...args) {
      if (inTurn === 0) setImmediate(() => (inTurn = 0));
      inTurn += 1;
      most = Math.max(most, inTurn);
      const page = await store.session(...args);
      pages.push(page.length);
      return page;
    },
  };
  const transcript = await readTranscript(counted, task);
  expect(transcript).toEqual({ messages, offset: 0 });
  expect([pages, most]).toEqual([[2_000, 2_000, 2_000, 1_001], 1]);
});
