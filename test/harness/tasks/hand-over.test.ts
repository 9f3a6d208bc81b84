import { expect, it } from "vitest";
import { processOf } from "../../../src/agent/drive/process.ts";
import { settingsKey } from "../../../src/agent/loop/settings.ts";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import {
  agentTool,
  memoryStore,
  ReActAgent,
  type Store,
  type Tool,
  tool,
} from "../../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../../src/testing.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";

const sessionId = "session";
const graceMs = 600_000;

/** Lets everything move that waits for no clock and no gate. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((done) => setImmediate(done));
}

/** A process with an agent whose calls of `pay` wait for a gate; a second one shares the store. */
function castOn(
  store: Store,
  script: Script,
  options: {
    readonly clock?: ManualClock;
    readonly parallel?: boolean;
    readonly tools?: readonly Tool[];
  } = {},
) {
  const paid: string[] = [];
  const gate = Promise.withResolvers<void>();
  const pay = tool({
    name: "pay",
    description: "Pays.",
    async execute(_, { callId }) {
      paid.push(callId);
      await gate.promise;
      return "paid";
    },
  });
  const { clock, parallel = true, tools = [] } = options;
  const model = scriptedModel(script, { by: "prompt", ...(clock && { clock }) });
  const agent = new ReActAgent({ name: "lead", model, tools: [...tools, pay], store, parallel });
  return { agent, model, paid, open: gate.resolve, runner: taskRunner({ agents: [agent] }) };
}

/** Expects that the second process has finished a task of which nothing was taken back or repeated. */
async function expectExact(store: Store, taskId: string, calls: readonly string[]): Promise<void> {
  await expect.poll(async () => (await store.task(taskId))?.status).toBe("completed");
  const events = await readLog(store, taskId);
  const items = events.flatMap((event) =>
    event.type === "task.output_item.done" ? [event.item] : [],
  );
  expect(items.map(({ status }) => status)).toEqual(items.map(() => "completed"));
  expect(calls).toEqual([...new Set(calls)]);
  await expectLawful(store, taskId);
}

it("a drain lets a model that streams end, and leaves its call to the next process", async () => {
  const store = memoryStore();
  const clock = new ManualClock(0);
  const script: Script = [["I pay. ", { delayMs: 1_000 }, { call: "pay" }], "Paid."];
  const first = castOn({ ...store }, script, { clock });
  const run = first.agent.run("Go.", { sessionId });
  const ended = expect(run.result()).rejects.toMatchObject({ code: "shutting_down" });
  const { taskId } = await run.task;
  for await (const event of run) if (event.type === "task.text.delta") break;
  const down = first.runner.shutDown({ graceMs });
  await settle();
  await clock.advance(1_000);
  await Promise.all([down, ended]);
  expect(first.paid).toEqual([]);

  const second = castOn({ ...store }, script);
  second.open();
  expect(await second.runner.sweep()).toEqual([sessionId]);
  await expectExact(store, taskId, second.paid);
  expect(second.paid).toHaveLength(1);
  expect(first.model.calls.length + second.model.calls.length).toBe(2);
  await second.runner.shutDown();
});

it("a drain between two calls of a turn leaves the second to the next process", async () => {
  const store = memoryStore();
  const script: Script = [[{ call: "pay" }, { call: "pay" }], "Paid."];
  const first = castOn({ ...store }, script, { parallel: false });
  const run = first.agent.run("Go.", { sessionId });
  const ended = expect(run.result()).rejects.toMatchObject({ code: "shutting_down" });
  const { taskId } = await run.task;
  await expect.poll(() => first.paid.length).toBe(1);
  const down = first.runner.shutDown({ graceMs });
  await settle();
  first.open();
  await Promise.all([down, ended]);
  expect(first.paid).toHaveLength(1);

  const second = castOn({ ...store }, script, { parallel: false });
  second.open();
  expect(await second.runner.sweep()).toEqual([sessionId]);
  await expectExact(store, taskId, [...first.paid, ...second.paid]);
  expect(second.paid).toHaveLength(1);
  await second.runner.shutDown();
});

it.each([
  ["its tasks are read", "tasks"],
  ["its inbox is read", "posts"],
] as const)(
  "a drain that begins while a claimed conversation opens runs nothing of it: %s",
  async (_, slow) => {
    const { memory: _memory, ...store } = memoryStore(); // processes that share a store claim
    const script: Script = [{ call: "pay" }, "Paid."];
    const web = castOn({ ...store }, script);
    processOf(web.agent[settingsKey].store).runNothing();
    const { taskId } = await web.agent.run("Go.", { sessionId }).task;
    const isRead = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const read = store[slow] as (...args: unknown[]) => Promise<never>;
    const own: Store = {
      ...store,
      [slow]: async (...args: unknown[]) => {
        if (await store.owner(sessionId)) {
          isRead.resolve();
          await gate.promise;
        }
        return read(...args);
      },
    };
    const first = castOn(own, script);
    await first.runner.sweep();
    await isRead.promise;
    const down = first.runner.shutDown({ graceMs });
    await settle();
    gate.resolve();
    await down;
    expect(await store.owner(sessionId)).toBeUndefined();
    expect(first.model.calls).toHaveLength(0);

    const second = castOn({ ...store }, script);
    second.open();
    expect(await second.runner.sweep()).toEqual([sessionId]);
    await expectExact(store, taskId, second.paid);
    expect(second.paid).toHaveLength(1);
    await second.runner.shutDown();
  },
);

/** A process whose agent calls a helper and `pay` at once; the call of the helper waits for a gate of its own. */
function teamOn(store: Store) {
  const own = { ...store };
  const rested: string[] = [];
  const gate = Promise.withResolvers<void>();
  const rest = tool({
    name: "rest",
    description: "Rests.",
    async execute(_, { callId }) {
      rested.push(callId);
      await gate.promise;
    },
  });
  const helper = new ReActAgent({
    ...{ name: "helper", description: "Helps.", tools: [rest], store: own },
    model: scriptedModel([{ call: "rest" }, "Rested."], { by: "prompt" }),
  });
  const script: Script = [[{ call: "helper", input: { prompt: "Go." } }, { call: "pay" }], "Paid."];
  return { ...castOn(own, script, { tools: [agentTool(helper)] }), rested, wake: gate.resolve };
}

/** Runs the team until its helper stands still in a drain, while `pay` runs. */
async function drainTeam(store: Store) {
  const team = teamOn(store);
  const run = team.agent.run("Go.", { sessionId });
  const { taskId } = await run.task;
  await expect.poll(() => [team.paid.length, team.rested.length]).toEqual([1, 1]);
  let isDown = false;
  const down = team.runner.shutDown({ graceMs }).then(() => {
    isDown = true;
  });
  await settle();
  team.wake();
  await settle();
  expect(isDown).toBe(false);
  return { ...team, run, taskId, down };
}

it("a drain waits for a call beside one whose child stands still", async () => {
  const store = memoryStore();
  const first = await drainTeam(store);
  const ended = expect(first.run.result()).rejects.toMatchObject({ code: "shutting_down" });
  first.open();
  await Promise.all([first.down, ended]);

  const second = teamOn(store);
  expect(await second.runner.sweep()).toEqual([sessionId]);
  await expectExact(store, first.taskId, [...first.paid, ...first.rested]);
  expect([...second.paid, ...second.rested]).toEqual([]);
  await second.runner.shutDown();
});

it("a drain ends a cancelled task, also where it stands still", async () => {
  const store = memoryStore();
  const { run, taskId, open, down } = await drainTeam(store);
  const cancelled = run.cancel("enough");
  open();
  await Promise.all([cancelled, down]);
  const tasks = await store.tasks({ rootTaskId: taskId });
  expect(tasks.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
  await expectLawful(store, taskId);
});
