import { expect, it } from "vitest";
import { createIds } from "./id.ts";

const zero = (bytes: Uint8Array) => bytes.fill(0);

it("creates a prefix and a ULID, which sort in the order of creation", () => {
  let now = 1_763_236_800_000;
  const ids = createIds({ clock: { now: () => now } });
  const minted = Array.from({ length: 2_000 }, (_, index) => {
    if (index % 100 === 0) now += 1;
    return ids.next("task");
  });
  expect(minted[0]).toMatch(/^task_[0-9A-HJKMNP-TV-Z]{26}$/);
  expect([...minted].sort()).toEqual(minted);
  expect(new Set(minted).size).toBe(minted.length);
});

it("repeats ids with a fixed clock and fixed random bytes", () => {
  const ids = createIds({ clock: { now: () => 0 }, random: zero });
  expect([ids.next("call"), ids.next("call")]).toEqual([
    `call_${"0".repeat(26)}`,
    `call_${"0".repeat(25)}1`,
  ]);
  expect(ids.uuid()).toBe("00000000-0000-4000-8000-000000000000");
});

it("keeps ids in order when the clock goes back or a millisecond is full", () => {
  let now = 5;
  const full = createIds({ clock: { now: () => now }, random: (bytes) => bytes.fill(31) });
  const first = full.next("msg");
  const second = full.next("msg");
  now = 1;
  const third = full.next("msg");
  expect([third, first, second].sort()).toEqual([first, second, third]);
});
