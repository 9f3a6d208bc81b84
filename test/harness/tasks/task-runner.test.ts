import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import { HarnessAgent, memoryStore, type Store, sqliteStore, tool } from "../../../src/index.ts";
import { record } from "../../../src/testing/store-contract/samples.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

/** A store that counts the calls of each method. */
function countingStore(inner: Store): { store: Store; counts: Record<string, number> } {
  const counts: Record<string, number> = {};
  const store = new Proxy(inner, {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name, receiver);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        counts[String(name)] = (counts[String(name)] ?? 0) + 1;
        return value.apply(target, args);
      };
    },
  });
  return { store, counts };
}

function leadOn(store: Store, clock: ManualClock): HarnessAgent {
  const sign = tool({
    name: "sign",
    description: "Signs.",
    needsApproval: true,
    execute: () => "signed",
  });
  return new HarnessAgent({
    name: "lead",
    store,
    clock,
    filesystem: false,
    subagents: false,
    approvalTimeoutMs: 3_600_000,
    tools: [sign],
    model: scriptedModel([{ call: "sign" }, "Done."], { by: "prompt" }),
  });
}

/** Adds a queued task of an agent to each session. */
async function enqueue(
  store: Store,
  agentName: string,
  sessions: readonly string[],
): Promise<void> {
  for (const sessionId of sessions) {
    const taskId = `task-${sessionId}`;
    const input = [
      {
        id: `msg-${sessionId}`,
        role: "user" as const,
        content: [{ type: "text" as const, text: "Go." }],
      },
    ];
    await store.enqueue(
      record({ taskId, rootTaskId: taskId, sessionId, agentName, status: "queued", input }),
    );
  }
}

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}-${String(n).padStart(4, "0")}`);
}

describe("a task runner", () => {
  it("takes up conversations behind hundreds of an unknown agent, and pauses longer for these", async () => {
    const clock = new ManualClock(1_000_000_000);
    const { store, counts } = countingStore(memoryStore({ clock }));
    await enqueue(store, "stranger", namesOf("a", 350));
    await enqueue(store, "lead", namesOf("b", 3));
    const problems: string[] = [];
    const agents = [leadOn(store, clock)];
    const onProblem = (sessionId: string) => problems.push(sessionId);
    const runner = taskRunner({ agents, clock, onProblem, intervalMs: 1_000 });
    const found = await runner.sweep();
    for (const sessionId of namesOf("b", 3)) expect(found).toContain(sessionId);
    expect(problems).toHaveLength(350);

    // Half an hour of sweeps reads each of them a few times and reports no problem twice.
    for (const sessionId of namesOf("b", 3)) {
      await expect
        .poll(async () => (await store.tasks({ sessionId }))[0]?.status)
        .toBe("suspended");
    }
    const before = counts.tasks ?? 0;
    let sweeps = 0;
    for (; sweeps < 1_800; sweeps += 1) {
      await clock.advance(1_000);
      await runner.sweep();
    }
    const reads = (counts.tasks ?? 0) - before - sweeps;
    expect(reads / 350).toBeLessThan(20);
    expect(problems).toHaveLength(350);
    // An hour after the first report it reminds.
    await clock.advance(3_600_000);
    await runner.sweep();
    expect(problems).toHaveLength(700);
    await runner.shutDown();
  });

  it("reports a damaged conversation once and takes up the others", async () => {
    const path = join(folder, "damaged.db");
    const clock = new ManualClock(1_000_000_000);
    const store = sqliteStore(path, { clock });
    await enqueue(store, "lead", namesOf("s", 5));
    const other = new DatabaseSync(path);
    other.exec("UPDATE tasks SET record = '{}' WHERE session_id = 's-0001'");
    other.close();
    const problems: unknown[] = [];
    const onProblem = (sessionId: string, error: unknown) => problems.push([sessionId, error]);
    const runner = taskRunner({ agents: [leadOn(store, clock)], clock, onProblem });
    for (let n = 0; n < 5; n++) {
      await runner.sweep();
      await clock.advance(2_000);
    }
    for (const sessionId of ["s-0000", "s-0002", "s-0003", "s-0004"]) {
      await expect
        .poll(async () => (await store.tasks({ sessionId }))[0]?.status)
        .toBe("suspended");
    }
    expect(problems).toMatchObject([["s-0001", { code: "store_corrupt" }]]);
    await runner.shutDown();
    await store.close();
  });

  it("reports a suspended conversation with a damaged transcript once", async () => {
    const path = join(folder, "transcript.db");
    const clock = new ManualClock(1_000_000_000);
    const store = sqliteStore(path, { clock });
    const lead = leadOn(store, clock);
    for (const sessionId of ["a", "b"]) await lead.call("Go.", { sessionId });
    const other = new DatabaseSync(path);
    other.exec("UPDATE messages SET message = '{}' WHERE number = 1");
    other.close();
    const problems: unknown[] = [];
    const onProblem = (sessionId: string, error: unknown) => problems.push([sessionId, error]);
    const runner = taskRunner({ agents: [lead], clock, onProblem });
    expect(await runner.sweep()).toEqual([]);
    await clock.advance(3_600_000);
    expect(await runner.sweep()).toEqual(["b"]);
    for (let n = 0; n < 50; n++) {
      await runner.sweep();
      await clock.advance(2_000);
    }
    expect(problems).toMatchObject([["a", { code: "store_corrupt" }]]);
    await runner.shutDown();
    await store.close();
  });

  it("reads the transcripts of suspended tasks once, until an approval expires", async () => {
    const clock = new ManualClock(1_000_000_000);
    const { store, counts } = countingStore(memoryStore({ clock }));
    const lead = leadOn(store, clock);
    for (const sessionId of namesOf("s", 50)) await lead.call("Go.", { sessionId });
    const runner = taskRunner({ agents: [lead], clock });
    await runner.sweep();
    const before = counts.session ?? 0;
    expect(before).toBeGreaterThanOrEqual(50);
    for (let n = 0; n < 20; n++) {
      await clock.advance(2_000);
      expect(await runner.sweep()).toEqual([]);
    }
    expect(counts.session).toBe(before);
    await clock.advance(3_600_000);
    expect(await runner.sweep()).toHaveLength(50);
    await runner.shutDown();
  });

  it("reports a failing store once and sweeps less often", async () => {
    const clock = new ManualClock(1_000_000_000);
    const { store, counts } = countingStore(memoryStore({ clock }));
    await store.close();
    const problems: unknown[] = [];
    const onProblem = (...problem: unknown[]) => problems.push(problem);
    const runner = taskRunner({ agents: [leadOn(store, clock)], clock, onProblem, intervalMs: 10 });
    runner.start();
    for (let n = 0; n < 600; n++) await clock.advance(100);
    expect(problems).toMatchObject([["", { code: "store_closed" }]]);
    expect(counts.tasks).toBeLessThan(20);
    await runner.shutDown();
  });

  it.each([
    [{ intervalMs: Number.NaN }, "intervalMs"],
    [{ intervalMs: 0 }, "intervalMs"],
    [{ lostTasks: "resumed" }, "lostTasks"],
    [{ interval: 5 }, "interval"],
    [{ agents: undefined }, "agents"],
  ])("rejects the options %j", (options, name) => {
    const clock = new ManualClock(0);
    const agents = [leadOn(memoryStore({ clock }), clock)];
    expect(() => taskRunner({ agents, ...(options as object) })).toThrow(
      expect.objectContaining({ code: "invalid_settings", message: expect.stringContaining(name) }),
    );
  });
});
