import { describe, expect, it } from "vitest";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import {
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  tool,
} from "../../../src/index.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";

const minute = 60_000;

/** Processes on one store, whose agents differ in their settings. */
function createNodes() {
  const clock = new ManualClock(1_000_000_000);
  const store = memoryStore({ clock });
  const ran: string[] = [];
  const begun = Promise.withResolvers<void>();
  const start = (name: string, settings: Partial<ReActAgentOptions> = {}) => {
    // Another object is another process.
    const own: Store = { ...store };
    const hold = tool({
      name: "hold",
      description: "Never returns.",
      idempotent: true,
      execution: { timeoutMs: null },
      async execute(_, { signal }) {
        ran.push(name);
        begun.resolve();
        if (name !== "first") return "done";
        return new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      },
    });
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute() {
        ran.push(name);
        return "asked";
      },
    });
    const agent = new ReActAgent({
      ...{ name: "lead", store: own, clock, tools: [hold, ask] },
      model: scriptedModel(({ prompt }) => {
        if (prompt.at(-1)?.role === "tool") return "Done.";
        return JSON.stringify(prompt).includes("Ask") ? { call: "ask" } : { call: "hold" };
      }),
      ...settings,
    });
    const problems: unknown[] = [];
    const runner = taskRunner({
      agents: [agent],
      clock,
      onProblem: (_, error) => problems.push((error as { code: unknown }).code),
    });
    return { agent, runner, problems };
  };
  return { clock, store, ran, begun: begun.promise, start };
}

const node = (version: string) => ({
  ...{ nodeId: `node ${version}`, name: "host:1", startedAt: 1, places: [], conversations: [] },
  agents: [{ agentId: "lead", version }],
});
const finish = (version: string) => ({ version, rollout: "finish" }) as const;

describe("a run during a rolling update", () => {
  it("moves to any version by default", async () => {
    const { store, ran, begun, start } = createNodes();
    const first = start("first", { version: "1" });
    const run = first.agent.run("Go.", { sessionId: "s" });
    await begun;
    const { taskId } = await run.task;
    await first.runner.shutDown();
    const second = start("second", { version: "2" });
    expect(await second.runner.sweep()).toEqual(["s"]);
    await second.agent.attach({ taskId }).result();
    expect(ran).toEqual(["first", "second"]);
    expect(await store.task(taskId)).toMatchObject({ status: "completed" });
    await second.runner.shutDown();
  });

  it("stays on its version while a process has that, and moves ten minutes later", async () => {
    const { clock, store, ran, begun, start } = createNodes();
    const first = start("first", finish("1"));
    const run = first.agent.run("Go.", { sessionId: "s" });
    await begun;
    const { taskId } = await run.task;
    expect(await store.task(taskId)).toMatchObject({ agentVersion: "1" });
    await first.runner.shutDown();
    await store.heartbeat?.(node("1"), 15_000);
    const second = start("second", finish("2"));
    await second.runner.sweep();
    expect(second.problems).toEqual(["unknown_version"]);
    expect(ran).toEqual(["first"]);
    await clock.advance(10 * minute);
    await second.runner.sweep();
    expect(await store.task(taskId)).toMatchObject({ agentVersion: "1", status: "in_progress" });
    await clock.advance(minute);
    expect(await second.runner.sweep()).toEqual(["s"]);
    await second.agent.attach({ taskId }).result();
    expect(ran).toEqual(["first", "second"]);
    // It stays on the version that it has moved to.
    expect(await store.task(taskId)).toMatchObject({ agentVersion: "2", status: "completed" });
    await second.runner.shutDown();
  });

  it("continues on its version in another process", async () => {
    const { ran, begun, start } = createNodes();
    const first = start("first", finish("1"));
    const run = first.agent.run("Go.", { sessionId: "s" });
    await begun;
    const { taskId } = await run.task;
    await first.runner.shutDown();
    const third = start("third", finish("1"));
    expect(await third.runner.sweep()).toEqual(["s"]);
    await third.agent.attach({ taskId }).result();
    expect(ran).toEqual(["first", "third"]);
    await third.runner.shutDown();
  });

  it("moves when it is answered", async () => {
    const { store, ran, start } = createNodes();
    const first = start("asks", finish("1"));
    const asked = await first.agent.call("Ask.", { sessionId: "s" });
    expect(await store.task(asked.task.taskId)).toMatchObject({ agentVersion: "" });
    await first.runner.shutDown();
    await store.heartbeat?.(node("1"), 15_000);
    const second = start("second", finish("2"));
    await second.agent.call(asked.approvals.map((approval) => approval.approve()));
    expect(ran).toEqual(["second"]);
    await second.runner.shutDown();
  });

  it("makes calls of other versions wait, and says why", async () => {
    const { clock, ran, begun, start } = createNodes();
    const first = start("first", finish("1"));
    const run = first.agent.run("Go.", { sessionId: "s" });
    await begun;
    const { taskId } = await run.task;
    await first.runner.shutDown();
    const second = start("second", finish("2"));
    const waited = Promise.withResolvers<string>();
    const stop = new AbortController();
    const call = second.agent.call("Go on.", {
      sessionId: "s",
      signal: stop.signal,
      onWait: ({ reason }) => waited.resolve(reason),
    });
    for (let turn = 0; turn < 200; turn += 1) {
      await clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await waited.promise).toBe("busy");
    stop.abort();
    await expect(call).rejects.toMatchObject({ code: "cancelled" });
    // No process has the version, so any one may end what was cancelled.
    await second.runner.cancel(taskId);
    expect(ran).toEqual(["first"]);
    await second.runner.shutDown();
  });

  it("refuses a rollout that needs a version", () => {
    const { start } = createNodes();
    expect(() => start("first", { rollout: "finish" })).toThrow(/needs a version/);
  });
});
