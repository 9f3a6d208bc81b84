import { describe, expect, it } from "vitest";
import { memoryStore } from "../../../src/index.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { ManualClock } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { turns } from "../../agent/support/tools.ts";
import { cancelCast, descendants, phases, workers, workersIn } from "./support/cancel-cast.ts";

const sessionId = "session";
const patience = { timeout: 60_000, interval: 5 };

describe.each(phases)("a tree of four levels with its workers %s", (phase) => {
  it.each(["its own process", "another process"])("ends when %s cancels it", async (where) => {
    const store = memoryStore();
    const clock = new ManualClock(1_000_000);
    const cast = cancelCast(store, clock, phase);
    const run = cast.lead.run("Go.", { sessionId });
    run.result().catch(() => {});
    const expected = { tasks: 1 + descendants, ...cast.expected };
    const stands = async () => {
      if (phase === "promoted") await clock.advance(1_000);
      return workersIn(store, sessionId, cast);
    };
    await expect.poll(stands, patience).toEqual(expected);
    const hasEnded = phase === "promoted" || phase.includes("background");
    if (hasEnded || phase.includes("approval")) await run.result();

    const [root] = await store.tasks({ sessionId });
    if (root === undefined) throw new Error("There is no root task.");
    if (where === "its own process") await run.cancel("enough");
    else {
      const { lead } = cancelCast({ ...store }, clock, phase);
      await lead.attach({ taskId: root.taskId }).cancel("enough");
    }
    const statuses = async () =>
      (await store.tasks({ rootTaskId: root.taskId })).map(({ status }) => status);
    await expect.poll(async () => (await statuses()).every(isTerminal), patience).toBe(true);
    await run.settled();

    const requests = cast.requests();
    const children = (await store.tasks({ rootTaskId: root.taskId })).filter(
      ({ agentName }) => agentName === "worker",
    );
    expect(children.map(({ status }) => status)).toEqual(Array(workers).fill("cancelled"));
    const [end] = await statuses();
    expect(end).toBe(hasEnded ? "completed" : "cancelled");
    expect(await cast.lead.approvals({ sessionId })).toEqual([]);
    await expectLawful(store, root.taskId);

    // Nothing is left that could still run.
    await turns(20);
    expect({ requests: cast.requests(), busy: cast.busy(), timers: clock.pending }).toEqual({
      requests,
      busy: 0,
      timers: 0,
    });
    await expect
      .poll(async () => (await store.acquire(sessionId, "test", 1)) !== undefined)
      .toBe(true);
    expect(await store.expired(1)).toEqual([]);
  });
});
