import { describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, type Store } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";

const chunks = 100_000;

/** An agent whose model says a great deal, as fast as it can; and counts of what was written and read at once. */
function talker() {
  const inner = memoryStore();
  const commits: number[] = [];
  const reads: number[] = [];
  const store: Store = {
    ...inner,
    async commit(commit) {
      commits.push(commit.events?.length ?? 0);
      return inner.commit(commit);
    },
    async read(log, after, limit) {
      const events = await inner.read(log, after, limit);
      reads.push(events.length);
      return events;
    },
  };
  const model = scriptedModel([{ text: Array<string>(chunks).fill("word ") }]);
  return { agent: new ReActAgent({ name: "lead", model, store }), store, commits, reads };
}

describe("a model without delays", () => {
  it("is written while it streams, so that readers see it early", async () => {
    const { agent, store, commits } = talker();
    const run = agent.run("Go.");
    const { rootTaskId } = await run.task;
    const seenAt: number[] = []; // how far the log was when each ten thousandth event was read
    let count = 0;
    for await (const _ of run) {
      if (++count % 10_000 === 0) seenAt.push(await store.last(rootTaskId));
    }
    const total = await store.last(rootTaskId);
    expect(count).toBe(total + 1);
    expect(total).toBeGreaterThan(chunks);
    expect(seenAt[0]).toBeLessThan(total / 4);
    expect(commits.length).toBeGreaterThan(100);
    expect(Math.max(...commits)).toBeLessThan(2_000);
  });

  it("yields to the event loop, so that it can be cancelled", async () => {
    const { agent } = talker();
    const run = agent.run("Go.");
    let turns = 0;
    let isOver = false;
    const turn = () => {
      if (++turns === 20) void run.cancel();
      if (!isOver) setImmediate(turn);
    };
    for await (const event of run) {
      if (event.type === "task.text.delta" && turns === 0) turn();
    }
    isOver = true;
    const { text, generateReason } = await run.result();
    expect(generateReason).toBe("interrupted");
    expect(text.length).toBeGreaterThan(0);
    expect(text.length).toBeLessThan((5 * chunks) / 2);
  });
});

describe("a reader", () => {
  it("that never reads delays nothing and finds everything later", async () => {
    const { agent } = talker();
    const run = agent.run("Go.");
    const idle = run[Symbol.asyncIterator]();
    const first = await idle.next();
    const { text } = await run.result();
    expect(text).toHaveLength(5 * chunks);
    const rest = await collect({ [Symbol.asyncIterator]: () => idle });
    const numbers = [first.value, ...rest].map((event) => event.sequence_number);
    expect(numbers).toEqual(numbers.map((_, index) => index));
    expect(rest.at(-1)?.type).toBe("task.completed");
  });

  it("that pauses holds one batch in memory and continues from there", async () => {
    const { agent, reads } = talker();
    const run = agent.run("Go.");
    const reader = run[Symbol.asyncIterator]();
    const numbers: number[] = [];
    const readTo = async (end: number) => {
      while (numbers.length < end) {
        const { value, done } = await reader.next();
        if (done) return;
        numbers.push((value as { sequence_number: number }).sequence_number);
      }
    };
    const held = () => reads.reduce((sum, count) => sum + count, 0) - numbers.length;
    await readTo(chunks / 2);
    expect(held()).toBeLessThanOrEqual(1_000);
    await run.result();
    expect(held()).toBeLessThanOrEqual(1_000);
    await readTo(Number.POSITIVE_INFINITY);
    expect(numbers).toEqual(numbers.map((_, index) => index));
    expect(numbers.length).toBeGreaterThan(chunks);
    expect(Math.max(...reads)).toBeLessThanOrEqual(1_000);
  });

  it("does not cancel the run by leaving", async () => {
    const { agent } = talker();
    const run = agent.run("Go.");
    for await (const event of run) if (event.type === "task.text.delta") break;
    for await (const event of run) if (event.type === "task.text.delta") break;
    expect((await run.result()).generateReason).toBe("model_stop");
  });

  it("has its own position among many", async () => {
    const { agent, store } = talker();
    const run = agent.run("Go.");
    const readers = Array.from({ length: 5 }, (_, index) =>
      collect(run.events({ after: index * 1_000 })),
    );
    const { rootTaskId } = await run.task;
    const lengths = (await Promise.all(readers)).map((events) => events.length);
    const total = (await store.last(rootTaskId)) + 1;
    expect(lengths).toEqual([0, 1, 2, 3, 4].map((index) => total - index * 1_000 - 1));
  });
});
