import { expect, it } from "vitest";
import { memoryStore } from "../store/memory.ts";
import { acquire, delta, record } from "../testing/store-contract/samples.ts";
import { type Batch, Feeds } from "./feed.ts";

/** A store with a log of some events, and a count of its reads. */
async function world(length: number) {
  const store = memoryStore();
  const lease = await acquire(store, "sess_1");
  const append = (count: number) =>
    store.commit({ lease, log: "task_1", events: Array.from({ length: count }, () => delta("x")) });
  await store.commit({ lease, log: "task_1", tasks: [record()] });
  if (length > 0) await append(length);
  let reads = 0;
  const counted = {
    ...store,
    read: (...args: Parameters<typeof store.read>) => {
      reads += 1;
      return store.read(...args);
    },
  };
  return { feeds: new Feeds(counted), append, reads: () => reads };
}

/** Lets the feed read what was written. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

it("reads and encodes new events once for all live readers", async () => {
  const { feeds, append, reads } = await world(0);
  const feed = await feeds.use("task_1");
  const got: Batch[][] = Array.from({ length: 50 }, () => []);
  for (const batches of got) feed.join({ push: (batch) => batch && batches.push(batch) });
  await append(3);
  await settle();
  const [first = []] = got;
  expect(first.flatMap(({ events }) => events)).toHaveLength(3);
  expect(reads()).toBeLessThanOrEqual(2);
  for (const batches of got) expect(batches[0]?.bytes).toBe(first[0]?.bytes);
});

it("reads a page of old events once for readers that want it at the same time", async () => {
  const { feeds, reads } = await world(600);
  const feed = await feeds.use("task_1");
  const pages = await Promise.all(Array.from({ length: 20 }, () => feed.next(-1)));
  expect(new Set(pages).size).toBe(1);
  expect(reads()).toBe(1);
  const rest = await feed.next(pages[0]?.through ?? 0);
  expect([rest?.after, rest?.through, await feed.next(599)]).toEqual([511, 599, undefined]);
});

it("gives a reader that lags the rest of a recent batch", async () => {
  const { feeds, append } = await world(0);
  const feed = await feeds.use("task_1");
  feed.join({ push: () => {} });
  await append(4);
  await settle();
  const rest = await feed.next(1);
  expect([rest?.after, rest?.through]).toEqual([1, 3]);
  expect(rest?.bytes.toString().match(/^id: \d+/gm)).toEqual(["id: 2", "id: 3"]);
});

it("keeps one feed per log while a reader uses it", async () => {
  const { feeds } = await world(1);
  const [one, two] = await Promise.all([feeds.use("task_1"), feeds.use("task_1")]);
  expect(one).toBe(two);
  feeds.release(one);
  expect(await feeds.use("task_1")).toBe(one);
  feeds.release(one);
  feeds.release(one);
  expect(await feeds.use("task_1")).not.toBe(one);
});
