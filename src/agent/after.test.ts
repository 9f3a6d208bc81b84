import { expect, it } from "vitest";
import { ManualClock } from "../testing/index.ts";
import { after } from "./after.ts";

it("runs when its time has come, and not when it was called off before", async () => {
  const clock = new ManualClock();
  const ran: string[] = [];
  const callOff = after(clock, 10, () => ran.push("first"));
  after(clock, 10, () => ran.push("second"));
  callOff();
  expect(clock.pending).toBe(1);
  await clock.advance(9);
  expect(ran).toEqual([]);
  await clock.advance(1);
  expect(ran).toEqual(["second"]);
  expect(clock.pending).toBe(0);
  callOff();
});

it("does not run when its time had come and it was called off in the same breath", async () => {
  let ran = false;
  const callOff = after(new ManualClock(), 0, () => {
    ran = true;
  });
  callOff();
  await new Promise((resolve) => setImmediate(resolve));
  expect(ran).toBe(false);
});
