import { expect, it } from "vitest";
import { memoryStore } from "../store/memory.ts";
import { acquire, delta, record } from "../testing/store-contract/samples.ts";
import { Feeds } from "./feed.ts";
import type { Batch } from "./pages.ts";

/** A store with a log of some events, and a count of its reads. */
async function world(length: number, text = "x") {
  const store = memoryStore();
  const lease = await acquire(store, "sess_1");
  const append = (count: number) =>
    store.commit({
      lease,
      log: "task_1",
      events: Array.from({ length: count }, () => delta(text)),
    });
  await store.commit({ lease, log: "task_1", tasks: [record()] });
  if (length > 0) await append(length);
  let reads = 0;
  /** The largest read, and the most reads in one turn of the event loop. */
  const most = { bytes: 0, inTurn: 0 };
  /** With `until`, the store is written by another process: it wakes without events, and its last number waits. */
  const held: { until?: Promise<void> } = {};
  let inTurn = 0;
  const counted = {
    ...store,
    async last(...args: Parameters<typeof store.last>) {
      await held.until;
      return store.last(...args);
    },
    watch: (...[on, wake]: Parameters<typeof store.watch>) =>
      store.watch(on, (committed) => wake(held.until ? undefined : committed)),
    async read(...args: Parameters<typeof store.read>) {
      reads += 1;
      inTurn += 1;
      if (inTurn === 1) setImmediate(() => (inTurn = 0));
      const events = await store.read(...args);
      most.bytes = Math.max(most.bytes, JSON.stringify(events).length);
      most.inTurn = Math.max(most.inTurn, inTurn);
      return events;
    },
  };
  const end = async () => {
    await store.release(lease);
    await store.deleteSession("sess_1");
  };
  return { feeds: new Feeds(counted), append, end, reads: () => reads, most, held };
}

/** Lets the feed read what was written. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

it("reads and encodes new events once for all live readers", async () => {
  const { feeds, append, reads } = await world(0);
  const feed = await feeds.use("task_1");
  const got: Batch[][] = Array.from({ length: 50 }, () => []);
  for (const batches of got)
    feed.join({ push: (batch) => batch && batches.push(batch), readAgain() {} });
  await append(3);
  await settle();
  const [first = []] = got;
  expect(first.flatMap(({ events = [] }) => events)).toHaveLength(3);
  expect(reads()).toBeLessThanOrEqual(2);
  for (const batches of got) expect(batches[0]?.bytes()).toBe(first[0]?.bytes());
});

it("reads a page of old events once for readers that want it at the same time", async () => {
  const { feeds, reads } = await world(600);
  const feed = await feeds.use("task_1");
  const pages = await Promise.all(Array.from({ length: 20 }, () => feed.next(-1)));
  expect(new Set(pages).size).toBe(1);
  expect(reads()).toBe(1);
  const [{ through } = { through: -1 }] = pages as Batch[];
  const rest = await feed.next(through);
  expect([rest?.after, await feed.next(599)]).toEqual([through, undefined]);
});

it("reads pages by bytes, and reads each again only when it has been dropped", async () => {
  const large = 100_000;
  const { feeds, reads, most } = await world(100, "x".repeat(large));
  const feed = await feeds.use("task_1");
  for (const pass of [1, 2]) {
    let after = -1;
    for (let page = await feed.next(-1); page; page = await feed.next(after)) {
      expect(page.bytes().length).toBeLessThan(32 * 1024 + large + 1_000);
      after = page.through;
    }
    expect(after).toBe(99);
    // 10 MB are more than what is kept.
    expect(reads()).toBeLessThanOrEqual(pass * 100);
  }
  expect(most.bytes).toBeLessThan(32 * 1024 + large + 1_000);
});

it("reads a few pages in one turn of the event loop, however many readers wait", async () => {
  const { feeds, reads, most } = await world(200, "x".repeat(40_000));
  const feed = await feeds.use("task_1");
  const cursors = Array.from({ length: 200 }, (_, n) => n - 1);
  await Promise.all(cursors.map((after) => feed.next(after)));
  expect(reads()).toBe(200);
  expect(most.inTurn).toBeLessThanOrEqual(4);
});

it("shares a page over the limit with every reader that still has its bytes", async () => {
  const { feeds, reads } = await world(1, "x".repeat(10_000_000));
  const feed = await feeds.use("task_1");
  const bytes = (await feed.next(-1))?.bytes();
  await settle();
  (globalThis as { gc?: () => void }).gc?.();
  expect((await feed.next(-1))?.bytes()).toBe(bytes);
  expect(reads()).toBe(1);
});

it("tells a reader that is not at the head that its log was deleted", async () => {
  const { feeds, end } = await world(3);
  const feed = await feeds.use("task_1");
  await end();
  await settle();
  expect(feed.isLost).toBe(true);
});

it("gives a reader that lags the rest of a recent batch", async () => {
  const { feeds, append } = await world(0);
  const feed = await feeds.use("task_1");
  feed.join({ push() {}, readAgain() {} });
  await append(4);
  await settle();
  const rest = await feed.next(1);
  expect([rest?.after, rest?.through]).toEqual([1, 3]);
  expect(
    rest
      ?.bytes()
      .toString()
      .match(/^id: \d+/gm),
  ).toEqual(["id: 2", "id: 3"]);
});

it("makes a reader read that joins while the head moves past events without readers", async () => {
  const { feeds, append, held } = await world(0);
  const feed = await feeds.use("task_1");
  let release = () => {};
  held.until = new Promise((resolve) => (release = resolve));
  await append(1);
  await settle();
  const after = feed.last;
  let calls = 0;
  feed.join({ push() {}, readAgain: () => (calls += 1) });
  release();
  await settle();
  expect([after, feed.last, calls]).toEqual([-1, 0, 1]);
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
