import { openai } from "@ai-sdk/openai";
import { jsonSchema as aiJsonSchema, dynamicTool, tool, zodSchema } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { ReActAgentOptions } from "../agent/loop/settings.ts";
import { ReActAgent } from "../agent/react-agent.ts";
import { type ScriptedTurn, scriptedModel } from "../testing.ts";
import { fromAiTools } from "./tools.ts";

const weather = tool({
  description: "Tells the weather.",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => ({ city, celsius: 21 }),
});

async function run(tools: ReActAgentOptions["tools"], turns: readonly ScriptedTurn[]) {
  const model = scriptedModel([...turns, "done"]);
  const agent = new ReActAgent({ name: "assistant", model, tools });
  const results: unknown[] = [];
  for await (const event of agent.stream("Go.", { types: ["tool_result"] })) {
    if (event.last) results.push(event.text);
  }
  const last = model.calls.at(-1)?.prompt.at(-1)?.content as { output: unknown }[];
  return { agent, model, shown: results, outputs: last.map(({ output }) => output) };
}

describe("fromAiTools", () => {
  it("converts a tool with a zod schema", async () => {
    const { model, outputs } = await run(fromAiTools({ weather }), [
      { call: "weather", input: { city: "Bern" } },
    ]);
    expect(model.calls[0]?.tools?.[0]).toMatchObject({
      name: "weather",
      description: "Tells the weather.",
      inputSchema: { properties: { city: { type: "string" } } },
    });
    expect(outputs).toEqual([{ type: "text", value: '{"city":"Bern","celsius":21}' }]);
  });

  it.each([
    [
      "jsonSchema()",
      aiJsonSchema<{ n: number }>({
        type: "object",
        properties: { n: { type: "number" } },
        required: ["n"],
      }),
    ],
    [
      "jsonSchema() with validate",
      aiJsonSchema<{ n: number }>(
        { type: "object" },
        {
          validate: (value) =>
            typeof (value as { n: unknown }).n === "number"
              ? { success: true, value: value as { n: number } }
              : { success: false, error: new Error("n is not a number") },
        },
      ),
    ],
    ["zodSchema()", zodSchema(z.object({ n: z.number() }))],
    ["a lazy schema", () => zodSchema(z.object({ n: z.number() }))],
  ])("takes %s, and checks the input with it", async (_, inputSchema) => {
    const double = tool({ inputSchema, execute: ({ n }) => String(2 * n) });
    const calls = [
      { call: "double", input: { n: 2 } },
      { call: "double", input: { n: "two" } },
    ];
    const { outputs } = await run(fromAiTools({ double }), [calls]);
    expect(outputs).toEqual([
      { type: "text", value: "4" },
      { type: "error-text", value: expect.stringMatching(/invalid/) },
    ]);
  });

  it("passes the call id, the signal, the messages and the context", async () => {
    const seen: unknown[] = [];
    const look = tool({
      inputSchema: z.object({}),
      contextSchema: z.object({ key: z.string() }),
      description: ({ context }) => `Looks with ${context.key}.`,
      execute: (_, { toolCallId, abortSignal, messages, context }) => {
        seen.push(toolCallId, abortSignal?.aborted, messages, context);
        return "ok";
      },
    });
    const tools = fromAiTools({ look }, { toolsContext: { look: { key: "k1" } } });
    expect(tools[0]?.description).toBe("Looks with k1.");
    await run(tools, [{ call: "look" }]);
    const [id, aborted, messages, context] = seen;
    expect([aborted, context]).toEqual([false, { key: "k1" }]);
    expect(messages).toEqual([
      { role: "user", content: [{ type: "text", text: "Go." }] },
      {
        role: "assistant",
        content: [{ type: "tool-call", toolCallId: id, toolName: "look", input: {} }],
      },
    ]);
  });

  it("uses toModelOutput for the model, and the output for people", async () => {
    const draw = tool({
      inputSchema: z.object({ fails: z.boolean().optional() }),
      execute: ({ fails = false }) => ({ png: "AQID", fails }),
      toModelOutput: ({ output, input, toolCallId }) => {
        if (input.fails) return { type: "error-text", value: "No paper." };
        const image = { type: "file", mediaType: "image/png" } as const;
        return {
          type: "content",
          value: [
            { type: "text", text: `${toolCallId.slice(0, 5)} drawn` },
            { ...image, data: { type: "data", data: output.png } },
          ],
        };
      },
    });
    const calls = [{ call: "draw" }, { call: "draw", input: { fails: true } }];
    const { outputs, shown } = await run(fromAiTools({ draw }), [calls]);
    expect(outputs).toEqual([
      {
        type: "content",
        value: [
          { type: "text", text: "call_ drawn" },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
        ],
      },
      { type: "error-text", value: "No paper." },
    ]);
    expect(shown[0]).toBe('{"png":"AQID","fails":false}');
  });

  it("emits preliminary results, and gives the model the last one", async () => {
    const write = tool({
      inputSchema: z.object({}),
      async *execute() {
        yield "Once";
        yield "Once upon";
        yield "The end.";
      },
    });
    const { outputs, shown } = await run(fromAiTools({ write }), [{ call: "write" }]);
    expect(outputs).toEqual([{ type: "text", value: "The end." }]);
    expect(shown).toEqual(["Once upon\nThe end."]);
  });

  it("asks for approval where the tool says so", async () => {
    const asked: unknown[] = [];
    const pay = tool({
      inputSchema: z.object({ amount: z.number() }),
      needsApproval: async ({ amount }, { toolCallId }) => {
        asked.push(toolCallId);
        return amount > 10;
      },
      execute: ({ amount }) => `Paid ${amount}.`,
    });
    const close = tool({
      inputSchema: z.object({}),
      needsApproval: true,
      execute: () => "Closed.",
    });
    const calls = [
      { call: "pay", input: { amount: 5 } },
      { call: "pay", input: { amount: 50 } },
      { call: "close" },
    ];
    const model = scriptedModel([calls, "done"]);
    const agent = new ReActAgent({ name: "assistant", model, tools: fromAiTools({ pay, close }) });
    const { approvals, task } = await agent.call("Go.");
    expect(approvals.map(({ call }) => call.name)).toEqual(["pay", "close"]);
    expect(asked.length).toBeGreaterThanOrEqual(2);
    const answers = approvals.map((approval) => approval.approve());
    await agent.call(answers, { sessionId: task.sessionId });
    expect(JSON.stringify(model.calls[1]?.prompt)).toMatch(/Paid 5.*Paid 50.*Closed/);
  });

  it("a tool without execute is external", async () => {
    const ask = tool({ inputSchema: z.object({}), outputSchema: z.string() });
    const anyTool = dynamicTool({ inputSchema: z.object({}), execute: async () => "dynamic" });
    const model = scriptedModel([[{ call: "ask" }, { call: "any" }], "done"]);
    const tools = fromAiTools({ ask, any: anyTool });
    const agent = new ReActAgent({ name: "assistant", model, tools });
    const { approvals, generateReason } = await agent.call("Go.");
    expect(generateReason).toBe("tool_suspended");
    expect(approvals).toHaveLength(1);
    expect(approvals[0]).toMatchObject({ kind: "external", call: { name: "ask" } });
  });

  it("rejects a provider's tool and values that are not tools, with a hint", () => {
    const search = openai.tools.webSearch({});
    expect(() => fromAiTools({ search })).toThrow(
      expect.objectContaining({
        code: "invalid_tool",
        message: "The tool search is a tool of its provider (openai.web_search).",
        hint: expect.stringContaining('modelOptions: { tools: [{"type":"provider"'),
      }),
    );
    const later = tool({ inputSchema: aiJsonSchema(async () => ({ type: "object" as const })) });
    for (const tools of [null, [7]]) {
      expect(() => fromAiTools(tools as never)).toThrow(
        expect.objectContaining({ code: "invalid_argument", hint: "Pass `{ weather }`." }),
      );
    }
    const wrong = [{ a: 7 }, { a: {} }, { later }, { a: { inputSchema: z.string() } }];
    for (const tools of wrong) {
      expect(() => fromAiTools(tools as never)).toThrow(
        expect.objectContaining({ code: "invalid_tool" }),
      );
    }
  });

  it("keeps the text of a tool's own `content` field", async () => {
    const page = tool({ inputSchema: z.object({}), execute: () => ({ content: "x" }) });
    const { outputs } = await run(fromAiTools({ page }), [{ call: "page" }]);
    expect(outputs).toEqual([{ type: "text", value: '{"content":"x"}' }]);
  });
});
