import { describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore, type Store, tool } from "../../../src/index.ts";
import { ManualClock, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { seededRandom } from "../../support/random.ts";
import { simulateProcess } from "../tasks/support/simulated-process.ts";

const spawn = (task: string, more: object = {}) => ({
  call: "agent_spawn",
  input: { agent_id: "worker", task, ...more },
});

/** Children that work until they are released. */
function workers() {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const gateOf = (task: string) => {
    const gate = gates.get(task) ?? Promise.withResolvers<void>();
    gates.set(task, gate);
    return gate;
  };
  const state = { begun: [] as string[], atWork: 0, peak: 0 };
  const model = scriptedModel(async ({ prompt }) => {
    const text = JSON.stringify(prompt.findLast(({ role }) => role === "user")?.content);
    const task = /t\d/.exec(text)?.[0] ?? "";
    state.begun.push(task);
    state.atWork += 1;
    state.peak = Math.max(state.peak, state.atWork);
    await gateOf(task).promise;
    state.atWork -= 1;
    return `${task} is done.`;
  });
  return { state, model, release: (task: string) => gateOf(task).resolve() };
}

function leadOf(turns: readonly ScriptedTurn[], parallelChildren: number, more: object = {}) {
  const { model, ...rest } = workers();
  const store: Store = memoryStore();
  const lead = new HarnessAgent({
    name: "lead",
    model: scriptedModel(turns),
    store,
    filesystem: false,
    limits: { parallelChildren },
    subagents: [{ name: "worker", description: "Works.", model }],
    ...more,
  });
  return { lead, store, worker: model, ...rest };
}

const statuses = async (store: Store) =>
  (await store.tasks({ parentSessionId: "s" })).map(({ status }) => status);

describe("children beyond parallelChildren", () => {
  it("wait for a place and begin in the order of the calls", async () => {
    const names = ["t0", "t1", "t2", "t3", "t4", "t5"];
    const { lead, store, state, release } = leadOf([names.map((name) => spawn(name)), "Done."], 2);
    const run = lead.run("Go.", { sessionId: "s" });
    const { rootTaskId } = await run.task;
    await expect.poll(() => statuses(store)).toHaveLength(6);
    // A place that becomes free goes to the child that waits longest, whichever child has left it.
    for (const [index, name] of ["t1", "t0", "t2", "t4", "t3", "t5"].entries()) {
      await expect.poll(() => state.begun).toEqual(names.slice(0, index + 2));
      release(name);
    }
    expect((await run.result()).text).toBe("Done.");
    expect(state.peak).toBe(2);
    expect(await statuses(store)).toEqual(names.map(() => "completed"));
    await expectLawful(store, rootTaskId);
  });

  it("count their wait against the timeout, and work later", async () => {
    const clock = new ManualClock();
    const turns: ScriptedTurn[] = [
      [spawn("t0", { timeout_seconds: 0 })],
      [spawn("t1", { timeout_seconds: 5 })],
      "Done.",
    ];
    const { lead, store, state, release } = leadOf(turns, 1, { clock });
    const run = lead.run("Go.", { sessionId: "s" });
    const { rootTaskId } = await run.task;
    await expect.poll(() => statuses(store)).toEqual(["in_progress", "queued"]);
    await clock.advance(5_000);
    expect((await run.result()).text).toBe("Done.");
    expect(JSON.stringify(await store.session("s"))).toContain("status: timeout_promoted");
    expect(state.begun).toEqual(["t0"]);
    release("t0");
    release("t1");
    await run.settled();
    expect(state).toMatchObject({ begun: ["t0", "t1"], peak: 1 });
    const modes = (await store.tasks({ parentSessionId: "s" })).map(({ mode }) => mode);
    expect(modes).toEqual(["background", "background"]);
    await expectLawful(store, rootTaskId);
  });

  it("can be cancelled while they wait", async () => {
    const background = { timeout_seconds: 0 };
    const { lead, store, state, release } = leadOf(
      [["t0", "t1", "t2"].map((name) => spawn(name, background)), "Done."],
      1,
    );
    const run = lead.run("Go.", { sessionId: "s" });
    const { rootTaskId } = await run.task;
    await run.result();
    const [, second] = await store.tasks({ parentSessionId: "s" });
    const waiting = lead.attach({ taskId: second?.taskId ?? "" });
    await waiting.cancel("not needed");
    await expect.poll(() => statuses(store)).toEqual(["in_progress", "cancelled", "queued"]);
    release("t0");
    release("t2");
    await run.settled();
    expect(state.begun).toEqual(["t0", "t2"]);
    await expectLawful(store, rootTaskId);
  });

  it("do not wait for a child that waits for an approval", async () => {
    const ask = tool({ name: "ask", description: "x", needsApproval: true, execute: () => "yes" });
    const model = scriptedModel([[{ call: "ask" }], "Done."], { by: "prompt" });
    const { lead, store } = leadOf([[spawn("t0"), spawn("t1")], "Both are done."], 1, {
      subagents: [{ name: "worker", description: "Works.", model, tools: [ask] }],
    });
    const reply = await lead.call("Go.", { sessionId: "s" });
    expect(reply.approvals).toHaveLength(2);
    const { text } = await lead.call(
      reply.approvals.map((approval) => approval.approve()),
      { sessionId: "s" },
    );
    expect(text).toBe("Both are done.");
    expect(await statuses(store)).toEqual(["completed", "completed"]);
  });

  it("keep their queue when another process takes over", async () => {
    const shared = memoryStore();
    const { model, state, release } = workers();
    const names = ["t0", "t1", "t2"];
    const agentOf = (name: string) => {
      const process = simulateProcess(shared, { name, now: 0, random: seededRandom(1) });
      const spawns = names.map((label) => spawn(label, { label, timeout_seconds: 0 }));
      const lead = new HarnessAgent({
        name: "lead",
        model: scriptedModel([spawns, "Done."]),
        store: process.store,
        leaseMs: 1_000,
        filesystem: false,
        limits: { parallelChildren: 1 },
        subagents: [{ name: "worker", description: "Works.", model }],
      });
      return { process, lead };
    };
    const [first, second] = [agentOf("first"), agentOf("second")];
    const { task } = await first.lead.call("Go.", { sessionId: "s" });
    expect(await statuses(shared)).toEqual(["in_progress", "queued", "queued"]);
    const order = (await shared.tasks({ parentSessionId: "s" })).map(({ label = "" }) => label);
    first.process.cutOff();
    const run = second.lead.attach({ taskId: task.taskId }, { until: "tree" });
    const following = (async () => {
      for await (const _ of run);
    })();
    // The new owner repeats the model call of the child that was at work, and only that one.
    const [working] = order;
    await expect.poll(() => state.begun, { timeout: 20_000 }).toEqual([working, working]);
    expect(await statuses(shared)).toEqual(["in_progress", "queued", "queued"]);
    for (const name of names) release(name);
    await following;
    expect(state.begun).toEqual([working, ...order]);
    expect(await statuses(shared)).toEqual(["completed", "completed", "completed"]);
    first.process.bury();
  });
});
