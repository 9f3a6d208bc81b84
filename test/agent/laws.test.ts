import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AgentEvent, ReActAgent, Reply } from "../../src/index.ts";
import { memoryStore } from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { callToEnd, castOf, storyOf } from "./support/cast.ts";
import { expectLawful, readLog } from "./support/laws.ts";
import { planArbitrary } from "./support/plan.ts";
import { Executions } from "./support/tools.ts";

const size = isDeep ? { turns: 5, calls: 6, depth: 2 } : { turns: 3, calls: 4, depth: 2 };
const numRuns = isDeep ? 5_000 : 60;

describe("any script", () => {
  it("ends each task once, gives each call one result and runs it once, and logs its transcript", async () => {
    const takenBack = new Set<string>();
    const property = fc.asyncProperty(planArbitrary(size), fc.boolean(), async (plan, atOnce) => {
      const store = memoryStore();
      const executions = new Executions();
      const agent = castOf(plan, { store, executions });
      const reply = await callToEnd(agent, "Go.", "session", { atOnce });
      await expectLawful(store, reply.task.rootTaskId);
      expect(executions.again).toEqual([]);
      expect([...executions.byCall.values()].filter((times) => times > 1)).toEqual([]);
      for (const event of await readLog(store, reply.task.rootTaskId)) {
        if (event.type === "task.output_item.discarded") takenBack.add(event.reason);
      }
    });
    await fc.assert(property, { numRuns });
    // That models fail in these plans is the point of half of it.
    expect([...takenBack]).toEqual(expect.arrayContaining(["provider_retry", "fallback"]));
  });

  it("obeys them when models fail permanently, with the same error through all three doors", async () => {
    let failures = 0;
    const property = fc.asyncProperty(planArbitrary({ ...size, mayGiveUp: true }), async (plan) => {
      const ends = await Promise.all(
        [
          (agent: ReActAgent) => callToEnd(agent, "Go.", "session"),
          async (agent: ReActAgent) => {
            for await (const _ of agent.run("Go.", { sessionId: "session" }));
          },
          async (agent: ReActAgent) => {
            for await (const _ of agent.stream("Go.", { sessionId: "session" }));
          },
        ].map(async (door) => {
          const store = memoryStore();
          const executions = new Executions();
          const code = await door(castOf(plan, { store, executions })).then(
            () => "none",
            (error) => error.code,
          );
          const [root] = await store.tasks({ sessionId: "session" });
          await expectLawful(store, root?.rootTaskId ?? "");
          expect([...executions.byCall.values()].filter((times) => times > 1)).toEqual([]);
          expect(code === "none").toBe(root?.status !== "failed");
          return { code, status: root?.status };
        }),
      );
      const [called, ran, streamed] = ends;
      expect(streamed).toEqual(ran);
      // Those two stop at the first rest; a call goes on to the end.
      if (ran?.status !== "suspended") expect(called).toEqual(ran);
      if (called?.status === "failed") failures += 1;
    });
    await fc.assert(property, { numRuns });
    expect(failures).toBeGreaterThan(0);
  });

  it("takes the same steps however answers are delivered", async () => {
    const property = fc.asyncProperty(planArbitrary(size), async (plan) => {
      const stories = await Promise.all(
        [true, false].map(async (atOnce) => {
          const store = memoryStore();
          const reply = await callToEnd(castOf(plan, { store }), "Go.", "session", { atOnce });
          const { text, generateReason } = reply;
          return { text, generateReason, story: await storyOf(store, reply.task.taskId) };
        }),
      );
      expect(stories[0]).toEqual(stories[1]);
    });
    await fc.assert(property, { numRuns });
  });

  it("contains a child's failure: the parent reads it and continues", async () => {
    const property = fc.asyncProperty(planArbitrary({ ...size, depth: 2 }), async (plan) => {
      const store = memoryStore();
      const broken = {
        name: "broken",
        preReasoning({ source }: { source?: unknown }) {
          if (source !== undefined) throw new Error("It broke.");
        },
      };
      const reply = await callToEnd(castOf(plan, { store, hooks: [broken] }), "Go.", "session");
      expect(["model_stop", "max_iterations"]).toContain(reply.generateReason);
      const records = await store.tasks({ rootTaskId: reply.task.rootTaskId });
      const children = records.filter(({ depth }) => depth > 0);
      for (const { status, error } of children) {
        expect(status).toBe("failed");
        expect(error?.message).toContain("It broke.");
      }
      const { calls } = await storyOf(store, reply.task.taskId);
      for (const call of calls.filter(({ child }) => child)) {
        expect(call).toMatchObject({
          state: "error",
          output: expect.stringContaining("It broke."),
        });
      }
      await expectLawful(store, reply.task.rootTaskId);
    });
    await fc.assert(property, { numRuns: numRuns / 2 });
  });

  it("ends the same through all three doors", async () => {
    const property = fc.asyncProperty(planArbitrary(size), async (plan) => {
      const called = await firstRest(plan, (agent) => agent.call("Go.", { sessionId: "s" }));
      const ran = await firstRest(plan, async (agent) => {
        const run = agent.run("Go.", { sessionId: "s" });
        for await (const _ of run);
        return run.result();
      });
      const streamed = await firstRest(plan, async (agent) => {
        let last: AgentEvent | undefined;
        for await (const event of agent.stream("Go.", { sessionId: "s" })) {
          if (event.type === "agent_result" && event.source === undefined) last = event;
          else expect(last).toBeUndefined();
        }
        if (last?.type !== "agent_result") throw new Error("The stream had no result.");
        return { ...last, content: last.message.content };
      });
      expect(streamed).toEqual(called);
      expect(ran).toEqual(called);
    });
    await fc.assert(property, { numRuns });
  });
});

type Rest = Pick<Reply, "text" | "generateReason" | "approvals" | "content">;

/** What one door says at the first rest, in a world of its own; its approvals must be those that wait. */
async function firstRest(
  plan: Parameters<typeof castOf>[0],
  door: (agent: ReturnType<typeof castOf>) => Promise<Rest>,
) {
  const agent = castOf(plan, { store: memoryStore() });
  const { text, generateReason, approvals, content } = await door(agent);
  const waiting = await agent.approvals({ sessionId: "s" });
  expect(approvals.map(({ id }) => id).sort()).toEqual(waiting.map(({ id }) => id).sort());
  const asked = approvals.map(({ kind, call, path }) => ({
    kind,
    name: call.name,
    input: call.input,
    path,
  }));
  return { text, generateReason, asked, kinds: content.map(({ type }) => type) };
}
