import { describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, memoryStore, ReActAgent, RivuletError, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing/index.ts";
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

describe("what providers send that they should not", () => {
  const text = [
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: "Hello." },
    { type: "text-end", id: "1" },
  ];

  it("a finish without usage is one that nobody counted", async () => {
    const { reply, tree } = await playParts([...text, stop]);
    expect(reply.text).toBe("Hello.");
    const nothing = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    expect(tree.tasks[reply.task.taskId]?.usage).toEqual(nothing);
  });

  it("a count that is no number was not counted", async () => {
    const odd = { inputTokens: { total: Number.NaN, cacheRead: -1 }, outputTokens: { total: 2 } };
    const { reply } = await playParts([...text, { ...stop, usage: odd }]);
    expect(reply.usage).toEqual({ input_tokens: 0, output_tokens: 2, total_tokens: 2 });
  });

  it("a finish without a reason is a stream that was cut", async () => {
    const played = playParts([...text, { type: "finish", usage }]);
    await expect(played).rejects.toMatchObject({ code: "stream_cut" });
  });

  it("a delta without text says nothing", async () => {
    const odd = [{ type: "text-delta", id: "1" }, ...text, { ...stop, usage }];
    const { reply } = await playParts([{ type: "text-start", id: "1" }, ...odd]);
    expect(reply.text).toBe("Hello.");
  });

  it.each(["", undefined])("a call named %j is a call of no tool", async (toolName) => {
    const call = { type: "tool-call", toolCallId: "c", toolName, input: "{}" };
    const calls = { type: "finish", finishReason: { unified: "tool-calls", raw: "x" }, usage };
    const { reply, results } = await playParts([call, calls], [...text, { ...stop, usage }]);
    expect(reply.text).toBe("Hello.");
    expect(results.map(inShort)).toEqual([
      'error: There is no tool "unnamed_tool". Available tools: none.',
    ]);
  });
});

describe("what users give that they should not", () => {
  const model = () => scriptedModel(["done"]);

  it("no model at all is an error at construction", () => {
    const make = () => new ReActAgent({ name: "lead", model: [] });
    expect(make).toThrow(expect.objectContaining({ code: "invalid_settings" }));
  });

  it.each(["a/b", "", "x".repeat(129)])(
    "the agent id %j is an error at construction",
    (agentId) => {
      const make = () => new ReActAgent({ name: "lead", agentId, model: model() });
      expect(make).toThrow(expect.objectContaining({ code: "invalid_agent_id" }));
    },
  );

  it.each(["a/b", "", undefined])("a child with the id %j is a failed call", async (agentId) => {
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

  it("progress that is no number is not told", async () => {
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

  it("a hook's message with the id of an earlier call fails with the hook's name, and runs nothing", async () => {
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
  ])(
    "an output schema that makes %s of the answer is told so, at once",
    async (_, output, what) => {
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
    },
  );
});

describe("an error of a task says where", () => {
  const broken = () =>
    scriptedModel([{ error: Object.assign(new Error("no"), { statusCode: 401 }) }]);

  it("of the root: when it is thrown, in the record and on the wire", async () => {
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

  it("of a child: which one, with the path to it", async () => {
    const child = new ReActAgent({ name: "kid", model: broken() });
    const script = [[{ call: "kid", input: { prompt: "x" } }], "done"];
    const { reply, store, results } = await runScript(script, { tools: [agentTool(child)] });
    const { rootTaskId } = reply.task;
    const id = results[0]?.id;
    const record = (await store.tasks({ rootTaskId })).find(({ taskId }) => taskId === id);
    expect(record?.error?.where).toEqual({ taskId: id, path: "s/kid" });
  });

  it("of a hook, and one that has a place keeps it", async () => {
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
