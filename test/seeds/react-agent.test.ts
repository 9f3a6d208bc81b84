// Behaviour of the agent (seed 002) that no other test states by itself.
import { describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, type Tool, tool } from "../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";

function agentWith(turns: readonly ScriptedTurn[], tools: readonly Tool[], more: object = {}) {
  const model = scriptedModel(turns);
  const agent = new ReActAgent({ name: "agent", model, tools, store: memoryStore(), ...more });
  return { agent, model };
}

/** Returns the text of the last tool result that the model has read. */
function lastResult(model: ReturnType<typeof scriptedModel>): string {
  const message = model.calls.at(-1)?.prompt.findLast(({ role }) => role === "tool");
  return JSON.stringify(message?.content);
}

it("a run after a cancelled run is not cancelled", async () => {
  const started = Promise.withResolvers<void>();
  const wait = tool({
    name: "wait",
    description: "Waits.",
    execute: (_, { signal }) =>
      new Promise<string>((_, reject) => {
        started.resolve();
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  });
  const { agent } = agentWith([[{ call: "wait" }], "Here I am."], [wait]);
  const run = agent.run("Go.", { sessionId: "s" });
  await started.promise;
  await run.cancel();
  expect((await run.result()).generateReason).toBe("interrupted");
  expect(await agent.call("Again.", { sessionId: "s" })).toMatchObject({
    generateReason: "model_stop",
    text: "Here I am.",
  });
});

it("a custom context store answers tools' lookups", async () => {
  class Database {
    name = "main";
  }
  const found: unknown[] = [];
  const look = tool({
    name: "look",
    description: "Looks.",
    async execute(_, context) {
      const main = await context.get(Database);
      const guest = await context.get("guest", Database);
      found.push(main?.name, guest?.name);
      return "seen";
    },
  });
  const backend = {
    get: async (key: unknown) =>
      Object.assign(new Database(), typeof key === "string" ? { name: key } : {}),
  };
  const { agent } = agentWith([[{ call: "look" }], "Done."], [look]);
  await agent.call("Go.", { context: backend as never });
  expect(found).toEqual(["main", "guest"]);
});

it("an error without a message names its class", async () => {
  class QuotaError extends Error {}
  const fail = tool({
    name: "fail",
    description: "Fails.",
    execute: () => Promise.reject(new QuotaError()),
  });
  const { agent, model } = agentWith([[{ call: "fail" }], "Done."], [fail]);
  await agent.call("Go.");
  expect(lastResult(model)).toContain("QuotaError");
});

describe("a suspended call", () => {
  it("a suspension shows the tool's reason", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      execute: (_, { suspend }) => suspend("Waiting for the bank."),
    });
    const { agent } = agentWith([[{ call: "ask" }], "Done."], [ask]);
    const { approvals } = await agent.call("Go.");
    expect(approvals.map(({ message }) => message)).toEqual(["Waiting for the bank."]);
  });

  it("an external call without a reason says that it awaits execution", async () => {
    const outside = tool({ name: "outside", description: "Runs elsewhere." });
    const { agent } = agentWith([[{ call: "outside" }], "Done."], [outside]);
    const { approvals } = await agent.call("Go.");
    expect(approvals.map(({ message }) => message)).toEqual(["[Awaiting external execution]"]);
  });

  it("a suspended reply has the pending calls", async () => {
    const outside = tool({ name: "outside", description: "Runs elsewhere." });
    const here = tool({ name: "here", description: "Runs here.", execute: () => "done" });
    const { agent } = agentWith(
      [[{ call: "outside" }, { call: "here" }], "Done."],
      [outside, here],
    );
    const reply = await agent.call("Go.");
    expect(reply.generateReason).toBe("tool_suspended");
    const calls = reply.content.flatMap((block) => (block.type === "tool_use" ? [block.name] : []));
    expect(calls).toEqual(["outside"]);
  });
});

it("a suspended reply is a message of the agent", async () => {
  const outside = tool({ name: "outside", description: "Runs elsewhere." });
  const { agent } = agentWith([[{ call: "outside" }], "Done."], [outside]);
  const reply = await agent.call("Go.");
  expect(reply).toMatchObject({ role: "assistant", name: "agent" });
});

it("an answer does not renew the iterations of its task", async () => {
  const outside = tool({ name: "outside", description: "Runs elsewhere." });
  const again: ScriptedTurn = [{ call: "outside" }];
  const { agent, model } = agentWith([again, again, "So far nothing."], [outside], { maxIters: 2 });
  const options = { sessionId: "s" };
  let reply = await agent.call("Go.", options);
  for (let round = 0; round < 2; round++) {
    expect(reply.generateReason).toBe("tool_suspended");
    const answers = reply.approvals.map((approval) => approval.answer("done"));
    reply = await agent.call(answers, options);
  }
  expect(reply).toMatchObject({ generateReason: "max_iterations", text: "So far nothing." });
  expect(model.calls).toHaveLength(3);
});

it("a chunk hook gets the call of its chunk", async () => {
  const chunks: unknown[] = [];
  const talk = tool({
    name: "talk",
    description: "Talks.",
    execute(_, { emit }) {
      emit("Half. ");
      return "Done.";
    },
  });
  const { agent } = agentWith([[{ call: "talk" }], "Done."], [talk], {
    hooks: [
      {
        name: "note",
        actingChunk: (_: unknown, call: { name: string }, chunk: unknown) =>
          chunks.push([call.name, chunk]),
      },
    ],
  });
  await agent.call("Go.");
  expect(chunks).toEqual([["talk", "Half. "]]);
});

it("a cancel after reasoning runs no tool", async () => {
  let ran = 0;
  const count = tool({ name: "count", description: "Counts.", execute: () => ++ran });
  const stop = new AbortController();
  const { agent } = agentWith([[{ call: "count" }], "Done."], [count], {
    hooks: [{ name: "stop", postReasoning: () => stop.abort() }],
  });
  const reply = await agent.call("Go.", { signal: stop.signal });
  expect([reply.generateReason, ran]).toEqual(["interrupted", 0]);
});

it("the summary prompt is the sentence of the seed", async () => {
  const noop = tool({ name: "noop", description: "Nothing.", execute: () => "nothing" });
  const { agent, model } = agentWith([[{ call: "noop" }], "So far nothing."], [noop], {
    maxIters: 1,
  });
  expect((await agent.call("Go.")).generateReason).toBe("max_iterations");
  expect(JSON.stringify(model.calls.at(-1)?.prompt)).toContain(
    "You have failed to generate response within the maximum iterations. Now respond directly by summarizing the current situation.",
  );
});
