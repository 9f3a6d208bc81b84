import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  agentTool,
  type Budget,
  type HookContext,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  tool,
} from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { inShort, whatIsLeft } from "./support/run-script.ts";

const session = { sessionId: "s" };
const ask = tool({
  name: "ask",
  description: "Asks.",
  input: z.object({ n: z.number() }),
  needsApproval: true,
  execute: ({ n }) => n,
});
const asksForEver: Script = ({ callIndex }) => [{ call: "ask", input: { n: callIndex } }];

describe("an invalid budget", () => {
  const wrong = [
    { tokens: Number.NaN },
    { tokens: -1 },
    { iterations: Number.POSITIVE_INFINITY },
    { wallMs: "50" },
    { wallMs: null },
    { token: 5 },
    { cost: 1 },
    7,
    null,
    [],
  ] as unknown as readonly Budget[];

  it.each(wrong)("is rejected by the constructor and by call(): %j", async (budget) => {
    const refused = { code: "invalid_settings", hint: expect.any(String) };
    const model = scriptedModel(["Hi."]);
    expect(() => new ReActAgent({ name: "lead", model, budget })).toThrow(
      expect.objectContaining(refused),
    );
    const store = memoryStore();
    const agent = new ReActAgent({ name: "lead", model, store });
    await expect(agent.call("Go.", { ...session, budget })).rejects.toMatchObject(refused);
    expect(await store.session("s")).toEqual([]);
  });
});

describe("a call's budget", () => {
  it("applies to the whole task without being repeated with answers", async () => {
    const store = memoryStore();
    const made = () =>
      new ReActAgent({ name: "lead", model: scriptedModel(asksForEver), store, tools: [ask] });
    let reply = await made().call("Go.", { ...session, budget: { iterations: 1 } });
    expect(reply.generateReason).toBe("approval_required");
    reply = await made().call(reply.approvals.map((one) => one.approve()));
    expect(reply.generateReason).toBe("budget");
    await whatIsLeft(store, reply);
  });

  it("can be changed with an answer, field by field", async () => {
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(asksForEver), tools: [ask] });
    const next = (reply: { approvals: typeof first.approvals }, budget?: Budget) =>
      agent.call(
        reply.approvals.map((one) => one.approve()),
        budget && { budget },
      );
    const first = await agent.call("Go.", { ...session, budget: { iterations: 1, tokens: 1e9 } });
    const second = await next(first, { iterations: 2 });
    expect(second.generateReason).toBe("approval_required");
    expect((await next(second)).generateReason).toBe("budget");
  });
});

describe("a wall-time budget", () => {
  it("counts working time before and after a suspension", async () => {
    const clock = new ManualClock();
    const work = tool({
      name: "work",
      description: "Works.",
      input: z.object({ n: z.number() }),
      execute: () => clock.advance(400).then(() => "worked"),
    });
    const script: Script = ({ callIndex: n }) => [{ call: n === 1 ? "ask" : "work", input: { n } }];
    const model = scriptedModel(script);
    const store = memoryStore();
    const tools = [ask, work];
    const budget = { wallMs: 1_000 };
    const agent = new ReActAgent({ name: "lead", model, store, tools, budget, clock });
    let reply = await agent.call("Go.", session);
    expect(reply.generateReason).toBe("approval_required");
    await clock.advance(10_000); // nobody works
    reply = await agent.call(reply.approvals.map((one) => one.approve()));
    expect([reply.generateReason, model.calls.length]).toEqual(["budget", 4]);
    await whatIsLeft(store, reply);
  });

  it("ends a hanging model and keeps its text", async () => {
    const clock = new ManualClock();
    const store = memoryStore();
    const model = scriptedModel([["Half a", { hang: true }]]);
    const agent = new ReActAgent({ name: "lead", model, store, budget: { wallMs: 50 }, clock });
    const run = agent.run("Go.", session);
    for await (const { type } of run) if (type === "task.text.delta") await clock.advance(50);
    const reply = await run.result();
    expect(reply).toMatchObject({ generateReason: "budget", text: "Half a" });
    const { tree } = await whatIsLeft(store, reply);
    expect(tree.tasks[reply.task.taskId]).toMatchObject({
      status: "incomplete",
      incompleteReason: "budget",
    });
  });

  it("ends a tool that honours its signal at once, and others within the grace period", async () => {
    const clock = new ManualClock();
    const entered = Promise.withResolvers<void>();
    const hears = tool({
      name: "hears",
      description: "Hears.",
      execute: (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const hangs = tool({
      name: "hangs",
      description: "Hangs.",
      execute() {
        entered.resolve();
        return new Promise(() => {});
      },
    });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "hears" }, { call: "hangs" }]]);
    const agent = new ReActAgent({
      name: "lead",
      model,
      store,
      tools: [hears, hangs],
      budget: { wallMs: 50 },
      clock,
    });
    const run = agent.run("Go.", session);
    await entered.promise;
    await clock.advance(50);
    await clock.advance(5_000);
    const reply = await run.result();
    expect(reply.generateReason).toBe("budget");
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([
      expect.stringMatching(/^interrupted: /),
      expect.stringMatching(/^interrupted: /),
    ]);
  });

  it("ends the task's children", async () => {
    const clock = new ManualClock();
    const entered = Promise.withResolvers<void>();
    const hangs: Script = () => {
      entered.resolve();
      return [{ hang: true }];
    };
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(hangs) });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "helper", input: { prompt: "x" } }]]);
    const tools = [agentTool(helper)];
    const agent = new ReActAgent({
      name: "lead",
      model,
      store,
      tools,
      budget: { wallMs: 50 },
      clock,
    });
    const run = agent.run("Go.", session);
    await entered.promise;
    await clock.advance(50);
    const reply = await run.result();
    expect(reply.generateReason).toBe("budget");
    const records = await store.tasks({ rootTaskId: reply.task.rootTaskId });
    expect(records.map(({ status }) => status)).toEqual(["incomplete", "incomplete"]);
    await whatIsLeft(store, reply);
  });

  it("leaves no timer", async () => {
    const clock = new ManualClock();
    const budget = { wallMs: 1_000 };
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(["Hi."]), budget, clock });
    await agent.call("Go.");
    expect(clock.pending).toBe(0);
  });
});

describe("a budget of agents", () => {
  it("refuses another start, and lets the run continue", async () => {
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(() => "Done.") });
    const store = memoryStore();
    const both = [1, 2].map((n) => ({ call: "helper", input: { prompt: `${n}` } }));
    const model = scriptedModel([both, both, "Enough."]);
    const agent = new ReActAgent({ name: "lead", model, store, tools: [agentTool(helper)] });
    const reply = await agent.call("Go.", { ...session, budget: { agents: 3 } });
    expect(reply.text).toBe("Enough.");
    const { results } = await whatIsLeft(store, reply);
    const refused = expect.stringMatching(/The budget allows no more agents\.$/);
    expect(results.map(inShort)).toEqual(["success: Done.", "success: Done.", refused, refused]);
    expect(await store.tasks({})).toHaveLength(3);
  });
});

describe("the budget of a child", () => {
  const helperWith = (model: ReActAgentOptions["model"]) =>
    new ReActAgent({ name: "helper", model });
  const lead = (model: ReActAgentOptions["model"], helper: ReActAgent, store = memoryStore()) =>
    new ReActAgent({
      ...{ name: "lead", model, store, tools: [agentTool(helper, { budget: true })] },
      price: () => ({ amount: 1, currency: "EUR" }),
    });

  it("can be set by the model of its parent, within what is left", async () => {
    const ask = (budget: Budget) => [{ call: "helper", input: { prompt: "Go.", budget } }];
    const works: Script = ({ callIndex }) => [{ call: "look", input: { n: callIndex } }];
    const model = scriptedModel([ask({ cost: 9 }), ask({ cost: 2 }), "Done."]);
    const store = memoryStore();
    const reply = await lead(model, helperWith(scriptedModel(works)), store).call("Go.", {
      ...session,
      budget: { cost: 5 },
    });
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([
      expect.stringContaining("`budget.cost` is 9, and 4 is left."),
      expect.stringContaining("reason: its budget is used up"),
    ]);
    const [, child] = await store.tasks({});
    expect(child).toMatchObject({ budget: { cost: 2 }, cost: { amount: "2" } });
  });

  it("counts a child without a price by the price of its parent", async () => {
    const works: Script = ({ callIndex }) => [{ call: "look", input: { n: callIndex } }];
    const child = scriptedModel(works);
    const model = scriptedModel([[{ call: "helper", input: { prompt: "Go." } }]]);
    const agent = lead(model, helperWith(child));
    const reply = await agent.call("Go.", { ...session, budget: { cost: 3 } });
    expect([reply.generateReason, child.calls.length]).toEqual(["budget", 2]);
  });

  it("is known to hooks and tools", async () => {
    const seen: unknown[] = [];
    const look = tool({
      name: "look",
      description: "Looks.",
      execute: (_, { budgetLeft }) => void seen.push(budgetLeft()),
    });
    const preReasoning = ({ budgetLeft }: HookContext) => void seen.push(budgetLeft());
    const hooks = [{ name: "see", preReasoning }];
    const model = scriptedModel([[{ call: "look" }], "Done."]);
    const agent = new ReActAgent({ name: "lead", model, tools: [look], hooks });
    await agent.call("Go.", { ...session, budget: { iterations: 5, agents: 2 } });
    const left = [5, 4, 4].map((iterations) => ({ iterations, agents: 1 }));
    expect(seen).toEqual(left);
  });
});

describe("a budget that is used up", () => {
  it("ends a background child, whatever it does", async () => {
    const hangs: Script = () => [{ hang: true }];
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(hangs) });
    const start = tool({
      name: "start",
      description: "Starts it.",
      execute: async (_, { runChild }) =>
        (await runChild(helper, "Go.", { agentId: "helper", mode: "background" })).status,
    });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "start" }], "More."]);
    const agent = new ReActAgent({ name: "lead", model, store, tools: [start] });
    const run = agent.run("Go.", { ...session, budget: { iterations: 1 }, until: "tree" });
    for await (const _ of run); // until the child has ended
    const records = await store.tasks({});
    expect(records.map(({ status, generateReason }) => [status, generateReason])).toEqual([
      ["incomplete", "budget"],
      ["incomplete", "budget"],
    ]);
  });

  it("counts what a background child uses after its parent was suspended", async () => {
    const goOn = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const works: Script = () => goOn.promise.then(() => "Done.");
    const hooks = [{ name: "end", postCall: () => ended.resolve() }];
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(works), hooks });
    const start = tool({
      name: "start",
      description: "Starts it.",
      execute: async (_, { runChild }) =>
        (await runChild(helper, "Go.", { agentId: "helper", mode: "background" })).status,
    });
    const wait = tool({
      name: "wait",
      description: "Waits for it.",
      needsApproval: true,
      execute() {
        goOn.resolve();
        return ended.promise;
      },
    });
    const model = scriptedModel([[{ call: "start" }], [{ call: "wait" }], "More."]);
    const agent = new ReActAgent({ name: "lead", model, tools: [start, wait] });
    let reply = await agent.call("Go.", { ...session, budget: { iterations: 3 } });
    reply = await agent.call(reply.approvals.map((one) => one.approve()));
    expect([reply.generateReason, model.calls.length]).toEqual(["budget", 2]);
  });

  it("is not exceeded by another attempt at a failed reply", async () => {
    const cut: Script = () => ["Half a", { usage: { outputTokens: 50 } }, { finish: "error" }];
    const model = scriptedModel(cut);
    const agent = new ReActAgent({ name: "lead", model, modelExecution: { initialBackoffMs: 0 } });
    const reply = await agent.call("Go.", { ...session, budget: { tokens: 10 } });
    expect([reply.generateReason, model.calls.length]).toEqual(["budget", 1]);
  });
});

it("shortens oversized arguments in the next request", async () => {
  const store = memoryStore();
  const model = scriptedModel([
    [{ call: "ask", input: { text: "long ".repeat(600_000) } }],
    "Sorry.",
  ]);
  const agent = new ReActAgent({ name: "lead", model, store, tools: [ask] });
  const reply = await agent.call("Go.", session);
  expect(reply.text).toBe("Sorry.");
  const prompt = JSON.stringify(model.calls[1]?.prompt);
  expect(prompt.length).toBeLessThan(10_000);
  expect(prompt).toContain("These arguments had 3,000,011 characters");
  expect(prompt).toContain("larger than 1,000,000 bytes");
  await whatIsLeft(store, reply);
});
