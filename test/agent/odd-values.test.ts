import { describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, memoryStore, ReActAgent, RivuletError, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { type FakeReply, fakeModel } from "../support/fake-model.ts";
import { readLog } from "./support/laws.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";

const stop = { type: "finish", finishReason: { unified: "stop", raw: "stop" } };
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 2 } };

async function playParts(...turns: readonly (readonly unknown[])[]) {
  const store = memoryStore();
  const modelExecution = { maxAttempts: 1 };
  const model = fakeModel("v4", turns as readonly FakeReply[]);
  const agent = new ReActAgent({ name: "lead", model, store, modelExecution });
  const reply = await agent.call("Go.", { sessionId: "s" });
  return { reply, ...(await whatIsLeft(store, reply)) };
}

describe("invalid provider data", () => {
  const text = [
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: "Hello." },
    { type: "text-end", id: "1" },
  ];

  it("accepts a finish without usage", async () => {
    const { reply, tree } = await playParts([...text, stop]);
    expect(reply.text).toBe("Hello.");
    const nothing = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    expect(tree.tasks[reply.task.taskId]?.usage).toEqual(nothing);
  });

  it("ignores a count that is not a number", async () => {
    const odd = { inputTokens: { total: Number.NaN, cacheRead: -1 }, outputTokens: { total: 2 } };
    const { reply } = await playParts([...text, { ...stop, usage: odd }]);
    expect(reply.usage).toEqual({ input_tokens: 0, output_tokens: 2, total_tokens: 2 });
  });

  it("treats a finish without a reason as a cut stream", async () => {
    const played = playParts([...text, { type: "finish", usage }]);
    await expect(played).rejects.toMatchObject({ code: "stream_cut" });
  });

  it("ignores a delta without text", async () => {
    const odd = [{ type: "text-delta", id: "1" }, ...text, { ...stop, usage }];
    const { reply } = await playParts([{ type: "text-start", id: "1" }, ...odd]);
    expect(reply.text).toBe("Hello.");
  });

  it.each(["", undefined])("reports a call named %j as an unknown tool", async (toolName) => {
    const call = { type: "tool-call", toolCallId: "c", toolName, input: "{}" };
    const calls = { type: "finish", finishReason: { unified: "tool-calls", raw: "x" }, usage };
    const { reply, results } = await playParts([call, calls], [...text, { ...stop, usage }]);
    expect(reply.text).toBe("Hello.");
    expect(results.map(inShort)).toEqual([
      'error: There is no tool "unnamed_tool". Available tools: none.',
    ]);
  });
});

describe("invalid user data", () => {
  const model = () => scriptedModel(["done"]);

  it("rejects a missing model at construction", () => {
    const make = () => new ReActAgent({ name: "lead", model: [] });
    expect(make).toThrow(expect.objectContaining({ code: "invalid_model" }));
  });

  it.each(["a/b", "", "x".repeat(129)])("rejects the agent id %j at construction", (agentId) => {
    const make = () => new ReActAgent({ name: "lead", agentId, model: model() });
    expect(make).toThrow(expect.objectContaining({ code: "invalid_agent_id" }));
  });

  it.each(["a/b", "", undefined])("fails the call of a child with the id %j", async (agentId) => {
    const child = new ReActAgent({ name: "kid", model: model() });
    const spawn = tool({
      name: "spawn",
      description: "Runs a child.",
      async execute(_, { runChild }) {
        return (await runChild(child, "Go.", { agentId: agentId as string })).status;
      },
    });
    const { results, reply, tree } = await runScript([[{ call: "spawn" }], "done"], {
      tools: [spawn],
    });
    expect(results.map(inShort)).toEqual([
      expect.stringMatching(/^error: .*`agentId` must have 1 to/),
    ]);
    expect(reply.text).toBe("done");
    expect(Object.keys(tree.tasks)).toHaveLength(1);
  });

  it("ignores progress that is not a number", async () => {
    const count = tool({
      name: "count",
      description: "Counts.",
      execute(_, { progress }) {
        progress({} as { progress: number });
        progress({ progress: 0 / 0, total: 3 });
        progress({ progress: 1, total: Number.NaN });
        return "ok";
      },
    });
    const { events, results } = await runScript([[{ call: "count" }], "done"], { tools: [count] });
    const told = events.filter(({ type }) => type === "task.tool_result.progress");
    expect(told).toMatchObject([{ progress: 1 }]);
    expect(told[0]).not.toHaveProperty("total");
    expect(results.map(inShort)).toEqual(["success: ok"]);
  });

  it("rejects a hook's message that reuses a call id, and runs nothing", async () => {
    let runs = 0;
    const act = tool({ name: "act", description: "Acts.", execute: () => `${++runs}` });
    const content = [{ type: "tool_use", id: "first", name: "act", input: {} }] as const;
    const played = runScript(["a", "b"], {
      tools: [act],
      hooks: [{ name: "twice", postReasoning: (_, message) => ({ ...message, content }) }],
    });
    await expect(played).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringMatching(/twice.*an earlier call has the id first/),
    });
    expect(runs).toBe(1);
  });

  it.each([
    ["a BigInt", z.object({ n: z.number().transform(BigInt) }), "a BigInt at n"],
    ["a Map", z.object({ n: z.number().transform((n) => new Map([[n, n]])) }), "a Map at n"],
  ])("rejects an output schema that produces %s", async (_, output, what) => {
    const model = scriptedModel([[{ call: "generate_response", input: { n: 1 } }], "done"]);
    const store = memoryStore();
    const agent = new ReActAgent({ name: "lead", model, store });
    const failed = agent.call("Go.", { output, sessionId: "s" });
    await expect(failed).rejects.toMatchObject({
      code: "structured_output_not_json",
      message: expect.stringContaining(what),
    });
    expect(model.calls).toHaveLength(1);
    const [root] = await store.tasks({ sessionId: "s" });
    await whatIsLeft(store, { task: { taskId: "", rootTaskId: "", sessionId: "s", ...root } });
  });
});

describe("an error names its place", () => {
  const broken = () =>
    scriptedModel([{ error: Object.assign(new Error("no"), { statusCode: 401 }) }]);

  it("for the root: in the exception, the record and the event", async () => {
    const store = memoryStore();
    const agent = new ReActAgent({ name: "lead", model: broken(), store });
    const run = agent.run("Go.", { sessionId: "s" });
    const error = (await run.result().catch((thrown) => thrown)) as RivuletError;
    const { taskId } = await run.task;
    const where = { taskId, path: "s" };
    expect(error).toBeInstanceOf(RivuletError);
    expect(error.toJSON()).toMatchObject({ code: "unauthorized", where });
    expect((await store.task(taskId))?.error).toEqual(error.toJSON());
    expect((await readLog(store, taskId)).at(-1)).toMatchObject({ task: { error: { where } } });
  });

  it("for a child: its path", async () => {
    const child = new ReActAgent({ name: "kid", model: broken() });
    const script = [[{ call: "kid", input: { prompt: "x" } }], "done"];
    const { reply, store, results } = await runScript(script, { tools: [agentTool(child)] });
    const { rootTaskId } = reply.task;
    const id = results[0]?.id;
    const record = (await store.tasks({ rootTaskId })).find(({ taskId }) => taskId === id);
    expect(record?.error?.where).toEqual({ taskId: id, path: "s/kid" });
  });

  it("for a hook, unless the error already has a place", async () => {
    const where = { path: "elsewhere" };
    const thrown = new RivuletError("mine", "no", { where, hint: "Look there." });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel(() => {
        throw thrown;
      }),
      modelExecution: { maxAttempts: 1 },
    });
    await expect(agent.call("Go.", { sessionId: "s" })).rejects.toMatchObject({ where });
    const hooked = new ReActAgent({
      name: "lead",
      model: scriptedModel(["x"]),
      hooks: [
        {
          name: "early",
          preCall() {
            throw new Error("q");
          },
        },
      ],
    });
    const error = await hooked.call("Go.", { sessionId: "s" }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "hook_failed", where: { path: "s" } });
    expect((error as Error).stack).toContain("hook");
  });
});
