import { describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, type ReActAgentOptions, tool } from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { whatIsLeft } from "./support/run-script.ts";

type Price = NonNullable<ReActAgentOptions["price"]>;

const usd = (amount: number) => ({ amount, currency: "USD" });
const look = tool({ name: "look", description: "Looks.", execute: (_, { callId }) => callId });
const looksForEver: Script = () => [{ call: "look" }];

describe("an invalid price fails the run:", () => {
  const prices: readonly [string, () => unknown][] = [
    ["no number", () => usd(Number.NaN)],
    ["text", () => ({ amount: "0.01", currency: "USD" })],
    ["a number alone", () => 0.01],
    ["less than nothing", () => usd(-1)],
    ["no currency", () => ({ amount: 0.01 })],
    ["nothing", () => undefined],
    ["a promise", async () => usd(1)],
  ];
  it.each(prices)("%s", async (_, price) => {
    const store = memoryStore();
    const model = scriptedModel(looksForEver);
    const options = { name: "lead", model, store, tools: [look], budget: { cost: 1 } };
    const agent = new ReActAgent({ ...options, price: price as Price });
    await expect(agent.call("Go.", { sessionId: "s" })).rejects.toMatchObject({
      code: "price_failed",
      message: expect.stringContaining("scripted/"),
      hint: expect.any(String),
    });
    expect(model.calls).toHaveLength(1);
    const [task] = await store.tasks({});
    expect(task?.status).toBe("failed");
  });

  it("a function that throws, with its error", async () => {
    const thrown = new Error("no such model");
    const price: Price = () => {
      throw thrown;
    };
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(["Hi."]), price });
    await expect(agent.call("Go.")).rejects.toMatchObject({
      code: "price_failed",
      message: expect.stringContaining("no such model"),
      cause: thrown,
    });
  });

  it("two currencies", async () => {
    let calls = 0;
    const price = () => ({ amount: 1, currency: calls++ === 0 ? "USD" : "EUR" });
    const model = scriptedModel(looksForEver);
    const agent = new ReActAgent({ name: "lead", model, tools: [look], price });
    await expect(agent.call("Go.")).rejects.toMatchObject({ code: "price_failed" });
  });

  it("except after a cancel", async () => {
    const store = memoryStore();
    const price: Price = () => {
      throw new Error("no such model");
    };
    const model = scriptedModel([["Half", { hang: true }]]);
    const run = new ReActAgent({ name: "lead", model, store, price }).run("Go.");
    for await (const event of run) {
      if (event.type === "task.text.delta") run.cancel();
    }
    const reply = await run.result();
    expect(reply).toMatchObject({ generateReason: "interrupted", text: "Half" });
    await whatIsLeft(store, reply);
  });
});

describe("the cost of a task", () => {
  it("is an exact decimal and counts against the budget", async () => {
    const amounts = [0.7, 0.1, 0.1];
    const model = scriptedModel(looksForEver);
    const options = { name: "lead", model, tools: [look], budget: { cost: 0.8 } };
    const run = new ReActAgent({ ...options, price: () => usd(amounts.shift() ?? 0) }).run("Go.");
    const costs: unknown[] = [];
    for await (const event of run) if (event.type === "task.usage") costs.push(event.cost);
    expect(costs).toEqual([
      { amount: "0.7", currency: "USD" },
      { amount: "0.8", currency: "USD" },
    ]);
    expect((await run.result()).generateReason).toBe("budget");
  });
});
