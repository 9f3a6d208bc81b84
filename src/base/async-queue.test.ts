import { expect, it } from "vitest";
import { inTurn } from "./async-queue.ts";

/** A queue of the given values. */
function scene() {
  const ready: number[] = [];
  let wake = () => {};
  let isLeft = false;
  const take = () => {
    const value = ready.shift();
    return value === undefined ? undefined : ({ value, done: false } as const);
  };
  const iterator = inTurn<number>({
    take,
    async pull() {
      for (;;) {
        if (isLeft) return { value: undefined, done: true };
        const value = take();
        if (value?.value === 13) throw new Error("thirteen");
        if (value) return value;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    async leave() {
      isLeft = true;
      wake();
    },
  });
  const give = (...values: number[]) => {
    ready.push(...values);
    wake();
  };
  return { iterator, give };
}

it("answers overlapping next() calls in order, also when values arrive late", async () => {
  const { iterator, give } = scene();
  give(1);
  const asked = [iterator.next(), iterator.next(), iterator.next(), iterator.next()];
  give(2);
  await asked[1];
  give(3, 4, 5);
  const values = await Promise.all(asked);
  expect(values.map(({ value }) => value)).toEqual([1, 2, 3, 4]);
  expect(await iterator.next()).toEqual({ value: 5, done: false });
});

it("continues after a rejected next()", async () => {
  const { iterator, give } = scene();
  const asked = [iterator.next(), iterator.next()];
  await new Promise((resolve) => setImmediate(resolve)); // the first next() waits
  give(13, 14);
  await expect(asked[0]).rejects.toThrow("thirteen");
  expect(await asked[1]).toEqual({ value: 14, done: false });
});

it("ends all pending next() calls on return()", async () => {
  const { iterator } = scene();
  const asked = [iterator.next(), iterator.next()];
  await Promise.resolve();
  await expect(iterator.return?.()).resolves.toEqual({ value: undefined, done: true });
  expect((await Promise.all(asked)).map(({ done }) => done)).toEqual([true, true]);
});
