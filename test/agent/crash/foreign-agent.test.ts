import { describe, expect, it } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import {
  agentTool,
  ReActAgent,
  type Reply,
  RivuletError,
  type Store,
  tool,
} from "../../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../../src/testing.ts";
import {
  fakeAgent,
  gate,
  hidden,
  left,
  leftUnchecked,
  type Play,
  problemsOf,
  prompt,
  removing,
  teamAbove,
  untilSeen,
} from "../support/foreign-agent.ts";
import { expiringStore, losingStore } from "../support/losing-store.ts";

describe("after a crash, an agent that is not of this package", () => {
  /** Loses the process of a team after the fake has said "Hel", and continues in another one. */
  async function recover(rest: Play) {
    const { open, opened } = gate();
    const fake = fakeAgent(async function* (options, input) {
      if (input === undefined) return yield* rest(options, input);
      yield "Hel";
      await opened;
      yield "not stored";
      return await new Promise<never>(() => {});
    });
    const { store, expire } = expiringStore();
    const doomed = losingStore(store, Number.POSITIVE_INFINITY, "before");
    const clock = new ManualClock(1_000); // no grace ends by itself
    const run = teamAbove(fake, { store: doomed, clock }).lead.run("Go.", { sessionId: "s" });
    await untilSeen(run, "Hel");
    doomed.commit = async () => {
      throw new RivuletError("store_failed", "The store is gone.");
    };
    open();
    await expect(run.result()).rejects.toMatchObject({ code: "store_failed" });
    expire();
    const reply = await teamAbove(fake, { store }).lead.call(undefined, { sessionId: "s" });
    expect(reply.text).toBe("done");
    return { fake, ...(await left(store, reply)) };
  }

  it("continues with `run(undefined)` on the same session", async () => {
    const { fake, task } = await recover(async function* () {
      yield "Hel";
      yield "lo";
      return "Hello";
    });
    const [first, second, ...more] = fake.calls;
    expect(more).toEqual([]);
    expect(second?.options.sessionId).toBe(first?.options.sessionId);
    expect(first?.cancels).toEqual([]);
    expect(task?.output).toMatchObject([
      { type: "discarded", reason: "recovered" },
      { type: "message", block_list: [{ text: "Hello" }] },
    ]);
  });

  it("fails with `executor_lost` if that throws", async () => {
    // biome-ignore lint/correctness/useYield: it throws first.
    const { record, results } = await recover(async function* () {
      throw new Error("Which session?");
    });
    expect(record).toMatchObject({ status: "failed", error: { code: "executor_lost" } });
    expect(results).toMatchObject([{ state: "error" }]);
  });

  const look = tool({
    name: "look",
    description: "Looks.",
    async execute(_, context) {
      context.emit("se");
      await new Promise((resolve) => setTimeout(resolve, 1)); // some of it is written before the end
      return "seen";
    },
  });
  const isSecond: Script = ({ prompt: asked }) =>
    asked.some(({ role }) => role === "tool")
      ? "Gone."
      : [{ call: "remove", input: { path: "a" } }];
  const script: Script = ({ prompt: asked }) => {
    const results = asked.filter(({ role }) => role === "tool").length;
    if (results === 0) return [{ thinking: "Hm." }, "First ", { delayMs: 1 }, { call: "look" }];
    return results === 1 ? [{ call: "below", input: prompt }] : { text: ["All ", "gone."] };
  };

  /** Calls, or continues what is unfinished, and approves everything. */
  async function callToEnd(lead: ReActAgent, store: Store): Promise<Reply<unknown>> {
    const [root] = await store.tasks({ sessionId: "s" });
    if (root?.status === "completed") return lead.attach({ sessionId: "s" }).result();
    let reply = await lead.call(root ? undefined : "Go.", { sessionId: "s" });
    for (let round = 0; reply.generateReason === "approval_required"; round++) {
      expect(round).toBeLessThan(3);
      const answers = reply.approvals.map((approval) => approval.approve());
      reply = await lead.call(answers, { sessionId: "s" });
    }
    return reply;
  }

  it.each(["before", "after"] as const)(
    "loses and doubles nothing, %s any commit",
    async (when) => {
      for (let at = 0, isLost = true; isLost; at++) {
        const executed: string[] = [];
        const model = scriptedModel(isSecond);
        const below = new ReActAgent({ name: "below", model, tools: [removing(executed)] });
        const agent = hidden({ script, tools: [agentTool(below), look] });
        const { store, expire } = expiringStore();
        const doomed = losingStore(store, at, when);
        await callToEnd(teamAbove(agent, { store: doomed }).lead, store).catch(expire);
        isLost = doomed.commits > at;
        const reply = await callToEnd(teamAbove(agent, { store }).lead, store);
        const { rootTaskId } = reply.task;
        const { record, task } = await leftUnchecked(store, rootTaskId);
        const problems = await problemsOf(store, rootTaskId);
        expect({ at, text: reply.text, problems }).toEqual({ at, text: "done", problems: [] });
        // A process that is lost before it has started the agent leaves nothing to continue.
        if (record.error?.code === "executor_lost" && task?.output.length === 0) continue;
        expect({ at, text: textOf(record.result?.content ?? []) }).toEqual({
          at,
          text: "All gone.",
        });
        expect({ at, executed }).toEqual({ at, executed: ["a"] });
        const kept = task?.output.filter(({ type }) => type !== "discarded") ?? [];
        expect(kept.map(({ type }) => type)).toEqual([
          ...["reasoning", "message", "tool_call", "tool_result"],
          ...["tool_call", "tool_result", "message"],
        ]);
        expect(kept.every(({ status }) => status === "completed")).toBe(true);
      }
    },
  );

  it("ends with a cancel, also in a process that does not have it", async () => {
    for (let at = 0, isLost = true; isLost; at++) {
      const below = new ReActAgent({
        name: "below",
        model: scriptedModel(isSecond),
        tools: [removing()],
      });
      const agent = hidden({ script, tools: [agentTool(below), look] });
      const { store, expire } = expiringStore();
      const doomed = losingStore(store, at, "after");
      await callToEnd(teamAbove(agent, { store: doomed }).lead, store).catch(expire);
      isLost = doomed.commits > at;
      const run = teamAbove(agent, { store }).lead.attach({ sessionId: "s" });
      await run.cancel("enough");
      const { task } = await run.result();
      expect({ at, problems: await problemsOf(store, task.rootTaskId) }).toEqual({
        at,
        problems: [],
      });
    }
  });
});
