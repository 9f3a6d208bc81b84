import { expect, it } from "vitest";
import { ManualClock } from "../../testing/clock.ts";
import { FlushQueue, type FlushQueueOptions } from "./flush-queue.ts";

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** A queue on its own clock, with a log of what it flushed. */
function queueWith(options: FlushQueueOptions) {
  const clock = new ManualClock();
  const queue = new FlushQueue({ clock, ...options });
  const flushed: string[] = [];
  const add = (name: string) => queue.add({ writeHeld: () => flushed.push(name) });
  return { clock, queue, add, flushed };
}

it("flushes durable logs together, 20 ms after the first", async () => {
  const { clock, queue, add, flushed } = queueWith({ isDurable: true });
  add("one");
  await clock.advance(19);
  add("two");
  queue.hurry(); // only a window that merges deltas ends early
  await tick();
  expect(flushed).toEqual([]);
  await clock.advance(1);
  expect([flushed, queue.merges]).toEqual([["one", "two"], false]);
});

it("flushes logs in memory in the next turn", async () => {
  const { add, flushed } = queueWith({});
  add("one");
  add("two");
  expect(flushed).toEqual([]);
  await tick();
  expect(flushed).toEqual(["one", "two"]);
});

it("flushes after the window of the options, and merges unless it is 0", async () => {
  const { clock, queue, add, flushed } = queueWith({ flushMs: 30 });
  expect(queue.merges).toBe(true);
  add("one");
  await clock.advance(29);
  expect(flushed).toEqual([]);
  await clock.advance(1);
  expect(flushed).toEqual(["one"]);

  const none = queueWith({ flushMs: 0, isDurable: true });
  none.queue.adapt(); // the store's option wins
  none.add("two");
  await tick();
  expect([none.flushed, none.queue.merges]).toEqual([["two"], false]);
});

it("ends the window early with everything that waits, at most once per 5 ms", async () => {
  const { clock, queue, add, flushed } = queueWith({ flushMs: 50 });
  await clock.advance(100);
  add("one");
  add("two");
  queue.hurry();
  await tick();
  expect(flushed).toEqual(["one", "two"]);
  add("three");
  queue.hurry();
  await tick();
  expect(flushed).toEqual(["one", "two"]);
  await clock.advance(5);
  queue.hurry();
  await tick();
  expect(flushed).toEqual(["one", "two", "three"]);
  add("four");
  await clock.advance(50); // no timer of an ended window is left
  expect(flushed).toEqual(["one", "two", "three", "four"]);
});

it("adapts the window to the load, from that of the store to 50 ms", async () => {
  let load = 0;
  const memory = queueWith({ utilization: () => load });
  const durable = queueWith({ utilization: () => load, isDurable: true });
  const windows = [];
  for (const share of [0, 0.1, 0.175, 0.9, 0]) {
    load = share;
    for (const { clock, queue, add } of [memory, durable]) {
      queue.adapt();
      for (let round = 0; round < 6; round++) {
        await clock.advance(100);
        add("one");
        await tick();
        await clock.advance(100);
      }
    }
    windows.push([memory.queue.windowMs, durable.queue.windowMs, memory.queue.merges]);
  }
  expect(windows).toEqual([
    [0, 20, false],
    [0, 20, false],
    [25, 35, true],
    [50, 50, true],
    [0, 20, false],
  ]);
});

it("is overloaded while windows end more than a second too late", async () => {
  let now = 0;
  const clock = { now: () => now, sleep: () => Promise.resolve() };
  const { queue, add } = queueWith({ flushMs: 0, clock });
  add("one");
  await tick();
  expect(queue.isOverloaded).toBe(false);
  add("two");
  now += 1_500; // the turn takes that long
  await tick();
  expect(queue.isOverloaded).toBe(true);
  now += 2_000;
  expect(queue.isOverloaded).toBe(false);
  queue.unwritten = 100_001;
  expect(queue.isOverloaded).toBe(true);
});
