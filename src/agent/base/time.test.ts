import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../testing/index.ts";
import {
  cancelGraceMs,
  coarseNow,
  isCancel,
  onAbort,
  after as runAfter,
  untilCancelled,
} from "./time.ts";

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

describe("coarseNow", () => {
  it("reads the clock once per turn of the event loop", async () => {
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
});

function scene() {
  const clock = new ManualClock();
  const stop = new AbortController();
  return { clock, stop, patience: { clock, signal: stop.signal } };
}

describe("untilCancelled", () => {
  it("passes on values and errors, sync and async", async () => {
    const { patience, stop, clock } = scene();
    const error = new Error("no");
    expect(await untilCancelled(patience, () => 1)).toBe(1);
    expect(await untilCancelled(patience, async () => 2)).toBe(2);
    await expect(
      untilCancelled(patience, () => {
        throw error;
      }),
    ).rejects.toBe(error);
    await expect(untilCancelled(patience, () => Promise.reject(error))).rejects.toBe(error);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it("waits without a limit, then for the grace after a cancel", async () => {
    const { patience, stop, clock } = scene();
    let isOver = false;
    const waiting = untilCancelled(patience, () => new Promise(() => {})).catch((reason) => {
      isOver = true;
      return reason;
    });
    await clock.advance(1e9);
    stop.abort(new Error("enough"));
    await clock.advance(cancelGraceMs - 1);
    expect(isOver).toBe(false);
    await clock.advance(1);
    expect(await waiting).toBe(stop.signal.reason);
    expect(isCancel(stop.signal, await waiting)).toBe(true);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it("waits for the grace when the signal is already aborted", async () => {
    const { patience, stop, clock } = scene();
    stop.abort(new Error("enough"));
    const quick = untilCancelled(patience, () => clock.sleep(cancelGraceMs - 1));
    const slow = untilCancelled(patience, () => clock.sleep(cancelGraceMs + 1));
    slow.catch(() => {});
    await clock.advance(cancelGraceMs);
    await expect(quick).resolves.toBeUndefined();
    await expect(slow).rejects.toBe(stop.signal.reason);
  });

  it("shares one grace between the waits of a task, with a minimum for each", async () => {
    const { patience, stop, clock } = scene();
    let cancelledAt: number | undefined;
    const shared = { ...patience, cancelledAt: () => cancelledAt };
    stop.abort(new Error("enough"));
    cancelledAt = clock.now();
    let begun = 0;
    const all = (async () => {
      for (; begun < 4; begun++)
        await untilCancelled(shared, () => new Promise(() => {})).catch(() => {});
    })();
    await clock.advance(cancelGraceMs);
    expect(begun).toBe(1);
    await clock.advance(300);
    expect(begun).toBe(4);
    await all;
    const quick = untilCancelled(shared, () => clock.sleep(99).then(() => "in order"));
    await clock.advance(99);
    expect(await quick).toBe("in order");
  });
});
