import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import {
  agentTool,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Reply,
  type Tool,
  tool,
} from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { expectLawful } from "./support/laws.ts";
import { turns } from "./support/tools.ts";

/** Never comes to an end, whatever it is told. */
const stubborn = tool({
  name: "stubborn",
  description: "Ignores its signal.",
  execute: () => new Promise(() => {}),
});
/** Comes to an end when it is told to. */
const polite = tool({
  name: "polite",
  description: "Waits for its signal.",
  execute: (_, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    }),
});

interface Scene {
  readonly script: Script;
  readonly tools?: readonly Tool[];
  readonly options?: Partial<ReActAgentOptions>;
  /** How many rounds of the event loop the run is given before it is cancelled. */
  readonly rounds?: number;
}

/** Runs a scene, cancels it, and checks what has to hold after every cancel. */
async function cancelled(scene: Scene) {
  const { script, tools = [], options, rounds = 20 } = scene;
  const store = memoryStore();
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel(script),
    tools,
    store,
    ...options,
  });
  const resources = process.getActiveResourcesInfo().length;
  const stop = new AbortController();
  const run = agent.run("Go.", { sessionId: "s", signal: stop.signal });
  await turns(rounds);
  const began = performance.now();
  stop.abort(new Error("That is enough."));
  const reply = await run.result();
  const took = performance.now() - began;
  expect(reply.generateReason).toBe("interrupted");
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  await turns(3);
  expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(resources);
  await expectLawful(store, reply.task.rootTaskId);
  const record = await store.task(reply.task.taskId);
  expect(record?.status).toBe("cancelled");
  const blocks = (await store.session("s")).flatMap(({ content }) => content);
  const results = blocks.flatMap((block) =>
    block.type === "tool_result" ? [[block.name, block.state, textOf(block.output)]] : [],
  );
  return { store, reply, took, results, run };
}

describe("a cancel ends", () => {
  it("a model before its first chunk", async () => {
    const { reply, took } = await cancelled({ script: [{ hang: true }] });
    expect(reply).toMatchObject({ text: "", content: [] });
    expect(took).toBeLessThan(500);
  });

  it("a model request that never returns", async () => {
    const never = () => new Promise<never>(() => {});
    const { took } = await cancelled({ script: never });
    expect(took).toBeLessThan(500);
  });

  it("a model between two chunks, and keeps the text", async () => {
    const script = [[{ thinking: "Hm." }, { text: ["half ", "a sen"] }, { hang: true }]] as const;
    const { reply, store } = await cancelled({ script });
    expect(reply.text).toBe("half a sen");
    const messages = await store.session("s");
    expect(messages.at(-1)).toMatchObject({
      role: "assistant",
      content: [
        { type: "thinking", text: "Hm." },
        { type: "text", text: "half a sen" },
      ],
      metadata: { iteration: 1 },
    });
  });

  it("a model in the middle of a call, which is discarded and never runs", async () => {
    const half = { type: "tool-input-start", id: "c1", toolName: "polite" } as const;
    const script = [
      [
        "First. ",
        { call: "polite" },
        "Then. ",
        { chunk: half },
        { chunk: { type: "tool-input-delta", id: "c1", delta: '{"a' } },
        { hang: true },
      ],
    ] as const;
    const { reply, results } = await cancelled({ script, tools: [polite] });
    expect(reply.text).toBe("First. Then. ");
    expect(reply.content.map(({ type }) => type)).toEqual(["text", "text"]);
    expect(results).toEqual([]);
  });

  it("a model that waits for a retry", async () => {
    const overloaded = Object.assign(new Error("busy"), { statusCode: 529 });
    const { took } = await cancelled({ script: () => ({ error: overloaded }) });
    expect(took).toBeLessThan(500);
  });

  it("a tool that honours the signal, and calls that have not started", async () => {
    const calls = [{ call: "polite" }, { call: "polite" }, { call: "nobody" }];
    const { results, took } = await cancelled({
      script: [calls],
      tools: [polite],
      options: { parallel: false },
    });
    expect(results).toEqual([
      ["polite", "interrupted", "Tool execution was interrupted and its effect is unknown."],
      ["polite", "interrupted", expect.stringContaining("before it had a result")],
      ["nobody", "interrupted", expect.stringContaining("before it had a result")],
    ]);
    expect(took).toBeLessThan(500);
  });

  it("a tool that ignores the signal, after five seconds", async () => {
    const { results, took } = await cancelled({
      script: [[{ call: "stubborn" }]],
      tools: [stubborn],
    });
    expect(results).toEqual([["stubborn", "interrupted", expect.any(String)]]);
    expect(took).toBeGreaterThan(4_900);
    expect(took).toBeLessThan(5_500);
  });

  it("a grandchild's tool that ignores the signal, before its ancestors time out", async () => {
    const options = { clock: new ManualClock() };
    const child = (name: string, script: Script, tools: readonly Tool[]) =>
      agentTool(new ReActAgent({ name, model: scriptedModel(script), tools, ...options }));
    const scout = child("scout", [[{ call: "stubborn" }]], [stubborn]);
    const helper = child("helper", [[{ call: "scout", input: { prompt: "Go." } }]], [scout]);
    const store = memoryStore();
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "helper", input: { prompt: "Go." } }]]),
      tools: [helper],
      store,
      ...options,
    });
    const run = agent.run("Go.", { sessionId: "s" });
    await turns(30);
    void run.cancel();
    await turns(5);
    await options.clock.advance(5_000);
    const reply = await run.result();
    const records = await store.tasks({ rootTaskId: reply.task.rootTaskId });
    expect(records.map(({ status }) => status)).toEqual(Array(3).fill("cancelled"));
    await expectLawful(store, reply.task.rootTaskId);
  });

  it("a tool that waits for a retry", async () => {
    const flaky = tool({
      name: "flaky",
      description: "Fails.",
      idempotent: true,
      execute: () => {
        throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
      },
    });
    const { results, took } = await cancelled({ script: [[{ call: "flaky" }]], tools: [flaky] });
    expect(results).toEqual([
      ["flaky", "interrupted", "Tool execution was interrupted before it was tried again."],
    ]);
    expect(took).toBeLessThan(500);
  });

  it("a run before it starts", async () => {
    const { reply } = await cancelled({ script: ["never"], rounds: 0 });
    expect(reply.text).toBe("");
  });

  it("a run whose signal is already aborted", async () => {
    const model = scriptedModel(["never"]);
    const agent = new ReActAgent({ name: "lead", model });
    const { generateReason } = await agent.call("Go.", { signal: AbortSignal.abort() });
    expect(generateReason).toBe("interrupted");
    expect(model.calls).toEqual([]);
  });
});

describe("a cancel", () => {
  it("records the request and the outcome, with the reason", async () => {
    const agent = new ReActAgent({ name: "lead", model: scriptedModel([["a", { hang: true }]]) });
    const run = agent.run("Go.");
    const seen: unknown[] = [];
    for await (const event of run) {
      if (event.type === "task.text.delta") void run.cancel("The user left.");
      if (event.type === "task.cancelling") seen.push(event.reason);
      if (event.type === "task.cancelled") seen.push(event.task.reason, event.task.generate_reason);
    }
    expect(seen).toEqual(["The user left.", "The user left.", "interrupted"]);
  });

  it("resolves at the end, can be repeated, and does nothing afterwards", async () => {
    const store = memoryStore();
    const model = scriptedModel([["a", { hang: true }], "b"]);
    const agent = new ReActAgent({ name: "lead", model, store });
    const run = agent.run("Go.", { sessionId: "s" });
    await turns(10);
    await Promise.all([run.cancel("one"), run.cancel("two")]);
    const { task } = await run.result();
    expect((await store.task(task.taskId))?.status).toBe("cancelled");
    await run.cancel("three");
    expect((await agent.call("Go on.", { sessionId: "s" })).text).toBe("b");
    await expectLawful(store, task.rootTaskId);
  });

  it("does not change a run that has ended", async () => {
    const store = memoryStore();
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(["done"]), store });
    const run = agent.run("Go.");
    const { task } = await run.result();
    await run.cancel();
    expect((await store.task(task.taskId))?.status).toBe("completed");
    await expectLawful(store, task.rootTaskId);
  });

  it("reaches a suspended task and its suspended children", async () => {
    const store = memoryStore();
    const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "" });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "ask" }]]),
      tools: [ask],
    });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "helper", input: { prompt: "Go." } }, { call: "ask" }], "b"]),
      tools: [agentTool(helper), ask],
      store,
    });
    const run = agent.run("Go.", { sessionId: "s" });
    const { approvals, task } = await run.result();
    expect(approvals).toHaveLength(2);
    await Promise.all([run.cancel("no"), run.cancel("no")]);
    const records = await store.tasks({ rootTaskId: task.rootTaskId });
    expect(records.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
    expect(await agent.approvals({ sessionId: "s" })).toEqual([]);
    await expectLawful(store, task.rootTaskId);
    // Twice asked, once done: no other task was begun, and none is cancelled by what is left.
    expect(await store.tasks({ sessionId: "s" })).toHaveLength(1);
    expect((await agent.call("Next.", { sessionId: "s" })).text).toBe("b");
  });

  it("leaves no timer and no listener", async () => {
    const stop = new AbortController();
    const resources = process.getActiveResourcesInfo().length;
    const model = scriptedModel(() => [{ call: "polite" }]);
    const agent = new ReActAgent({ name: "lead", model, tools: [polite] });
    const replies: Promise<Reply>[] = [];
    for (let count = 0; count < 50; count++) {
      replies.push(agent.call("Go.", { signal: stop.signal }));
      replies.push(agent.call("Go.", { signal: stop.signal, sessionId: "one for all" }));
    }
    await turns(20);
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(100);
    stop.abort();
    const ends = await Promise.allSettled(replies);
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(51);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
    await turns(3);
    expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(resources);
  });
});
