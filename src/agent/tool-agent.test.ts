import { expect, it } from "vitest";
import { z } from "zod";
import { memoryStore } from "../store/index.ts";
import { agentWith, ReActAgent } from "./react-agent.ts";
import { tool } from "./tool/tool.ts";
import { toolAgent, toolBehind } from "./tool-agent.ts";

const image = { type: "image", source: { data: "aGk=", mimeType: "image/png" } } as const;
const add = tool({
  name: "add",
  description: "Adds.",
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});

it("runs its tool once with the JSON of the message, and says the result", async () => {
  const agent = toolAgent(add, { store: memoryStore() });
  expect(agent).toMatchObject({ name: "add", description: "Adds." });
  const reply = await agent.call('{"a":1,"b":2}', { sessionId: "s" });
  expect(reply.text).toBe("3");
  expect((await agent.call('{"a":3,"b":4}', { sessionId: "s" })).text).toBe("7");
});

it.each(["Hello.", '{"a":1}', ""])("says why an input does not fit: %j", async (input) => {
  const { text } = await toolAgent(add, { store: memoryStore() }).call(input || "{}");
  expect(text).toMatch(/invalid/);
});

it("asks for an approval like any agent, and continues with the answer", async () => {
  const careful = tool({
    name: "go",
    description: "Goes.",
    needsApproval: true,
    execute: () => [image],
  });
  const agent = toolAgent(careful, { store: memoryStore() });
  const waiting = await agent.call("{}", { sessionId: "s" });
  expect(waiting.approvals).toMatchObject([{ kind: "tool_call", call: { name: "go" } }]);
  const [approval] = waiting.approvals;
  const reply = await agent.call(approval?.approve(), { sessionId: "s" });
  expect(reply).toMatchObject({ text: "The result has no text.", generateReason: "model_stop" });
});

it("is told from other agents, also with another store", () => {
  const agent = toolAgent(add, { store: memoryStore() });
  expect(toolBehind(agent)).toBe(add);
  expect(toolBehind(agentWith(agent, { store: memoryStore() }))).toBe(add);
  expect(toolBehind(new ReActAgent({ name: "x", model: "openai:x", store: memoryStore() }))).toBe(
    undefined,
  );
});

it("runs a tool again with the answer to its question, which is not its result", async () => {
  const starts: unknown[] = [];
  const paint = tool({
    name: "paint",
    description: "Paints.",
    input: z.object({ wall: z.string() }),
    needsApproval: true,
    execute({ wall }, { suspend, resumed }) {
      starts.push(resumed?.answer.decision);
      if (resumed === undefined) suspend("Which colour?", { resume: { layer: 2 } });
      return { wall, resumed: resumed?.resume, answer: resumed?.answer.output };
    },
  });
  const agent = toolAgent(paint, { store: memoryStore() });
  const at = { sessionId: "s" };
  const first = await agent.call('{"wall":"north"}', at);
  const second = await agent.call(
    first.approvals.map((asked) => asked.approve()),
    at,
  );
  expect(second.approvals).toMatchObject([{ kind: "question", message: "Which colour?" }]);
  const end = await agent.call(
    second.approvals.map((asked) => asked.answer("red")),
    at,
  );
  expect(JSON.parse(end.text)).toEqual({
    ...{ wall: "north", resumed: { layer: 2 } },
    answer: [{ type: "text", text: "red" }],
  });
  expect(starts).toEqual([undefined, "answer"]);
});
