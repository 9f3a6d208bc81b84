import { describe, expect, it } from "vitest";
import {
  agentTool,
  memoryStore,
  ReActAgent,
  type Reply,
  type Store,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { fakeAgent } from "./support/foreign-agent.ts";

const spent = (inputTokens: number, outputTokens: number) => ({
  usage: { inputTokens, outputTokens },
});
const tokens = (input_tokens: number, output_tokens: number) => ({
  input_tokens,
  output_tokens,
  total_tokens: input_tokens + output_tokens,
  cached_input_tokens: 0,
  reasoning_tokens: 0,
});
const cent = ({ total_tokens }: { total_tokens: number }) => ({
  amount: total_tokens / 100,
  currency: "EUR",
});
const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "yes" });
const session = { sessionId: "s" };

/** A lead with a helper that has a helper of its own. */
function team(store: Store, script: Script) {
  const price = cent;
  const deep = new ReActAgent({
    name: "deep",
    model: scriptedModel(() => ["Deep.", spent(4, 4)]),
    price,
  });
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel(({ prompt }) =>
      prompt.at(-1)?.role === "tool"
        ? ["Helped.", spent(2, 2)]
        : [{ call: "deep", input: { prompt: "x" } }, spent(2, 2)],
    ),
    tools: [agentTool(deep)],
    price,
  });
  const model = scriptedModel(script);
  return new ReActAgent({ name: "lead", model, tools: [ask, agentTool(helper)], store, price });
}
const delegate = { call: "helper", input: { prompt: "x" } };
const used = ({ usage, totalUsage, cost }: Reply<unknown>) => ({ usage, totalUsage, cost });

describe("a reply", () => {
  it("has the usage of its task, of all descendants, and the cost of these, in every door", async () => {
    const store = memoryStore();
    const script = [
      [delegate, spent(10, 1)],
      ["Done.", spent(20, 2)],
    ];
    const expected = {
      usage: tokens(30, 3),
      totalUsage: tokens(38, 11), // the helper 2 and 2 twice, its helper 4 and 4
      cost: { amount: "0.49", currency: "EUR" },
    };
    const agent = team(store, script);
    expect(used(await agent.call("Go.", session))).toEqual(expected);
    expect(used(await agent.attach(session).result())).toEqual(expected);
    const other = { ...store } as Store; // as another process sees it
    expect(used(await team(other, []).attach(session).result())).toEqual(expected);
    const events = await collect(team(memoryStore(), script).stream("Go.", session));
    const ends = events.flatMap((event) => (event.type === "agent_result" ? [event] : []));
    expect(ends.map(({ totalUsage, cost }) => [totalUsage, cost?.amount])).toEqual([
      [tokens(4, 4), "0.08"],
      [tokens(8, 8), "0.16"],
      [tokens(38, 11), "0.49"],
    ]);
    expect(ends.at(-1)).toMatchObject(expected);
  });

  it("counts across a suspension", async () => {
    const store = memoryStore();
    const agent = team(store, [
      [delegate, spent(1, 0)],
      [{ call: "ask" }, spent(1, 0)],
      ["Done.", spent(1, 0)],
    ]);
    const first = await agent.call("Go.", session);
    expect(used(first)).toMatchObject({ usage: tokens(2, 0), totalUsage: tokens(10, 8) });
    const last = await agent.call(
      first.approvals.map((approval) => approval.approve()),
      session,
    );
    expect(used(last)).toMatchObject({ usage: tokens(3, 0), totalUsage: tokens(11, 8) });
    const next = team(store, [["Again.", spent(7, 0)]]);
    expect(used(await next.call("More.", session))).toMatchObject({
      usage: tokens(7, 0),
      totalUsage: tokens(7, 0),
    });
  });

  it("counts a background child that has ended", async () => {
    const child = new ReActAgent({
      name: "child",
      model: scriptedModel([["Hi.", spent(5, 5)]]),
    });
    const start = tool({
      name: "start",
      description: "Starts a child.",
      execute: async (_, { runChild }) =>
        (await runChild(child, "x", { agentId: "child", mode: "background" })).taskId,
    });
    const store = memoryStore();
    const wait = tool({
      name: "wait",
      description: "Waits for the child.",
      async execute() {
        for (;;) {
          const [task] = await store.tasks({ parentSessionId: "s" });
          if (task?.status === "completed") return "It has ended.";
          await new Promise((resolve) =>
            store.watch({ task: task?.taskId ?? "" }, () => resolve(0)),
          );
        }
      },
    });
    const model = scriptedModel([
      [{ call: "start" }, spent(1, 0)],
      [{ call: "wait" }, spent(1, 0)],
      ["Done.", spent(1, 0)],
    ]);
    const agent = new ReActAgent({ name: "lead", model, tools: [start, wait], store });
    expect(used(await agent.call("Go.", session))).toEqual({
      usage: tokens(3, 0),
      totalUsage: tokens(8, 5),
      cost: undefined,
    });
  });

  it("counts an agent that is not of this package", async () => {
    const fake = fakeAgent(async function* () {
      yield "Hello";
      return "Hello";
    });
    const model = scriptedModel([
      [{ call: "fake", input: { prompt: "x" } }, spent(1, 0)],
      ["Done.", spent(1, 0)],
    ]);
    const agent = new ReActAgent({ name: "lead", model, tools: [agentTool(fake)] });
    const { usage, totalUsage } = await agent.call("Go.", session);
    expect([usage.total_tokens, totalUsage.total_tokens]).toEqual([2, 9]);
  });

  it("counts a reply of calls that a cancel meets in a hook", async () => {
    const stop = new AbortController();
    const lead = new ReActAgent({
      ...{ name: "lead", model: scriptedModel([[{ call: "ask" }, spent(3, 4)]]), tools: [ask] },
      hooks: [
        {
          name: "stop",
          async postReasoning() {
            stop.abort();
          },
        },
      ],
      price: cent,
    });
    const { generateReason, usage, totalUsage } = await lead.call("Go.", { signal: stop.signal });
    expect(generateReason).toBe("interrupted");
    expect(usage).toEqual(tokens(3, 4));
    expect(totalUsage).toEqual(tokens(3, 4));
  });
});
