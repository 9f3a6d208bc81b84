import { expect, it, vi } from "vitest";
import { systemClock } from "../base/clock.ts";
import type { Store } from "../contract/index.ts";
import { memoryStore } from "../store/memory.ts";
import { acquire, delta, record } from "../testing/store-contract/samples.ts";
import { Feeds } from "./feed.ts";
import { UnsentBytes } from "./sink-queue.ts";
import type { StreamSettings } from "./stream.ts";
import { Streams } from "./streams.ts";
import { Trees } from "./trees.ts";

function settingsOf(store: Store): StreamSettings {
  return {
    store,
    feeds: new Feeds(store),
    trees: new Trees(store),
    unsent: new UnsentBytes(1e9),
    clock: systemClock,
    heartbeatMs: 15_000,
    retryMs: 1_000,
    maxBufferBytes: 4 * 1024 * 1024,
    maxStreamMs: 60_000,
  };
}

/** The streams of a store with one finished log, and a count of the reads. */
async function world(events: number, text: string) {
  const store = memoryStore({ retention: { logs: { maxBytes: 1e9 } } });
  const lease = await acquire(store, "sess_1");
  const task = record({ status: "completed" });
  const log = Array.from({ length: events }, () => delta(text));
  await store.commit({ lease, log: "task_1", events: log, tasks: [task] });
  const reads = { count: 0 };
  const counted: typeof store = {
    ...store,
    read: (...args) => {
      reads.count += 1;
      return store.read(...args);
    },
  };
  const settings = settingsOf(counted);
  const streams = new Streams(settings);
  const open = async () => {
    const request = new Request("http://localhost/");
    const target = { record: task, root: task };
    const connection = { request, outgoing: undefined, headers: {} };
    return streams.open(connection, target, { after: -1 }, () => {});
  };
  return { open, reads, unsent: settings.unsent };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

it("reads no page for readers that have not taken the last one", async () => {
  const { open, reads, unsent } = await world(1_000, "x".repeat(1_000));
  const responses = await Promise.all(Array.from({ length: 50 }, open));
  await settle();
  // Two pages are in the connection, the third in the queue.
  expect(reads.count).toBeLessThanOrEqual(3);
  expect(unsent.total).toBeLessThan(3 * 40_000);
  const reader = responses[0]?.body?.getReader();
  for (let taken = 0; taken < 200_000; ) taken += (await reader?.read())?.value?.length ?? 1e9;
  await settle();
  // A store in memory counts two bytes for a character.
  expect(reads.count).toBeLessThanOrEqual(21);
});

it("sends an event that is larger than the limit of a stream, in parts", async () => {
  const { open } = await world(2, "x".repeat(9_000_000));
  const response = await open();
  const reader = response.body?.getReader();
  let [total, largest] = [0, 0];
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done || value === undefined) break;
    total += value.length;
    largest = Math.max(largest, value.length);
  }
  expect(total).toBeGreaterThan(18_000_000);
  expect(largest).toBeLessThan(100_000);
});

it("visits all streams in a third of the heartbeat, a few at a time", async () => {
  vi.useFakeTimers();
  try {
    const streams = new Streams({ ...settingsOf(memoryStore()), heartbeatMs: 15_000 });
    const beats = Array.from({ length: 1_000 }, () => 0);
    for (const index of beats.keys())
      streams.track({
        done: Promise.resolve(),
        beat: () => {
          beats[index] = (beats[index] ?? 0) + 1;
        },
        shutDown: () => {},
      });
    await vi.advanceTimersByTimeAsync(50);
    expect(beats.filter((count) => count > 0)).toHaveLength(10);
    await vi.advanceTimersByTimeAsync(4_950);
    expect(new Set(beats)).toEqual(new Set([1]));
  } finally {
    vi.useRealTimers();
  }
});
