import { expect, it } from "vitest";
import type { CommittedEvents } from "../contract/index.ts";
import type { TaskEvent } from "../protocol/index.ts";
import { LogTail } from "./log-tail.ts";

const numbersOf = (events: readonly TaskEvent[] = []) =>
  events.map((event) => (event as { sequence_number: number }).sequence_number);

/** A log of numbered events, whose watcher the test wakes. */
function openLog(after = -1) {
  const events: TaskEvent[] = [];
  let wake: (committed?: CommittedEvents) => void = () => {};
  let reads = 0;
  let changes = 0;
  const append = (count: number) => {
    const last = events.length - 1;
    for (let number = last + 1; number <= last + count; number++)
      events.push({ type: "task.custom", sequence_number: number } as unknown as TaskEvent);
    return { after: last, events: events.slice(last + 1) };
  };
  const store = {
    async read(_: string, from: number, limit: number) {
      reads += 1;
      return events.slice(from + 1, from + 1 + limit);
    },
    snapshot: async () => undefined,
    last: async () => events.length - 1,
    watch(_: unknown, called: typeof wake) {
      wake = called;
      return () => {
        wake = () => {};
      };
    },
  };
  const tail = new LogTail(store, "t", after, () => {
    changes += 1;
  });
  const commit = (count: number) => wake(append(count));
  const wakeWith = (committed?: CommittedEvents) => wake(committed);
  return { tail, append, commit, wakeWith, reads: () => reads, changes: () => changes };
}

it("takes committed events without a read once it is at the end", async () => {
  const { tail, append, commit, reads } = openLog();
  append(3);
  const first = await tail.read(10);
  expect([numbersOf(first.frames), tail.mustRead]).toEqual([[0, 1, 2], false]);
  for (const number of [3, 4]) {
    commit(1);
    expect(numbersOf(tail.take()?.frames)).toEqual([number]);
  }
  expect([tail.take(), tail.mustRead, reads()]).toEqual([undefined, false, 1]);
});

it("reads again after a change that was not handed over, or after a gap", async () => {
  const { tail, append, commit, wakeWith } = openLog();
  await tail.read(10);
  append(2); // another process
  commit(1);
  expect([tail.take(), tail.mustRead]).toEqual([undefined, true]);
  expect(numbersOf((await tail.read(10)).frames)).toEqual([0, 1, 2]);
  append(1);
  wakeWith();
  expect([tail.take(), tail.mustRead]).toEqual([undefined, true]);
});

it("does not report events that it has", async () => {
  const { tail, commit, wakeWith, changes } = openLog();
  await tail.read(10);
  commit(2);
  tail.take();
  wakeWith({ after: 1, events: [] });
  expect([changes(), tail.mustRead]).toEqual([1, false]);
  wakeWith({ after: 2, events: [] });
  expect([changes(), tail.mustRead]).toEqual([2, true]);
});

it("keeps the part of an overlapping list that is new", async () => {
  const { tail, append, wakeWith } = openLog();
  const committed = append(4);
  await tail.read(2);
  wakeWith(committed);
  expect(numbersOf(tail.take()?.frames)).toEqual([2, 3]);
});

it("leaves events that a reader does not take to the store", async () => {
  const { tail, commit } = openLog();
  await tail.read(10);
  for (let count = 0; count < 100; count++) commit(1);
  expect(tail.mustRead).toBe(true);
  const taken = numbersOf(tail.take()?.frames);
  const read = numbersOf((await tail.read(1_000)).frames);
  expect([...taken, ...read]).toEqual(Array.from({ length: 100 }, (_, number) => number));
});

it("moves to the end without reading, and is handed what follows", async () => {
  const { tail, append, commit, reads } = openLog();
  append(5);
  expect([await tail.skip(), await tail.skip()]).toEqual([true, false]);
  commit(1);
  expect([numbersOf(tail.take(0)?.frames), numbersOf(tail.take(1)?.frames)]).toEqual([[], [5]]);
  expect(reads()).toBe(0);
});
