import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import type { WaitReason } from "../../../src/contract/agent.ts";
import type { Commit } from "../../../src/contract/store.ts";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import type { ScriptedTurn } from "../../../src/testing.ts";
import { collect } from "../support/collect.ts";
import { expectLawful, readLog } from "../support/laws.ts";
import { turns } from "../support/tools.ts";
import { delegate, play, spawn } from "./support/script-prompt.ts";
import { createWorld, type Node, sessionId, type World } from "./support/world.ts";

const hold = (gate: string) => ({ call: "hold", input: { gate } });
const ask = { call: "ask" };
const structured = (value: object) => ({ call: "generate_response", input: value });

const waitFor = (check: () => Promise<void> | void) =>
  vi.waitFor(check, { interval: 2, timeout: 5_000 });

/** Resolves when a process has reached the `hold` of a gate. */
const holding = ({ executions }: World, { process }: Node, gate: string) =>
  waitFor(() => expect(executions).toContain(`${process.name} hold ${gate}`));

/** Lets the time of a process pass, once it waits for it. */
async function tick({ process: { clock } }: Node, ms: number): Promise<void> {
  await clock.sleeping();
  await clock.advance(ms);
  await turns(20);
}

const statuses = async ({ store }: World) =>
  (await store.tasks({ conversation: sessionId })).map(({ status }) => status);

/** Starts processes; the first one drives a root task that holds at gate `x`. */
async function withBusyOwner() {
  const world = createWorld();
  const [a, b] = [world.start("a"), world.start("b")];
  const first = a.lead.run(play(hold("x"), "First."), { sessionId });
  await holding(world, a, "x");
  return { world, a, b, first };
}

/** Starts processes; the root task of the first one has ended, and its background child holds at gate `x`. */
async function withBackgroundWork(...turnsOfChild: readonly ScriptedTurn[]) {
  const world = createWorld();
  const [a, b] = [world.start("a"), world.start("b")];
  const child = turnsOfChild.length > 0 ? turnsOfChild : [hold("x"), "Worked."];
  const first = await a.lead.call(play(spawn("worker", ...child), "Started."), { sessionId });
  return { world, a, b, first };
}

async function expectAllLawful({ store }: World): Promise<void> {
  for (const { taskId } of await store.tasks({ sessionId })) await expectLawful(store, taskId);
  expect(await store.posts({ conversation: sessionId, sessionId })).toEqual([]);
}

describe("a call on a free session", () => {
  it("begins with one commit", async () => {
    const world = createWorld();
    const { lead } = world.start("a");
    const enqueue = vi.spyOn(world.store, "enqueue");
    expect((await lead.call(play("Hello."), { sessionId })).text).toBe("Hello.");
    expect(enqueue).not.toHaveBeenCalled();
    const [first] = world.commits;
    expect(first?.events?.map(({ type }) => type)).toEqual(["task.created", "task.in_progress"]);
    expect(first?.tasks?.map(({ status }) => status)).toEqual(["in_progress"]);
    expect(first?.appends?.[0]?.messages).toHaveLength(1);
    expect(first?.begins).toBe(first?.tasks?.[0]?.taskId);
    await expectAllLawful(world);
  });
});

describe("a call on a busy session", () => {
  it("queues behind a task of the same process", async () => {
    const { world, a, first } = await withBusyOwner();
    const second = a.lead.run(play("Second."), { sessionId });
    await second.task;
    expect(await statuses(world)).toEqual(["in_progress", "queued"]);
    world.open("x");
    expect((await second.result()).text).toBe("Second.");
    expect((await first.result()).text).toBe("First.");
    const isEnd = ({ tasks = [] }: Commit) => tasks.some(({ status }) => status === "completed");
    const begins = world.commits.map((commit) => commit.begins !== undefined);
    expect(begins.lastIndexOf(true)).toBeGreaterThan(world.commits.findIndex(isEnd));
    await expectAllLawful(world);
  });

  it("queues behind a task of another process, which then runs it", async () => {
    const { world, a, b } = await withBusyOwner();
    const waits: WaitReason[] = [];
    const onWait = (reason: WaitReason) => void waits.push(reason);
    const run = b.lead.run(play(hold("y"), { text: ["Sec", "ond."] }), { sessionId, onWait });
    const events = collect(run);
    await run.task;
    await tick(b, 1_100);
    expect(waits).toEqual([{ reason: "busy" }]);
    world.open("x");
    await holding(world, a, "y");
    world.open("y");
    expect((await run.result()).text).toBe("Second.");
    const { taskId } = await run.task;
    expect(await events).toEqual(await readLog(world.store, taskId));
    expect(world.executions).toEqual(["a hold x", "a hold y"]);
    await expectAllLawful(world);
  });

  it("starts beside background children of another process", async () => {
    const { world, a, b } = await withBackgroundWork();
    await holding(world, a, "x");
    const events = await collect(b.lead.run(play("Second."), { sessionId }));
    expect(events.at(-1)?.type).toBe("task.completed");
    expect(await statuses(world)).toEqual(["completed", "in_progress", "completed"]);
    const [, second] = await world.store.tasks({ sessionId });
    expect(events).toEqual(await readLog(world.store, second?.taskId ?? ""));
    world.open("x");
    await waitFor(async () => expect((await statuses(world))[1]).toBe("completed"));
    await waitFor(async () => expect(await world.store.owner(sessionId)).toBeUndefined());
    await b.lead.call(play("Heard."), { sessionId });
    await expectAllLawful(world);
  });

  it("throws agent_busy with onBusy fail while a root task runs, and stores nothing", async () => {
    const { world, a, b, first } = await withBusyOwner();
    for (const { lead } of [a, b]) {
      const call = lead.call(play("Second."), { sessionId, onBusy: "fail" });
      await expect(call).rejects.toMatchObject({ code: "agent_busy" });
    }
    expect(await statuses(world)).toEqual(["in_progress"]);
    world.open("x");
    await first.result();
  });

  it("starts with onBusy fail while another process only has the lease", async () => {
    const { world, a, b } = await withBackgroundWork();
    await holding(world, a, "x");
    const reply = await b.lead.call(play("Second."), { sessionId, onBusy: "fail" });
    expect(reply.text).toBe("Second.");
    expect(await statuses(world)).toEqual(["completed", "in_progress", "completed"]);
  });

  it("starts once when two processes call with onBusy fail at the same time", async () => {
    const world = createWorld();
    const calls = ["a", "b", "c"].map((name) =>
      world.start(name).lead.call(play(hold("x"), "Done."), { sessionId, onBusy: "fail" }),
    );
    const settled = Promise.allSettled(calls);
    await turns(200);
    world.open("x");
    const outcomes = (await settled).map((outcome) =>
      outcome.status === "fulfilled" ? outcome.value.text : outcome.reason.code,
    );
    expect(outcomes.sort()).toEqual(["Done.", "agent_busy", "agent_busy"]);
    expect(await statuses(world)).toEqual(["completed"]);
    await expectAllLawful(world);
  });

  it("follows the task that has its id already", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const { taskId } = await first.task;
    const record = await world.store.task(taskId);
    vi.spyOn(b.process.store, "enqueue").mockImplementation((queued, options) =>
      world.store.enqueue({ ...queued, taskId, rootTaskId: taskId }, options),
    );
    const same = b.lead.run(play("Twice."), { sessionId });
    expect((await same.task).taskId).toBe(taskId);
    expect(await world.store.task(taskId)).toEqual(record);
    world.open("x");
    expect((await same.result()).text).toBe("First.");
    expect((await first.result()).text).toBe("First.");
    expect(world.executions).toEqual([`${a.process.name} hold x`]);
  });
});

describe("an answer from another process", () => {
  const nested = delegate("manager", delegate("worker", ask, "Filed."), "Managed.");

  it("reaches a sync grandchild of the root task that the owner drives", async () => {
    const world = createWorld();
    const [a, b] = [world.start("a"), world.start("b")];
    // The background child keeps process a the owner while the root task waits.
    const asked = a.lead.run(play([spawn("worker", hold("x")), nested], "Led."), { sessionId });
    const { approvals } = await asked.result();
    await holding(world, a, "x");
    const before = await world.store.last((await asked.task).taskId);
    const run = b.lead.run(
      approvals.map((approval) => approval.approve()),
      { sessionId },
    );
    const events = await collect(run);
    expect((await run.result()).text).toBe("Led.");
    expect((await run.task).taskId).toBe((await asked.task).taskId);
    const log = await readLog(world.store, (await run.task).rootTaskId);
    expect(events).toEqual(log.slice(before + 1, before + 1 + events.length));
    expect(events.at(-1)).toMatchObject({ type: "task.completed" });
    expect(world.executions).toEqual(["a hold x", "a ask"]);
    world.open("x");
    await run.settled();
  });

  it("reaches a sync grandchild when no process owns the session", async () => {
    const world = createWorld();
    const [a, b] = [world.start("a"), world.start("b")];
    const { approvals } = await a.lead.call(play(nested, "Led."), { sessionId });
    expect(await world.store.owner(sessionId)).toBeUndefined();
    const [approval] = approvals;
    const reply = await b.lead.call(approval?.approve(), { sessionId });
    expect(reply.text).toBe("Led.");
    expect(world.executions).toEqual(["b ask"]);
    await expectAllLawful(world);
  });

  it("returns the outcome of a background child whose root task has ended", async () => {
    const { world, a, b } = await withBackgroundWork(ask, "Filed.");
    await a.lead.call(play(spawn("worker", hold("x")), "Again."), { sessionId });
    await holding(world, a, "x");
    await waitFor(async () => expect(await statuses(world)).toContain("suspended"));
    const [approval] = await b.lead.approvals({ sessionId });
    const run = b.lead.run(approval?.approve(), { sessionId });
    const reply = await run.result();
    expect(reply).toMatchObject({ text: "Filed.", task: { taskId: approval?.taskId } });
    expect(world.executions).toEqual(["a hold x", "a ask"]);
    world.open("x");
  });

  it("returns the outcome of a background child while a newer root task is suspended", async () => {
    const { world, a, b } = await withBackgroundWork(ask, "Filed.");
    await waitFor(async () => expect(await statuses(world)).toContain("suspended"));
    const [first] = await a.lead.approvals({ sessionId });
    const second = await a.lead.call(play(ask, "Led."), { sessionId });
    expect(second.approvals).toHaveLength(1);
    const reply = await b.lead.call(first?.approve(), { sessionId });
    expect(reply).toMatchObject({ text: "Filed.", task: { taskId: first?.taskId } });
    const [, own] = await b.lead.approvals({ sessionId });
    expect(own).toBeUndefined();
    const last = await b.lead.call(second.approvals[0]?.approve(), { sessionId });
    expect(last).toMatchObject({ text: "Led.", task: second.task });
    await expectAllLawful(world);
  });

  it("is taken by the next owner when the owner dies before taking it", async () => {
    const { world, a, b } = await withBackgroundWork(ask, "Filed.");
    await a.lead.call(play(spawn("worker", hold("x")), "Again."), { sessionId });
    await holding(world, a, "x");
    await waitFor(async () => expect(await statuses(world)).toContain("suspended"));
    a.process.kill();
    const [approval] = await b.lead.approvals({ sessionId });
    const run = b.lead.run(approval?.approve(), { sessionId });
    await run.task;
    expect(await world.store.posts({ rootTaskId: approval?.rootTaskId })).toHaveLength(1);
    await world.expireLeases();
    expect((await run.result()).text).toBe("Filed.");
    await holding(world, b, "x");
    world.open("x");
    await run.settled();
    a.process.bury();
  });
});

describe("a queued task", () => {
  it("runs although its call died after it was stored", async () => {
    const { world, b, first } = await withBusyOwner();
    const { taskId } = await b.lead.run(play("Second."), { sessionId }).task;
    b.process.kill();
    world.open("x");
    await first.result();
    await waitFor(async () => expect((await world.store.task(taskId))?.status).toBe("completed"));
    await expectAllLawful(world);
    b.process.bury();
  });

  it("ends in one commit when it is cancelled before it begins", async () => {
    const { world, a, b, first } = await withBusyOwner();
    for (const { lead } of [a, b]) {
      const run = lead.run(play("Never."), { sessionId });
      const { taskId } = await run.task;
      const failed = expect(run.result()).rejects.toMatchObject({ code: "cancelled" });
      await run.cancel("enough");
      await failed;
      const commits = world.commits.filter(({ log }) => log === taskId);
      expect(commits).toHaveLength(1);
      const [{ events, taken, tasks } = {}] = commits;
      expect(events?.map(({ type }) => type)).toEqual([
        "task.created",
        "task.cancelling",
        "task.cancelled",
      ]);
      expect(taken).toEqual([`cancel:${taskId}`]);
      expect(tasks?.map(({ status }) => status)).toEqual(["cancelled"]);
    }
    world.open("x");
    await first.result();
    await expectAllLawful(world);
  });

  it("is withdrawn when the task before it suspends", async () => {
    const world = createWorld();
    const [a, b] = [world.start("a"), world.start("b")];
    const first = a.lead.run(play(hold("x"), ask, "First."), { sessionId });
    await holding(world, a, "x");
    const calls = [a, b].map(({ lead }) => lead.call(play("Never."), { sessionId }));
    const failed = calls.map((call) =>
      expect(call).rejects.toMatchObject({ code: "session_suspended" }),
    );
    await waitFor(async () => expect(await statuses(world)).toHaveLength(3));
    world.open("x");
    await Promise.all(failed);
    expect(await statuses(world)).toEqual(["suspended", "cancelled", "cancelled"]);
    const { approvals } = await first.result();
    expect((await b.lead.call(approvals[0]?.approve(), { sessionId })).text).toBe("First.");
    await expectAllLawful(world);
  });

  it("denies what the task before it asks, and runs after it", async () => {
    const world = createWorld();
    const [a, b] = [world.start("a"), world.start("b")];
    const first = a.lead.run(play(hold("x"), ask, "First."), { sessionId });
    await holding(world, a, "x");
    const second = b.lead.run(play("Second."), { sessionId, onSuspended: "deny" });
    await second.task;
    world.open("x");
    expect((await second.result()).text).toBe("Second.");
    expect(await statuses(world)).toEqual(["completed", "completed"]);
    expect(world.executions).not.toContain("a ask");
    expect(await first.result()).toBeDefined();
    await expectAllLawful(world);
  });
});

describe("a task of another process", () => {
  it("runs with the owner's settings", async () => {
    const world = createWorld();
    const [a, b] = [world.start("a"), world.start("b")];
    const first = a.lead.run(play(hold("x"), "First."), { sessionId });
    await holding(world, a, "x");
    const second = b.lead.run(play(hold("y"), "Second."), { sessionId });
    await second.task;
    world.open("x");
    await first.result();
    await holding(world, a, "y");
    world.open("y");
    expect((await second.result()).text).toBe("Second.");
    expect(world.executions).not.toContain("b hold y");
  });

  it("waits for a process that has its agent, and is not overtaken", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const waits: WaitReason[] = [];
    const onWait = (reason: WaitReason) => void waits.push(reason);
    const { taskId } = await b.agent("scribe").run(play("Second."), { sessionId }).task;
    b.process.kill();
    const third = a.lead.run(play("Third."), { sessionId, onWait });
    await third.task;
    world.open("x");
    await first.result();
    await waitFor(async () => expect(await world.store.owner(sessionId)).toBeUndefined());
    await tick(a, 1_100);
    await tick(a, 1_100);
    expect(await statuses(world)).toEqual(["completed", "queued", "queued"]);
    expect(new Set(waits.map(({ reason }) => reason))).toEqual(new Set(["busy"]));
    const c = world.start("c");
    const scribe = c.agent("scribe").attach({ taskId });
    expect((await scribe.result()).text).toBe("Second.");
    await tick(a, 1_100);
    expect((await third.result()).text).toBe("Third.");
    await expectAllLawful(world);
    b.process.bury();
  });

  it("is cancelled through the store when the signal of its call aborts", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const stop = new AbortController();
    const second = b.lead.run(play(hold("y"), "Second."), { sessionId, signal: stop.signal });
    const { taskId } = await second.task;
    world.open("x");
    await first.result();
    await holding(world, a, "y");
    stop.abort(new Error("The user left."));
    await waitFor(async () => expect((await world.store.task(taskId))?.status).toBe("cancelled"));
    expect((await second.result()).generateReason).toBe("interrupted");
    const events = await readLog(world.store, taskId);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "task.cancelling", reason: "The user left." }),
    );
    await expectAllLawful(world);
  });

  it("gives a structured value that the call validates with its own schema", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const output = z.object({ n: z.number() }).transform(({ n }) => ({ doubled: n * 2 }));
    const strict = z.object({ n: z.number().refine((n) => n > 100, "too small") });
    const value = play(structured({ n: 21 }));
    const good = b.lead.run(value, { sessionId, output });
    await good.task;
    const bad = b.lead.run(value, { sessionId, output: strict });
    await bad.task;
    const failed = expect(bad.result()).rejects.toMatchObject({
      code: "structured_output_invalid",
      message: expect.stringContaining("too small"),
    });
    world.open("x");
    await first.result();
    expect((await good.result()).structured).toEqual({ doubled: 42 });
    await failed;
    expect(await statuses(world)).toEqual(["completed", "completed", "completed"]);
    expect(a.process.state).toBe("alive");
    await expectAllLawful(world);
  });
});

describe("live context values", () => {
  const context = { secret: "42" };
  const script = play({ call: "read_context" }, "Read.");

  it("wait for the lease, and their task is not stored before it begins", async () => {
    const { world, a, b } = await withBackgroundWork();
    await holding(world, a, "x");
    const run = b.lead.run(script, { sessionId, context });
    await turns(100);
    expect(await world.store.tasks({ sessionId })).toHaveLength(1);
    world.open("x");
    expect((await run.result()).text).toBe("Read.");
    const { taskId } = await run.task;
    const [block] = (await world.store.session(sessionId)).flatMap(({ content, metadata }) =>
      content.filter(({ type }) => metadata?.taskId === taskId && type === "tool_result"),
    );
    expect(block).toMatchObject({ state: "success", output: [{ type: "text", text: "42" }] });
    await expectAllLawful(world);
  });

  it("throw agent_busy with onBusy fail while another process has the lease", async () => {
    const { world, a, b } = await withBackgroundWork();
    await holding(world, a, "x");
    const call = b.lead.call(script, { sessionId, context, onBusy: "fail" });
    await expect(call).rejects.toMatchObject({
      code: "agent_busy",
      hint: expect.stringContaining("context"),
    });
    expect(await world.store.tasks({ sessionId })).toHaveLength(1);
    world.open("x");
  });
});

describe("when the owner stops", () => {
  it("by a shutdown, its calls throw and other processes continue at once", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const { taskId } = await first.task;
    const attached = b.lead.attach({ taskId });
    const events = collect(attached);
    const failed = expect(first.result()).rejects.toMatchObject({ code: "shutting_down" });
    await turns(50);
    await taskRunner({ agents: [a.lead], clock: a.process.clock }).shutDown();
    await failed;
    await holding(world, b, "x");
    world.open("x");
    expect((await attached.result()).text).toBe("First.");
    expect(await events).toEqual(await readLog(world.store, taskId));
    await expectAllLawful(world);
  });

  it("for longer than its lease, another process takes over and its calls follow", async () => {
    const { world, a, b, first } = await withBusyOwner();
    const { taskId } = await first.task;
    const events = collect(first);
    const attached = b.lead.attach({ taskId });
    await turns(50);
    a.process.pause();
    await world.expireLeases();
    await holding(world, b, "x");
    a.process.goOn();
    world.open("x");
    expect((await attached.result()).text).toBe("First.");
    expect((await first.result()).text).toBe("First.");
    expect(await events).toEqual(await readLog(world.store, taskId));
    await expectAllLawful(world);
  });
});
