import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ReActAgent, type ReActAgentOptions, tool } from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";

const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
const search = { type: "provider", id: "openai.web_search", name: "web_search", args: {} };

function make(script: Script, options: Partial<ReActAgentOptions>) {
  const model = scriptedModel(script);
  return { model, agent: new ReActAgent({ name: "lead", model, tools: [look], ...options }) };
}

describe("toolChoice", () => {
  it("passes from the agent's options to the model", async () => {
    const { agent, model } = make(["done"], { modelOptions: { toolChoice: "none" } });
    await agent.call("Go.");
    expect(model.calls[0]?.toolChoice).toEqual({ type: "none" });
  });

  it("applies to the model call that a hook edits", async () => {
    const { agent, model } = make([[{ call: "look" }], "done"], {
      hooks: [
        {
          name: "first look",
          preReasoning({ messages }, call) {
            if (messages.length > 1) return;
            return { ...call, options: { ...call.options, toolChoice: { type: "required" } } };
          },
        },
      ],
    });
    expect((await agent.call("Go.")).text).toBe("done");
    expect(model.calls.map(({ toolChoice }) => toolChoice?.type)).toEqual(["required", "auto"]);
  });

  it("does not block structured output", async () => {
    const script: Script = [[{ call: "generate_response", input: { n: 1 } }]];
    const { agent, model } = make(script, { modelOptions: { toolChoice: "none" } });
    const reply = await agent.call("Go.", { output: z.object({ n: z.number() }) });
    expect(reply.structured).toEqual({ n: 1 });
    expect(model.calls[0]?.tools).toMatchObject([{ name: "generate_response" }]);
    expect(model.calls[0]?.toolChoice).toEqual({ type: "auto" });
  });
});

describe("provider tools", () => {
  const modelOptions = { tools: [search], toolChoice: "auto" };

  it("are offered with the agent's tools", async () => {
    const { agent, model } = make(["done"], { modelOptions });
    await agent.call("Go.");
    expect(model.calls[0]?.tools).toMatchObject([{ name: "look" }, search]);
  });

  it("are not offered for a summary", async () => {
    const { agent, model } = make([[{ call: "look" }], "so far"], { modelOptions, maxIters: 1 });
    expect((await agent.call("Go.")).generateReason).toBe("max_iterations");
    expect(model.calls[1]).not.toHaveProperty("tools");
    expect(model.calls[1]).not.toHaveProperty("toolChoice");
  });

  it("are offered with structured output", async () => {
    const script: Script = [[{ call: "generate_response", input: { n: 1 } }]];
    const { agent, model } = make(script, { modelOptions });
    const reply = await agent.call("Go.", { output: z.object({ n: z.number() }) });
    expect(reply.structured).toEqual({ n: 1 });
    const names = model.calls[0]?.tools?.map(({ name }) => name);
    expect(names).toEqual(["look", "generate_response", "web_search"]);
  });

  it("are validated by the constructor", () => {
    const refused = expect.objectContaining({ code: "invalid_settings" });
    expect(() => make([], { modelOptions: { tools: { search } } })).toThrow(refused);
  });
});
