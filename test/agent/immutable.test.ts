import { describe, expect, it } from "vitest";
import { z } from "zod";
import { userMessage } from "../../src/contract/message.ts";
import {
  type Hook,
  jsonSchema,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  Toolkit,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { inShort, whatIsLeft } from "./support/run-script.ts";

const session = { sessionId: "s" };

/** Something as what it is not: a thing that may be changed. */
// biome-ignore lint/suspicious/noExplicitAny: the tests change what the types forbid to change.
const open = (value: unknown) => value as any;

function agentOf(script: Script, more: Partial<ReActAgentOptions> = {}) {
  const store = memoryStore();
  const model = scriptedModel(script);
  return { store, model, agent: new ReActAgent({ name: "lead", model, store, ...more }) };
}

describe("the transcript is not changed by", () => {
  it("a hook that edits a model call's messages in place, except for that call", async () => {
    const hook: Hook = {
      name: "edits",
      preReasoning(_, call) {
        open(call.messages[0]).content[0].text = "Changed.";
        call.messages.push(userMessage("More."));
        open(call.options).providerOptions.x.n += 1;
      },
    };
    const { agent, store, model } = agentOf(["One.", "Two."], {
      hooks: [hook],
      modelOptions: { providerOptions: { x: { n: 1 } } },
    });
    await agent.call("First.", session);
    await agent.call("Second.", session);
    const stored = (await store.session("s")).map(({ content }) => open(content[0]).text);
    expect(stored).toEqual(["First.", "One.", "Second.", "Two."]);
    for (const { prompt, providerOptions } of model.calls) {
      expect(JSON.stringify(prompt[0])).toContain("Changed.");
      expect(JSON.stringify(prompt.at(-1))).toContain("More.");
      expect(providerOptions).toEqual({ x: { n: 2 } });
    }
  });

  it("a hook that only reads messages, which stay cached", async () => {
    const hook: Hook = {
      name: "looks",
      preReasoning: (_, call) => ({ ...call, systemPrompt: "Be short." }),
    };
    const { agent, model } = agentOf(
      Array.from({ length: 6 }, () => "One."),
      { hooks: [hook] },
    );
    for (let call = 0; call < 6; call++) await agent.call("Next.", session); // a short transcript is not cached
    const [first, second] = model.calls.slice(-2).map(({ prompt }) => prompt[1]);
    expect(first).toBe(second);
  });

  it.each<[string, Hook]>([
    ["preCall", { name: "h", preCall: (_, input) => void open(input[0]).content.pop() }],
    [
      "postReasoning",
      {
        name: "h",
        postReasoning(_, message) {
          open(message).content[0].text = "Changed.";
        },
      },
    ],
    ["preReasoning", { name: "h", preReasoning: ({ messages }) => void open(messages).pop() }],
  ])("a hook at %s: to try is an error that names it", async (_, hook) => {
    const { agent, store } = agentOf(["One."], { hooks: [hook] });
    await expect(agent.call("First.", session)).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining("Hook h failed"),
    });
    expect(JSON.stringify(await store.session("s"))).not.toContain("Changed.");
    expect((await store.session("s"))[0]?.content).toEqual([{ type: "text", text: "First." }]);
  });

  it("a hook that mutates its return value later", async () => {
    const edited = { ...userMessage("Edited."), role: "assistant" } as Message;
    const output = [{ type: "text" as const, text: "Made up." }];
    const hook: Hook = {
      name: "keeps",
      preActing: () => ({ result: output }),
      postReasoning: (_, { content }) =>
        content.some(({ type }) => type === "tool_use") ? undefined : edited,
      postCall() {
        open(edited).content[0].text = "Changed.";
        open(output[0]).text = "Changed.";
      },
    };
    const count = tool({ name: "count", description: "Counts.", execute: () => 1 });
    const { agent, store } = agentOf([[{ call: "count" }], "One."], {
      hooks: [hook],
      tools: [count],
    });
    await agent.call("First.", session);
    const text = JSON.stringify(await store.session("s"));
    expect([
      text.includes("Changed."),
      text.includes("Edited."),
      text.includes("Made up."),
    ]).toEqual([false, true, true]);
  });

  it("a tool that mutates its input", async () => {
    const sort = tool({
      name: "sort",
      description: "Sorts.",
      input: jsonSchema<{ list: number[] }>({
        type: "object",
        properties: { list: { type: "array" } },
      }),
      execute: ({ list }) => list.sort().join(" "),
    });
    const script: Script = [[{ call: "sort", input: { list: [2, 1] } }], "Sorted."];
    const { agent, store } = agentOf(script, { tools: [sort] });
    const { results, messages } = await whatIsLeft(store, await agent.call("Go.", session));
    expect(results.map(inShort)).toEqual(["success: 1 2"]);
    expect(messages[1]?.content).toMatchObject([{ input: { list: [2, 1] } }]);
  });

  it("a tool that mutates its messages, which throws in the tool", async () => {
    const forget = tool({
      name: "forget",
      description: "Forgets.",
      execute(_, { messages }) {
        open(messages).length = 0;
      },
    });
    const { agent, store } = agentOf([[{ call: "forget" }], "Done."], { tools: [forget] });
    const reply = await agent.call("Go.", session);
    const { results, messages } = await whatIsLeft(store, reply);
    expect([reply.text, messages.length]).toEqual(["Done.", 4]);
    expect(results.map(inShort)).toEqual([expect.stringMatching(/^error: Tool execution failed/)]);
  });

  it("a caller that mutates its input or the reply", async () => {
    const said = userMessage("First.");
    const answer = z.object({ list: z.array(z.number()) });
    const { agent, store } = agentOf([[{ call: "generate_response", input: { list: [1] } }]]);
    const reply = await agent.call(said, { ...session, output: answer });
    open(said).content[0].text = "Changed.";
    open(said).content.push({ type: "text", text: "Changed." });
    expect(() => open(reply).content.push(said)).toThrow(TypeError);
    reply.structured?.list.push(2);
    const record = await store.task(reply.task.taskId);
    expect(record?.structured).toEqual({ list: [1] });
    expect(JSON.stringify(await store.session("s"))).not.toContain("Changed.");
  });
});

describe("an agent is not changed by", () => {
  it("a caller that mutates the options", async () => {
    const deny = ["rm"];
    const context: Record<string, unknown> = { who: "Ann" };
    const budget = { iterations: 2 };
    const ran: unknown[] = [];
    const rm = tool({
      name: "rm",
      description: "Removes.",
      execute: (_, { get }) => void ran.push(get("who")),
    });
    const who = tool({ name: "who", description: "Asks.", execute: (_, { get }) => get("who") });
    const script: Script = ({ callIndex }) => [{ call: callIndex === 0 ? "rm" : "who" }];
    const { agent, store } = agentOf(script, {
      tools: [rm, who],
      permissions: { deny },
      context,
      budget,
    });
    deny.length = 0;
    context.who = "Bob";
    budget.iterations = 100;
    const reply = await agent.call("Go.", session);
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([expect.stringContaining("denied:"), "success: Ann"]);
    expect([ran, reply.generateReason]).toEqual([[], "budget"]);
  });

  it("a tool that mutates its presets", async () => {
    const preset = { list: [1] };
    const extra = { list: [1] };
    const input = jsonSchema<{ list: number[] }>({
      type: "object",
      properties: { list: { type: "array" } },
    });
    const execute = ({ list }: { list: number[] }) => list.push(2);
    const grow = tool({ name: "grow", description: "Grows.", input, preset, execute });
    const more = tool({ name: "more", description: "Grows.", input, execute });
    const toolkit = new Toolkit({ tools: [grow, more], extraInput: { more: extra } });
    const twice = [{ call: "grow" }, { call: "more" }];
    const { agent, store } = agentOf([twice, twice, "Done."], { toolkit });
    const { results } = await whatIsLeft(store, await agent.call("Go.", session));
    expect(results.map(inShort)).toEqual(Array(4).fill("success: 2"));
    expect([preset, extra]).toEqual([{ list: [1] }, { list: [1] }]);
  });
});
