import { expect, it } from "vitest";
import { ManualClock } from "../../testing/clock.ts";
import { FlushQueue } from "./flush-queue.ts";

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** A queue on its own clock, with a log of what it flushed. */
function queueOn(clock: ManualClock) {
  const queue = new FlushQueue(clock);
  const flushed: string[] = [];
  const add = (name: string, isDurable: boolean) =>
    queue.add({ writeHeld: () => flushed.push(name) }, isDurable);
  return { add, flushed };
}

it("flushes durable logs together, 20 ms after the first", async () => {
  const clock = new ManualClock();
  const { add, flushed } = queueOn(clock);
  add("one", true);
  await clock.advance(19);
  add("two", true);
  expect(flushed).toEqual([]);
  await clock.advance(1);
  expect(flushed).toEqual(["one", "two"]);
});

it("flushes logs in memory in the next turn", async () => {
  const { add, flushed } = queueOn(new ManualClock());
  add("one", false);
  add("two", false);
  expect(flushed).toEqual([]);
  await tick();
  expect(flushed).toEqual(["one", "two"]);
});

it("keeps the writers of another queue", async () => {
  const [clock, otherClock] = [new ManualClock(), new ManualClock()];
  const { add, flushed } = queueOn(clock);
  const other = queueOn(otherClock);
  add("one", true);
  other.add("two", true);
  await otherClock.advance(20);
  expect([flushed, other.flushed]).toEqual([[], ["two"]]);
});
