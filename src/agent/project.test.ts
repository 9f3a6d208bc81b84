import { describe, expect, it } from "vitest";
import type { AgentEvent, StreamOptions } from "../protocol/agent.ts";
import { scriptedModel } from "../testing/index.ts";
import { agentTool } from "./agent-tool.ts";
import { ReActAgent } from "./react-agent.ts";
import { tool } from "./tool/tool.ts";

const echo = tool({
  name: "echo",
  description: "Says it again.",
  execute(_, { emit }) {
    emit("one ");
    emit("two");
    return "for the model";
  },
});
const helper = () =>
  agentTool(new ReActAgent({ name: "helper", model: scriptedModel([["Hel", "ped."]]) }));

async function streamed(options: StreamOptions = {}): Promise<readonly AgentEvent[]> {
  const calls = [{ call: "echo" }, { call: "helper", input: { prompt: "x" } }];
  const script = [[{ thinking: "Hm." }, "Wait. ", ...calls], { text: ["The ", "end."] }];
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel(script),
    tools: [echo, helper()],
    parallel: false,
  });
  const events: AgentEvent[] = [];
  for await (const event of agent.stream("Go.", { sessionId: "s", ...options })) events.push(event);
  return events;
}
const inShort = ({ type, last, text, source }: AgentEvent) =>
  `${source?.path ?? "-"} ${type}${last ? "." : ""} ${text}`;

describe("a run as agent events", () => {
  it("chunks come first, then each message whole, then how each agent ended", async () => {
    expect((await streamed()).map(inShort)).toEqual([
      "- reasoning ", // thinking is no text
      "- reasoning Wait. ",
      "- reasoning. Wait. ",
      "- tool_result one ",
      "- tool_result two",
      "- tool_result. one two",
      "s/helper reasoning Hel",
      "s/helper reasoning ped.",
      "s/helper reasoning. Helped.",
      "s/helper agent_result. Helped.",
      "- tool_result. Helped.",
      "- reasoning The ",
      "- reasoning end.",
      "- reasoning. The end.",
      "- agent_result. The end.",
    ]);
  });

  it("chunks put together are the message; accumulated ones are the text so far", async () => {
    for (const incremental of [true, false]) {
      const events = await streamed({ incremental, types: ["reasoning"] });
      const own = events.filter(({ source }) => source === undefined).slice(3);
      const chunks = own.slice(0, -1).map(({ text }) => text);
      expect(incremental ? chunks.join("") : chunks.at(-1)).toBe(own.at(-1)?.text);
    }
  });

  it("leaves chunks out when asked to, and other types", async () => {
    const events = await streamed({ chunks: false, types: ["tool_result", "agent_result"] });
    expect(events.map(inShort)).toEqual([
      "- tool_result. one two",
      "s/helper agent_result. Helped.",
      "- tool_result. Helped.",
      "- agent_result. The end.",
    ]);
  });

  it("carries whole messages: who, what, and each call with its result", async () => {
    const events = await streamed({ chunks: false });
    const [first, result] = events;
    expect(first?.message).toMatchObject({ role: "assistant", name: "lead" });
    expect(first?.message.content.map(({ type }) => type)).toEqual([
      "thinking",
      "text",
      "tool_use",
      "tool_use",
    ]);
    const [block] = result?.message.content ?? [];
    expect(block).toMatchObject({ type: "tool_result", name: "echo", state: "success" });
    const child = events.find(({ source }) => source !== undefined);
    expect(child?.source).toMatchObject({ depth: 1, agentId: "helper", parentSessionId: "s" });
    expect(child?.message.name).toBe("helper");
  });

  it("throws what the run fails with, after what it has shown", async () => {
    const error = Object.assign(new Error("no"), { statusCode: 401 });
    const script = [[{ call: "echo" }], { error }];
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(script), tools: [echo] });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { type } of agent.stream("Go.", { chunks: false })) seen.push(type);
    })();
    await expect(reading).rejects.toMatchObject({ code: "unauthorized" });
    expect(seen.slice(0, 2)).toEqual(["reasoning", "tool_result"]);
  });

  it("goes on in the middle when a task is resumed", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute: () => "yes",
    });
    const model = scriptedModel([[{ call: "ask" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [ask] });
    const { approvals } = await agent.call("Go.", { sessionId: "s" });
    const events: AgentEvent[] = [];
    const answers = approvals.map((one) => one.approve());
    for await (const event of agent.stream(answers, { sessionId: "s", chunks: false }))
      events.push(event);
    expect(events.map(inShort)).toEqual([
      "- tool_result. yes",
      "- reasoning. done",
      "- agent_result. done",
    ]);
    expect(events[0]?.message.content).toMatchObject([{ name: "ask" }]);
  });

  it("can be left at any time", async () => {
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ text: ["a", "b"] }, "c"]),
    });
    for await (const _ of agent.stream("Go.", { sessionId: "s" })) break;
    expect((await agent.call("Next.", { sessionId: "s" })).text).toBe("c");
  });
});
