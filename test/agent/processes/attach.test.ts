import { describe, expect, it, vi } from "vitest";
import type { TaskEvent } from "../../../src/protocol/event.ts";
import { collect } from "../support/collect.ts";
import { expectLawful, readLog } from "../support/laws.ts";
import { turns } from "../support/tools.ts";
import { play, spawn } from "./support/script-prompt.ts";
import { createWorld, sessionId } from "./support/world.ts";

const hold = (gate: string) => ({ call: "hold", input: { gate } });

/** A process that drives a root task with a background child, each at a gate, and another process. */
async function withTree() {
  const world = createWorld();
  const [a, b] = [world.start("a"), world.start("b")];
  const script = play(spawn("worker", hold("child"), "Worked."), hold("root"), "Led.");
  const run = a.lead.run(script, { sessionId });
  const gates = ["a hold root", "a hold child"];
  await vi.waitFor(() => expect([...world.executions].sort()).toEqual([...gates].sort()));
  const { taskId } = await run.task;
  const [child] = await world.store.tasks({ parentSessionId: sessionId });
  return { world, a, b, run, taskId, childId: child?.taskId ?? "" };
}

const endsOf = (events: readonly TaskEvent[]) =>
  events.flatMap(({ type, task_id }) => (type === "task.completed" ? [task_id] : []));

describe("attach", () => {
  it("follows the newest root task of a session in another process", async () => {
    const { world, b, run, taskId } = await withTree();
    const attached = b.lead.attach({ sessionId });
    const events = collect(attached);
    await turns(50);
    world.open("root");
    expect((await attached.result()).text).toBe("Led.");
    expect((await attached.task).taskId).toBe(taskId);
    const seen = await events;
    expect(seen).toEqual((await readLog(world.store, taskId)).slice(0, seen.length));
    expect(seen.at(-1)).toMatchObject({ type: "task.completed", task_id: taskId });
    world.open("child");
    await run.settled();
  });

  it("begins behind the event that the reader has", async () => {
    const { world, b, run, taskId } = await withTree();
    world.open("root");
    world.open("child");
    await run.settled();
    const log = await readLog(world.store, taskId);
    const seen = await collect(b.lead.attach({ taskId }, { after: 4, until: "tree" }));
    expect(seen).toEqual(log.slice(5));
  });

  it("follows the log of the root until the child has ended", async () => {
    const { world, b, taskId, childId } = await withTree();
    const attached = b.lead.attach({ taskId: childId });
    const events = collect(attached);
    await turns(50);
    world.open("root");
    await turns(50);
    world.open("child");
    expect((await attached.result()).text).toBe("Worked.");
    expect(endsOf(await events)).toEqual([taskId, childId]);
  });

  it("follows the whole tree with until tree", async () => {
    const { world, b, taskId, childId } = await withTree();
    const events = collect(b.lead.attach({ taskId }, { until: "tree" }));
    world.open("root");
    await turns(50);
    world.open("child");
    expect(endsOf(await events)).toEqual([taskId, childId]);
    expect(await events).toEqual(await readLog(world.store, taskId));
  });

  it("returns the outcome of a task that ended before", async () => {
    const { world, b, run, taskId } = await withTree();
    world.open("root");
    world.open("child");
    await run.settled();
    expect((await b.lead.attach({ taskId }).result()).text).toBe("Led.");
    expect(await world.store.tasks({ sessionId })).toHaveLength(1);
  });

  it("steers the task in the process that drives it", async () => {
    const { world, b, run, taskId, childId } = await withTree();
    await b.lead.attach({ taskId }).steer("Be brief.");
    world.open("root");
    world.open("child");
    await run.settled();
    const texts = JSON.stringify(await world.store.session(sessionId));
    expect(texts.match(/Be brief\./g)).toHaveLength(1);
    expect(await world.store.posts({ sessionId })).toMatchObject([{ id: `done:${childId}` }]);
    await expectLawful(world.store, taskId);
  });

  it("cancels the task and its children in the process that drives them", async () => {
    const { world, b, run, taskId, childId } = await withTree();
    await b.lead.attach({ sessionId }).cancel("enough");
    const records = await world.store.tasks({ rootTaskId: taskId });
    expect(records.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
    await run.settled();
    await expectLawful(world.store, taskId);
    expect(await world.store.posts({ sessionId })).toMatchObject([{ id: `done:${childId}` }]);
  });

  it("takes over when the lease of the owner expires", async () => {
    const { world, a, b, taskId } = await withTree();
    const attached = b.lead.attach({ taskId }, { until: "tree" });
    const events = collect(attached);
    await turns(50);
    a.process.kill();
    await world.expireLeases();
    world.open("root");
    world.open("child");
    expect((await attached.result()).text).toBe("Led.");
    expect(await events).toEqual(await readLog(world.store, taskId));
    await expectLawful(world.store, taskId);
    a.process.bury();
  });

  it("throws not_found without a task, and for the task of another user", async () => {
    const world = createWorld();
    const { lead } = world.start("a");
    const mine = await lead.call(play("Mine."), { sessionId, userId: "ann" });
    const { taskId } = mine.task;
    for (const attached of [
      lead.attach({ sessionId: "none" }),
      lead.attach({ taskId: "none" }),
      lead.attach({ sessionId }, { userId: "bob" }),
      lead.attach({ taskId }),
    ]) {
      await expect(attached.result()).rejects.toMatchObject({ code: "not_found" });
      await expect(collect(attached)).rejects.toMatchObject({ code: "not_found" });
    }
    expect((await lead.attach({ taskId }, { userId: "ann" }).result()).text).toBe("Mine.");
  });
});
