import { describe, expect, it } from "vitest";
import { createIds } from "../../base/id.ts";
import type { Answer, Input } from "../../contract/agent.ts";
import { userMessage } from "../../contract/message.ts";
import { readInput } from "./input.ts";

const read = (input: unknown) => readInput(input as Input, createIds());
const answer: Answer = {
  type: "answer",
  approvalId: "apr_1",
  taskId: "t",
  rootTaskId: "t",
  decision: "approve",
};
const result = (id: string) => ({
  id: `m_${id}`,
  role: "tool",
  content: [
    { type: "tool_result", id, name: "x", output: [{ type: "text", text: id }], state: "success" },
  ],
});

describe("readInput", () => {
  it("accepts nothing, text, messages, answers, results and arrays of them", () => {
    expect(read(undefined)).toEqual({ messages: [], answers: [], results: new Map() });
    expect(read("hi").messages).toMatchObject([{ role: "user", content: [{ text: "hi" }] }]);
    const message = userMessage("hi");
    expect(read(message).messages).toEqual([message]);
    expect(read([message, "more"]).messages).toHaveLength(2);
    expect(read(answer).answers).toEqual([answer]);
    const { messages, answers, results } = read([answer, result("c1"), message]);
    expect([messages.length, answers.length, [...results.keys()]]).toEqual([1, 1, ["c1"]]);
  });

  it("assigns an id to a message without one", () => {
    expect(read({ role: "user", content: [] }).messages[0]?.id).toMatch(/^msg_/);
  });

  it.each([
    null,
    7,
    {},
    { role: "user" },
    { ...answer, decision: "yes" },
    { ...answer, decision: undefined },
    { ...answer, approvalId: 7 },
    { ...answer, output: "text" },
    ["hi", 7],
  ])("rejects %j", (input) => {
    expect(() => read(input)).toThrow(expect.objectContaining({ code: "invalid_input" }));
  });

  it("keeps the state of an external result and the text beside it", () => {
    const [failed] = result("c1").content.map((block) => ({ ...block, state: "error" }));
    const said = { role: "user", content: [failed, { type: "text", text: "Sorry." }] };
    const { messages, results } = read(said);
    expect(results.get("c1")).toEqual({ output: [{ type: "text", text: "c1" }], state: "error" });
    expect(messages).toMatchObject([{ role: "user", content: [{ text: "Sorry." }] }]);
  });

  it("reads calls with results as history", () => {
    const call = { type: "tool_use", id: "c1", name: "x", input: {} };
    const { messages, results } = read([{ role: "assistant", content: [call] }, result("c1")]);
    expect(messages.map(({ role }) => role)).toEqual(["assistant", "tool"]);
    expect(results.size).toBe(0);
  });

  it("returns copies", () => {
    const message = userMessage("hi");
    const [copy] = read(message).messages;
    expect(copy).toEqual(message);
    expect(copy?.content[0]).not.toBe(message.content[0]);
  });

  it("rejects duplicates", () => {
    const twice = expect.objectContaining({ code: "duplicate_input" });
    expect(() => read([answer, { ...answer, decision: "deny" }])).toThrow(twice);
    expect(() => read([result("c1"), result("c1")])).toThrow(twice);
  });
});
