import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type AgentEvent,
  agentTool,
  memoryStore,
  ReActAgent,
  type Run,
  type Store,
  sqliteStore,
  type Tool,
  tool,
} from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import { materialize } from "../../src/protocol/materialize.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { trimLog } from "../../src/store/trim-log.ts";
import { ManualClock, type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { logTranscriptProblems } from "../support/log-matches-transcript.ts";
import { collect } from "./support/collect.ts";
import { countedModel } from "./support/counted-model.ts";

const maxLogBytes = 64 * 1024;
const chunks = 3_000; // many times what may be kept
const speech: ScriptedTurn = {
  text: Array.from({ length: chunks }, (_, index) => `word ${index} `),
};
/** What a writer may have under way when the log is full. */
const underWay = 1_024;

/** Ids that are the same in every run. */
function plainIds() {
  let count = 0;
  return { next: (prefix: string) => `${prefix}_${count++}`, uuid: () => `uuid-${count++}` };
}

/** An agent that talks much, and how much of it was asked for. */
function talker(options: { store?: Store; tools?: readonly Tool[]; before?: ScriptedTurn[] } = {}) {
  const { store = memoryStore({ maxLogBytes }), tools = [], before = [] } = options;
  const { model, count } = countedModel(scriptedModel([...before, speech]));
  const clock = new ManualClock();
  const ids = plainIds();
  const agent = new ReActAgent({ name: "lead", model, store, tools, ids, clock });
  return { agent, store, count, ids };
}

/** An agent that starts a talker in the background and is done. */
function starter() {
  const child = talker();
  const start = tool({
    name: "start",
    description: "Starts it.",
    async execute(_, { runChild }) {
      await runChild(child.agent, "Go.", { agentId: "lead", mode: "background" });
      return "started";
    },
  });
  const model = scriptedModel([{ call: "start" }, "Done."]);
  const { store, count } = child;
  return { root: new ReActAgent({ name: "root", model, tools: [start], store }), store, count };
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** Resolves when a number has not changed for a long while, as the event loop counts. */
async function still(value: () => number): Promise<number> {
  for (let last = -1, quiet = 0; ; await tick()) {
    quiet = value() === last ? quiet + 1 : 0;
    last = value();
    if (quiet === 200) return last;
  }
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await tick();
}

/** Reads some events of a run and stops. */
async function readSome(run: Run, wanted: number) {
  const reader = run[Symbol.asyncIterator]();
  const events: TaskEvent[] = [];
  while (events.length < wanted) events.push((await reader.next()).value as TaskEvent);
  return {
    events,
    leave: () => reader.return?.(),
    readOn: async () => {
      events.push(...(await collect({ [Symbol.asyncIterator]: () => reader })));
      return events;
    },
  };
}

function expectAll(events: readonly TaskEvent[], last: number): void {
  const numbers = events.map((event) => (event as { sequence_number: number }).sequence_number);
  expect(numbers).toEqual(Array.from({ length: last + 1 }, (_, index) => index));
}

function foldOf(events: readonly TaskEvent[]) {
  const { tree } = new TaskTree().apply(events);
  const { gaps, unknown, ignored, tasks } = tree;
  return { gaps, unknown, ignored, tasks, document: materialize(tree) };
}

async function expectTrimmed(store: Store, rootTaskId: string): Promise<void> {
  expect((await store.snapshot(rootTaskId))?.through).toBeGreaterThan(0);
  await expect(store.read(rootTaskId, -1, 1)).rejects.toMatchObject({ code: "cursor_expired" });
}

describe("a full in-memory log", () => {
  it("drops events that a fast reader has read, without loss", async () => {
    const { agent, store } = talker();
    const run = agent.run("Go.");
    const { rootTaskId } = await run.task;
    const events: TaskEvent[] = [];
    let most = 0;
    for await (const event of run) {
      events.push(event);
      most = Math.max(most, store.memory?.logBytes(rootTaskId) ?? 0);
    }
    expectAll(events, await store.last(rootTaskId));
    expect(events.length).toBeGreaterThan(chunks);
    expect(checkStream(events)).toEqual([]);
    await expectTrimmed(store, rootTaskId);
    expect(most).toBeGreaterThan(maxLogBytes / 2);
    expect(most).toBeLessThan(maxLogBytes + underWay * 200);
  });

  it("pauses the model while a reader is stopped", async () => {
    const { agent, store, count } = talker();
    const run = agent.run("Go.");
    const { rootTaskId } = await run.task;
    const fast = collect(run.events());
    const slow = await readSome(run, 10);
    const given = await still(() => count.given);
    expect(given).toBeGreaterThan(200);
    expect(given).toBeLessThan(maxLogBytes / 150 + underWay);
    const last = await store.last(rootTaskId);
    const [first] = await store.read(rootTaskId, 9, 1); // what it has not read is there
    expect(first).toMatchObject({ sequence_number: 10 });
    const events = await slow.readOn();
    expect((await run.result()).generateReason).toBe("model_stop");
    expect(count.given).toBeGreaterThan(chunks);
    expect(events.length).toBeGreaterThan(last + chunks / 2);
    expectAll(events, await store.last(rootTaskId));
    expect(await fast).toEqual(events);
  });

  it("continues when the stopped reader leaves", async () => {
    const { agent, store, count } = talker();
    const run = agent.run("Go.");
    const slow = await readSome(run, 10);
    expect(await still(() => count.given)).toBeLessThan(chunks / 2);
    await slow.leave();
    expect((await run.result()).text).toContain(`word ${chunks - 1}`);
    await expectTrimmed(store, (await run.task).rootTaskId);
  });

  it("continues when the stopped reader fails", async () => {
    const inner = memoryStore({ maxLogBytes });
    let isBroken = false;
    const read: Store["read"] = (...args) =>
      isBroken && args[1] >= 0 ? Promise.reject(new Error("broken")) : inner.read(...args);
    const { agent, count } = talker({ store: { ...inner, read } });
    const run = agent.run("Go.");
    const slow = await readSome(run, 10);
    await still(() => count.given);
    isBroken = true;
    await expect(slow.readOn()).rejects.toThrow("broken");
    isBroken = false;
    expect((await run.result()).text).toContain(`word ${chunks - 1}`);
  });

  it("does not delay a cancel", async () => {
    const { agent, store, count } = talker();
    const run = agent.run("Go.");
    const { rootTaskId } = await run.task;
    const slow = await readSome(run, 10);
    const given = await still(() => count.given);
    const start = performance.now();
    await run.cancel("enough");
    expect(performance.now() - start).toBeLessThan(500);
    const { generateReason, text } = await run.result();
    expect(generateReason).toBe("interrupted");
    expect(text).toContain("word 100 ");
    expect(count.given).toBeLessThanOrEqual(given + 1);
    const events = await slow.readOn();
    expectAll(events, await store.last(rootTaskId));
    expect(checkStream(events)).toEqual([]);
    expect(await logTranscriptProblems(store, rootTaskId)).toEqual([]);
  });

  it("does not pause a run without readers", async () => {
    const { agent, store } = talker();
    const run = agent.run("Go.");
    expect((await run.result()).text).toContain(`word ${chunks - 1}`);
    const { rootTaskId } = await run.task;
    await expectTrimmed(store, rootTaskId);
    expect(store.memory?.logBytes(rootTaskId)).toBeLessThan(maxLogBytes + underWay * 200);
    expect(await logTranscriptProblems(store, rootTaskId)).toEqual([]);
  });

  it("counts events of children at any depth", async () => {
    const leaf = talker();
    const parent = (name: string, child: ReActAgent) => {
      const turns = [{ call: child.name, input: { prompt: "Go." } }, "Done."];
      const { store } = leaf;
      return new ReActAgent({
        name,
        model: scriptedModel(turns),
        tools: [agentTool(child)],
        store,
      });
    };
    const root = parent("root", parent("middle", leaf.agent));
    const run = root.run("Go.");
    const slow = await readSome(run, 10);
    expect(await still(() => leaf.count.given)).toBeLessThan(chunks / 2);
    const events = await slow.readOn();
    expectAll(events, await leaf.store.last((await run.task).rootTaskId));
    expect(checkStream(events)).toEqual([]);
    expect((await run.result()).text).toBe("Done.");
  });

  it("counts events of background children", async () => {
    const { root, store, count } = starter();
    const run = root.run("Go.", { until: "tree" });
    const slow = await readSome(run, 10);
    expect(await still(() => count.given)).toBeLessThan(chunks / 2);
    expect((await run.result()).text).toBe("Done."); // the end of a task waits for no reader
    const events = await slow.readOn();
    expectAll(events, await store.last((await run.task).rootTaskId));
    expect(count.given).toBeGreaterThan(chunks);
    expect(checkStream(events)).toEqual([]);
  });

  it("does not wait for a reader that has finished", async () => {
    const { root, count } = starter();
    const run = root.run("Go.");
    const reader = run[Symbol.asyncIterator]();
    for (let isOver = false; !isOver; ) {
      const { value } = await reader.next();
      isOver = value?.type === "task.completed"; // and it does not say that it leaves
    }
    await run.settled();
    expect(count.given).toBeGreaterThan(chunks);
  });

  it("does not apply to a durable store", async () => {
    const folder = createFolder();
    const store = sqliteStore(join(folder, "store.db"));
    const { agent } = talker({ store });
    const run = agent.run("Go.");
    const slow = await readSome(run, 10);
    await run.result();
    const { rootTaskId } = await run.task;
    expect(await store.snapshot(rootTaskId)).toBeUndefined();
    expectAll(await slow.readOn(), await store.last(rootTaskId));
    await store.close();
    removeFolder(folder);
  });
});

describe("a reader after the log was trimmed", () => {
  const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
  const before: ScriptedTurn[] = [
    [{ thinking: "Hm." }, "I look. ", { call: "look", id: "call_1" }],
  ];

  /** One agent that looks and then talks. */
  function alone(maxBytes = maxLogBytes) {
    return talker({ store: memoryStore({ maxLogBytes: maxBytes }), tools: [look], before });
  }

  /** The same at the end of a chain of children, whose parents have something to say as well. */
  function team(maxBytes = maxLogBytes) {
    const { agent: leaf, store, count, ids } = alone(maxBytes);
    const parent = (name: string, child: ReActAgent, callId: string) => {
      const call = { call: child.name, input: { prompt: "Go." }, id: callId };
      const model = scriptedModel([["I ask. ", call], speech]);
      const tools = [agentTool(child)];
      return new ReActAgent({ name, model, tools, store, ids, clock: new ManualClock() });
    };
    const agent = parent("root", parent("middle", leaf, "call_2"), "call_3");
    return { agent, store, count };
  }

  const sessionId = "s";

  async function whole(cast: typeof team) {
    const { agent, store } = cast(Number.POSITIVE_INFINITY);
    const run = agent.run("Go.", { sessionId });
    const events = await collect(run);
    expect(await store.snapshot((await run.task).rootTaskId)).toBeUndefined();
    return foldOf(events);
  }

  it.for([alone, team])("folds to the same tree when the run is over: %o", async (cast) => {
    const expected = await whole(cast);
    const { agent, store } = cast();
    const run = agent.run("Go.", { sessionId });
    await run.result();
    await expectTrimmed(store, (await run.task).rootTaskId);
    for (const events of [run, run.events({ after: -1 }), run.events({ after: 5 })]) {
      const frames = await collect(events);
      const snapshots = frames.filter(({ type }) => type === "task.snapshot");
      expect(snapshots).toHaveLength(Object.keys(expected.tasks).length);
      expect(frames.slice(0, snapshots.length)).toEqual(snapshots);
      expect(checkStream(frames)).toEqual([]);
      expect(foldOf(frames)).toEqual(expected);
    }
  });

  it.for([alone, team])("folds to the same tree in the middle of a run: %o", async (cast) => {
    const expected = await whole(cast);
    const { agent, count } = cast();
    const run = agent.run("Go.", { sessionId });
    await until(() => count.given > chunks / 2);
    const frames = await collect(run);
    expect(frames[0]).toMatchObject({ type: "task.snapshot", task: { status: "in_progress" } });
    expect(frames.length).toBeGreaterThan(chunks / 4);
    expect(frames.at(-1)?.type).toBe("task.completed");
    expect(foldOf(frames)).toEqual(expected);
  });

  it("starts with the remaining events during a trim", async () => {
    const inner = memoryStore({ maxLogBytes: 512 * 1024 });
    const trims: PromiseWithResolvers<void>[] = [];
    const trim: Store["trim"] = async (...args) => {
      if (trims.push(Promise.withResolvers()) === 1) await trims[0]?.promise;
      await inner.trim(...args);
    };
    const { agent } = talker({ store: { ...inner, trim }, before: [[speech, { call: "look" }]] });
    const run = agent.run("Go.");
    await until(() => trims.length > 0);
    const reader = run[Symbol.asyncIterator]();
    const first = reader.next();
    for (let turn = 0; turn < 20; turn++) await tick();
    trims[0]?.resolve();
    const { value } = await first;
    expect(value?.type).toBe("task.snapshot");
    const rest = await collect({ [Symbol.asyncIterator]: () => reader });
    expect(checkStream([value as TaskEvent, ...rest])).toEqual([]);
    expect(rest.filter(({ type }) => type === "task.snapshot")).toEqual([]);
  });

  it("sees the root's end after it was trimmed", async () => {
    const { agent, store } = talker({ store: memoryStore({ maxLogBytes: 1 }) });
    const run = agent.run("Go.");
    await run.result();
    const { rootTaskId } = await run.task;
    await until(() => store.memory?.logBytes(rootTaskId) === 0);
    const frames = await collect(run);
    expect(frames).toMatchObject([{ type: "task.snapshot", task: { status: "completed" } }]);
  });

  it("sees nothing of other tasks after the root's end", async () => {
    const { root, store } = starter();
    const run = root.run("Go.");
    await run.settled();
    await expectTrimmed(store, (await run.task).rootTaskId);
    const frames = await collect(run);
    expect(frames).toMatchObject([
      { type: "task.snapshot", task: { status: "completed" } },
      { type: "task.snapshot", source: { depth: 1 } },
    ]);
    const all = await collect(run.events({ until: "tree" }));
    expect(all.at(-1)).toMatchObject({ type: "task.completed", source: { depth: 1 } });
  });

  /** The whole messages of a stream, and what the chunks of each come to. */
  async function said(events: AsyncIterable<AgentEvent>) {
    const all = await collect(events);
    const pieces = all.filter(({ type, last }) => type === "reasoning" && !last);
    const byMessage = Map.groupBy(pieces, ({ message }) => message.id);
    const joined = [...byMessage].map(([id, of]) => [id, of.map(({ text }) => text).join("")]);
    return { whole: all.filter(({ last }) => last), joined };
  }

  it.for([alone, team])("gets every complete message from stream(): %o", async (cast) => {
    const all = cast(Number.POSITIVE_INFINITY);
    const expected = await said(all.agent.stream("Go.", { sessionId }));
    expect(expected.whole.length).toBeGreaterThan(3);
    const middle = cast();
    const late = middle.agent.stream("Go.", { sessionId });
    await until(() => middle.count.given > chunks / 2);
    expect(await said(late)).toEqual(expected);
    const over = cast();
    const last = over.agent.stream("Go.", { sessionId });
    const query = { sessionId, status: ["completed"] } as const;
    while ((await over.store.tasks(query)).length === 0) await tick();
    expect(await said(last)).toEqual(expected);
  });

  const ask = tool({
    name: "ask",
    description: "Asks first.",
    needsApproval: true,
    execute: () => "as asked",
  });

  it("gets the result of an earlier call from stream()", async () => {
    const model = scriptedModel([[speech, { call: "ask" }], "Done."]);
    const store = memoryStore({ maxLogBytes });
    const agent = new ReActAgent({ name: "lead", model, store, tools: [ask] });
    const { approvals, task } = await agent.call("Go.", { sessionId });
    await trimLog(store, task.rootTaskId, await store.last(task.rootTaskId));
    const late = await collect(agent.run(undefined, { sessionId }).events({ after: -1 }));
    expect(late).toMatchObject([{ type: "task.snapshot", task: { status: "suspended" } }]);
    const answers = approvals.map((approval) => approval.approve());
    const events = await collect(agent.stream(answers, { sessionId, chunks: false }));
    expect(events.map(({ type, text }) => [type, text])).toEqual([
      ["tool_result", "as asked"],
      ["reasoning", "Done."],
      ["agent_result", "Done."],
    ]);
    expect(events[0]?.message.content).toMatchObject([{ type: "tool_result", name: "ask" }]);
    expect(await logTranscriptProblems(store, task.rootTaskId)).toEqual([]);
  });

  it("gets each message once from stream() of a resumed task", async () => {
    const { agent, count } = talker({ tools: [ask], before: [[{ call: "ask" }]] });
    const { approvals } = await agent.call("Go.", { sessionId });
    const answers = approvals.map((approval) => approval.approve());
    const late = agent.stream(answers, { sessionId, chunks: false, types: ["reasoning"] });
    await until(() => count.given > chunks / 2);
    const texts = (await collect(late)).map(({ text }) => text);
    expect(texts).toEqual(["", Array.from({ length: chunks }, (_, i) => `word ${i} `).join("")]);
  });
});
