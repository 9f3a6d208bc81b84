import { expect, it } from "vitest";
import { coarseNow } from "./coarse-now.ts";

it("asks the clock once per turn of the event loop", async () => {
  let asked = 0;
  const now = coarseNow({ now: () => ++asked });
  for (let turn = 1; turn <= 3; turn++) {
    expect(now()).toBe(turn);
    await Promise.resolve();
    expect(now()).toBe(turn);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(asked).toBe(3);
});
