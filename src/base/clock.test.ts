import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../testing.ts";
import { onAbort, after as runAfter, systemClock } from "./clock.ts";

it("rejects a sleep when its signal aborts and removes the listener", async () => {
  const controller = new AbortController();
  const sleeping = systemClock.sleep(60_000, controller.signal);
  controller.abort(new Error("enough"));
  await expect(sleeping).rejects.toThrow("enough");
  await expect(systemClock.sleep(0, controller.signal)).rejects.toThrow("enough");
  await expect(systemClock.sleep(0)).resolves.toBeUndefined();
});

describe("after", () => {
  it("runs after the delay unless it is cancelled", async () => {
    const clock = new ManualClock();
    const ran: string[] = [];
    const callOff = runAfter(clock, 10, () => ran.push("first"));
    runAfter(clock, 10, () => ran.push("second"));
    callOff();
    expect(clock.pending).toBe(1);
    await clock.advance(9);
    expect(ran).toEqual([]);
    await clock.advance(1);
    expect(ran).toEqual(["second"]);
    expect(clock.pending).toBe(0);
    callOff();
  });

  it("does not run when it is cancelled in the same turn", async () => {
    let ran = false;
    const callOff = runAfter(new ManualClock(), 0, () => {
      ran = true;
    });
    callOff();
    await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toBe(false);
  });
});

describe("onAbort", () => {
  it("calls every wait once behind one listener, and none that was cancelled", () => {
    const stop = new AbortController();
    const called: string[] = [];
    const cancels = ["a", "b", "c"].map((name) => onAbort(stop.signal, () => called.push(name)));
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(1);
    cancels[1]?.();
    stop.abort();
    expect(called).toEqual(["a", "c"]);
    onAbort(stop.signal, () => called.push("late"));
    expect(called).toEqual(["a", "c", "late"]);
  });

  it("leaves no listener when all waits are cancelled", () => {
    const { signal } = new AbortController();
    const cancels = [1, 2].map(() => onAbort(signal, () => {}));
    for (const cancel of cancels) cancel();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
