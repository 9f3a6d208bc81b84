import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { processOf } from "../../../src/agent/drive/process.ts";
import { settingsKey } from "../../../src/agent/loop/settings.ts";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import {
  HarnessAgent,
  memoryStore,
  ReActAgent,
  type Store,
  sqliteStore,
  tool,
} from "../../../src/index.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

const sessionId = "session";

/** A lead with a sync and a background worker, each with a tool that waits for its release. */
function castOn(store: Store) {
  const ran: string[] = [];
  const gate = Promise.withResolvers<void>();
  const make = (name: string, idempotent: boolean) =>
    tool({
      name,
      description: `Does ${name}.`,
      idempotent,
      async execute(_, { callId, signal }) {
        ran.push(`${name} ${callId}`);
        if (name === "begin") return "begun";
        await Promise.race([
          gate.promise,
          new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
        ]);
        return `${name} is done`;
      },
    });
  const worker = new HarnessAgent({
    name: "worker",
    model: scriptedModel([{ call: "begin" }, [{ call: "look" }, { call: "pay" }], "Worked."], {
      by: "prompt",
    }),
    tools: [make("begin", false), make("look", true), make("pay", false)],
    store,
    filesystem: false,
    subagents: false,
  });
  const spawn = (timeout_seconds: number) => ({
    call: "agent_spawn",
    input: { agent_id: "worker", task: "Work.", timeout_seconds },
  });
  const lead = new HarnessAgent({
    name: "lead",
    model: scriptedModel([[spawn(600), spawn(0)], "Good.", "I have heard."], { by: "prompt" }),
    store,
    filesystem: false,
    subagents: [{ name: "worker", description: "Works.", agent: worker }],
  });
  return { lead, ran, open: gate.resolve };
}

describe.each(["memory", "sqlite"])("a process that shuts down (%s)", (kind) => {
  it("stops its work at once, and another process resumes it", async () => {
    const store = kind === "memory" ? memoryStore() : sqliteStore(join(folder, "store.db"));
    const first = castOn({ ...store });
    const run = first.lead.run("Go.", { sessionId });
    const ended = expect(run.result()).rejects.toMatchObject({ code: "shutting_down" });
    await expect.poll(() => first.ran.length).toBe(6);
    const runner = taskRunner({ agents: [first.lead] });
    runner.start();
    await runner.shutDown();
    await ended;
    await runner.shutDown(); // a second call does nothing

    // Its lease is released and does not have to expire.
    expect(await store.expired(10)).toEqual([sessionId]);
    const refused = { code: "shutting_down", retryable: true };
    await expect(first.lead.call("And?", { sessionId })).rejects.toMatchObject(refused);
    await expect(first.lead.call("Hello?", { sessionId: "new" })).rejects.toMatchObject(refused);
    expect(await store.tasks({ sessionId: "new" })).toEqual([]);
    const [root] = await store.tasks({ sessionId });
    if (root === undefined) throw new Error("There is no root task.");
    const statuses = async () =>
      (await store.tasks({ rootTaskId: root.taskId })).map(({ status }) => status);
    expect(await statuses()).toEqual(["in_progress", "in_progress", "in_progress"]);

    const second = castOn({ ...store });
    second.open();
    const next = taskRunner({ agents: [second.lead] });
    expect(await next.sweep()).toEqual([sessionId]);
    await expect.poll(async () => (await statuses()).every(isTerminal)).toBe(true);
    expect(await statuses()).toEqual(["completed", "completed", "completed"]);
    // Recorded results stayed; only idempotent calls were repeated.
    expect(second.ran.map((call) => call.split(" ")[0])).toEqual(["look", "look"]);
    for (const call of second.ran) expect(first.ran).toContain(call);
    await expectLawful(store, root.taskId);
    await next.shutDown();
    await store.close();
  });

  it("hands over between two steps when it has the time, so that nothing is repeated", async () => {
    const store = kind === "memory" ? memoryStore() : sqliteStore(join(folder, "handed.db"));
    const first = castOn({ ...store });
    const run = first.lead.run("Go.", { sessionId });
    await expect.poll(() => first.ran.length).toBe(6);
    const { taskId } = await run.task;
    const runner = taskRunner({ agents: [first.lead] });
    let isDown = false;
    const down = runner.shutDown({ graceMs: 600_000 }).then(() => {
      isDown = true;
    });
    for (let turn = 0; turn < 50; turn += 1) await new Promise((done) => setImmediate(done));
    expect(isDown).toBe(false); // tools run
    const rejected = expect(run.result()).rejects.toMatchObject({ code: "shutting_down" });
    first.open();
    await Promise.all([down, rejected]);
    expect(await store.owner(sessionId)).toBeUndefined();

    const second = castOn({ ...store });
    const next = taskRunner({ agents: [second.lead] });
    expect(await next.sweep()).toEqual([sessionId]);
    const statuses = async () =>
      (await store.tasks({ rootTaskId: taskId })).map(({ status }) => status);
    await expect.poll(async () => (await statuses()).every(isTerminal)).toBe(true);
    expect(await statuses()).toEqual(["completed", "completed", "completed"]);
    expect(second.ran).toEqual([]);
    await expectLawful(store, taskId);
    await next.shutDown();
    await store.close();
  });

  it("stops what takes longer than its time", async () => {
    const store = kind === "memory" ? memoryStore() : sqliteStore(join(folder, "late.db"));
    const first = castOn({ ...store });
    const run = first.lead.run("Go.", { sessionId });
    const rejected = expect(run.result()).rejects.toMatchObject({ code: "shutting_down" });
    await expect.poll(() => first.ran.length).toBe(6);
    await taskRunner({ agents: [first.lead] }).shutDown({ graceMs: 20 });
    await rejected;
    expect(await store.owner(sessionId)).toBeUndefined();
    await store.close();
  });
});

it("a process whose lease has ended does not run the next tool", async () => {
  const clock = new ManualClock(1_000_000_000);
  const store = memoryStore({ clock });
  const ran: string[] = [];
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const act = tool({
    name: "act",
    description: "Acts.",
    idempotent: true,
    execute: (_, { callId }) => void ran.push(callId),
  });
  const agent = new ReActAgent({
    ...{ name: "lead", store: { ...store }, tools: [act] },
    model: scriptedModel([{ call: "act" }, "Done."]),
    hooks: [
      {
        name: "slow",
        async preActing() {
          asked.resolve();
          await answer.promise;
        },
      },
    ],
  });
  const run = agent.run("Go.", { sessionId });
  await asked.promise;
  // The process is stopped: it renews nothing, while another one takes the conversation.
  const taking = clock.advance(10_001).then(() => store.acquire(sessionId, "another", 600_000));
  const taken = await taking;
  if (taken === undefined) throw new Error("The lease has not ended.");
  const { now } = performance;
  vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 10_001);
  answer.resolve();
  const owner = processOf(agent[settingsKey].store);
  await expect.poll(() => owner.owned(sessionId)).toBeUndefined();
  vi.restoreAllMocks();
  expect(ran).toEqual([]);
  await store.release(taken);
  expect((await run.result()).text).toBe("Done.");
  expect(ran).toHaveLength(1);
});
