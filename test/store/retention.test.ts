import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  agentTool,
  memoryStore,
  ReActAgent,
  type Retention,
  type Store,
  sqliteStore,
  tool,
} from "../../src/index.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { readFrames } from "../../src/store/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { ManualClock, scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "./support/folder.ts";
import { nodeCommand } from "./support/run-writer.ts";

const folder = createFolder();
afterAll(() => removeFolder(folder));
let files = 0;
const newFile = () => join(folder, `${files++}.db`);

interface Options {
  readonly clock?: ManualClock;
  readonly retention?: Retention;
}
const stores: readonly [string, (options: Options) => Store][] = [
  ["memory", (options) => memoryStore(options)],
  ["sqlite", (options) => sqliteStore(newFile(), options)],
];

const words = Array.from({ length: 50 }, (_, index) => `word ${index} `);

function talker(store: Store, turns = 10) {
  const model = scriptedModel(Array.from({ length: turns }, () => ({ text: words })));
  return new ReActAgent({ name: "talker", model, store });
}

/** Starts a run, reads all its events and returns the id of its log with them. */
async function finished(agent: ReActAgent) {
  const events: TaskEvent[] = [];
  const run = agent.run("Talk.");
  for await (const event of run) events.push(event);
  const { rootTaskId: log, sessionId } = await run.task;
  return { log, sessionId, events, reply: await run.result(), run };
}

/** Waits until something is the case; the test's own timeout ends it. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}

const isTrimmed = async (store: Store, log: string) => {
  const last = await store.last(log);
  return (await store.snapshot(log))?.through === last;
};

/** The tasks folded from what a reader from the beginning gets. */
async function tasksOf(store: Store, log: string) {
  const tree = new TaskTree();
  for (let after = -1; ; ) {
    const { frames, through } = await readFrames(store, log, after, 1_000);
    if (through === after) return tree.tree.tasks;
    tree.apply(frames);
    after = through;
  }
}

describe.each(stores)("retention of the %s store", (_, create) => {
  it("keeps the events of a log until it is too old", async () => {
    const clock = new ManualClock(1_000_000);
    const store = create({ clock, retention: { logs: { maxAgeMs: 60_000 } } });
    const agent = talker(store);
    const first = await finished(agent);
    await clock.advance(59_999);
    const second = await finished(agent);
    expect(await store.read(first.log, -1, 1_000)).toHaveLength(first.events.length);
    await clock.advance(1);
    const third = await finished(agent);
    await until(() => isTrimmed(store, first.log));
    for (const { log, events } of [second, third]) {
      expect(await store.read(log, -1, 1_000)).toHaveLength(events.length);
    }
    await store.close();
  });

  it("trims to snapshots that fold to the same tree, and keeps the rest", async () => {
    const store = create({ retention: { logs: { maxAgeMs: 0 } } });
    const { log, sessionId, events, reply, run } = await finished(talker(store));
    await until(() => isTrimmed(store, log));
    await expect(store.read(log, -1, 10)).rejects.toMatchObject({
      code: "cursor_expired",
      hint: expect.stringContaining("`retention`"),
    });
    expect(await tasksOf(store, log)).toEqual(new TaskTree().apply(events).tree.tasks);
    const late: TaskEvent[] = [];
    for await (const event of run.events()) late.push(event);
    expect(late).toMatchObject([{ type: "task.snapshot", task_id: log, final: true }]);
    expect(await store.session(sessionId)).toHaveLength(2);
    expect((await store.task(log))?.result?.content).toEqual(reply.content);
    expect((await store.search({ text: "word", limit: 10 })).length).toBeGreaterThan(0);
    expect(await store.deleteSession(sessionId)).toBe(true);
    expect(await store.snapshot(log)).toBeUndefined();
    await store.close();
  });

  it("trims the oldest logs beyond the size, but not the last", async () => {
    const store = create({ retention: { logs: { maxBytes: 0 } } });
    const agent = talker(store);
    const [first, second, last] = [
      await finished(agent),
      await finished(agent),
      await finished(agent),
    ];
    await until(async () => (await isTrimmed(store, first.log)) && isTrimmed(store, second.log));
    expect(await store.read(last.log, -1, 1_000)).toHaveLength(last.events.length);
    await store.close();
  });

  it("gives every event to a reader that is attached when the run ends", async () => {
    const store = create({ retention: { logs: { maxAgeMs: 0 } } });
    const agent = talker(store);
    const run = agent.run("Talk.");
    const reader = run[Symbol.asyncIterator]();
    const first = await reader.next();
    await run.result();
    const { log } = await finished(agent);
    await until(() => isTrimmed(store, log));
    const rootTaskId = (await run.task).rootTaskId;
    const events = [first.value as TaskEvent];
    for (let next = await reader.next(); !next.done; next = await reader.next()) {
      events.push(next.value);
    }
    const numbers = events.map((event) => "sequence_number" in event && event.sequence_number);
    expect(numbers).toEqual(Array.from({ length: events.length }, (_, index) => index));
    expect(events.at(-1)?.type).toBe("task.completed");
    await until(() => isTrimmed(store, rootTaskId));
    await store.close();
  });

  it("keeps the log of a tree with a child at work", async () => {
    const store = create({ retention: { logs: { maxAgeMs: 0 } } });
    const gate = Promise.withResolvers<string>();
    const wait = tool({ name: "wait", description: "Waits.", execute: () => gate.promise });
    const child = new ReActAgent({
      name: "child",
      model: scriptedModel([{ call: "wait" }, "ok"]),
      tools: [wait],
      store,
    });
    const start = tool({
      name: "start",
      description: "Starts it.",
      async execute(_, { runChild }) {
        await runChild(child, "Go.", { agentId: "child", mode: "background" });
        return "started";
      },
    });
    const root = new ReActAgent({
      name: "root",
      model: scriptedModel([{ call: "start" }, "Done."]),
      tools: [start],
      store,
    });
    const run = root.run("Go.");
    await run.result();
    const { rootTaskId } = await run.task;
    const other = await finished(talker(store));
    await until(() => isTrimmed(store, other.log));
    expect(await store.snapshot(rootTaskId)).toBeUndefined();
    gate.resolve("done");
    await run.settled();
    await until(() => isTrimmed(store, rootTaskId));
    const tasks = Object.values(await tasksOf(store, rootTaskId));
    expect(tasks.map(({ status }) => status)).toEqual(["completed", "completed"]);
    await store.close();
  });

  it.each([
    [{ retention: { log: {} } }, "log"],
    [{ retention: { logs: { maxAge: 1 } } }, "maxAge"],
    [{ retention: { logs: { maxAgeMs: -1 } } }, "retention.logs.maxAgeMs"],
    [{ retention: { logs: { maxBytes: "1 GB" } } }, "retention.logs.maxBytes"],
    [{ retention: "forever" }, "retention"],
  ])("rejects %o", (options, place) => {
    const wrong = () => create(options as Options);
    expect(wrong).toThrow(expect.objectContaining({ code: "invalid_settings" }));
    expect(wrong).toThrow(place);
  });
});

it("bounds the logs that a memory store keeps by default", async () => {
  const store = memoryStore();
  const agent = talker(store, 300);
  const logs: string[] = [];
  for (let run = 0; run < 300; run++) logs.push((await finished(agent)).log);
  const bytesOf = (log: string) => store.memory?.logBytes(log) ?? 0;
  const bytes = () => logs.reduce((sum, log) => sum + bytesOf(log), 0);
  await until(async () => bytes() <= 2 * 1024 * 1024);
  const kept = logs.filter((log) => bytesOf(log) > 0);
  expect(kept.length).toBeGreaterThan(10);
  expect(logs.slice(-kept.length)).toEqual(kept);
});

it("releases the logs of a memory store that its program has dropped", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const use = async () => {
    const { events } = await finished(talker(memoryStore()));
    return new WeakRef(events[0] as TaskEvent);
  };
  const event = await use();
  await until(async () => {
    collectGarbage();
    return event.deref() === undefined;
  });
});

/** Snapshot (two writes), first deletion, commit; second deletion, end, commit. */
const writesOfLongLog = 7;
const worker = fileURLToPath(new URL("./support/trim-worker.ts", import.meta.url));

async function trimIn(path: string, killAt = 0) {
  const [file, ...args] = [...nodeCommand, worker, path, String(killAt)];
  const child = spawn(file as string, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    output += piece;
  });
  const [code, signal] = await once(child, "close");
  return { code, signal, writes: Number(output) };
}

function rowsOf(path: string, table: string): number {
  const database = new DatabaseSync(path);
  try {
    return Number(database.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows);
  } finally {
    database.close();
  }
}

describe("retention of processes that share a database", () => {
  const path = newFile();
  /** The trees by log, before anything is trimmed. */
  const trees = new Map<string, unknown>();

  beforeAll(async () => {
    const store = sqliteStore(path);
    // More than one transaction deletes.
    const long = new ReActAgent({
      name: "long",
      model: scriptedModel([
        ...Array.from({ length: 150 }, (_, n) => ({ call: "echo", input: { n } })),
        "Done.",
      ]),
      tools: [
        tool({
          name: "echo",
          description: "Echoes.",
          input: z.object({ n: z.number() }),
          execute: (input) => JSON.stringify(input),
        }),
      ],
      maxIters: 200,
      store,
    });
    const lead = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ call: "talker", input: { prompt: "Go." } }, "Done."]),
      tools: [agentTool(talker(store))],
      store,
    });
    for (const agent of [long, talker(store), lead]) {
      const { log } = await finished(agent);
      trees.set(log, await tasksOf(store, log));
    }
    await store.close();
    expect(rowsOf(path, "batches")).toBeGreaterThan(256);
    expect(rowsOf(path, "ended")).toBe(3);
  });

  function copy(): string {
    const target = newFile();
    copyFileSync(path, target);
    return target;
  }

  async function expectTrimmed(target: string): Promise<void> {
    expect([rowsOf(target, "batches"), rowsOf(target, "ended")]).toEqual([0, 0]);
    const store = sqliteStore(target);
    for (const [log, tree] of trees) expect(await tasksOf(store, log)).toEqual(tree);
    await store.close();
  }

  it("continues a trim after a kill at any of its writes", async () => {
    const { code, writes } = await trimIn(copy());
    expect(code).toBe(0);
    expect(writes).toBeGreaterThan(writesOfLongLog);
    for (let killAt = 1; killAt <= writesOfLongLog + 1; killAt += isDeep ? 1 : 2) {
      const target = copy();
      expect(await trimIn(target, killAt)).toMatchObject({ signal: "SIGKILL" });
      const store = sqliteStore(target);
      for (const [log, tree] of trees) expect(await tasksOf(store, log)).toEqual(tree);
      await store.close();
      expect(await trimIn(target)).toMatchObject({ code: 0 });
      await expectTrimmed(target);
    }
  }, 240_000);

  it("lets two processes trim at once", async () => {
    const target = copy();
    const ends = await Promise.all([trimIn(target), trimIn(target), trimIn(target)]);
    expect(ends.map(({ code }) => code)).toEqual([0, 0, 0]);
    await expectTrimmed(target);
  }, 60_000);
});
