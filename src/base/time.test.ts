import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../testing.ts";
import { cancelGraceMs, coarseNow, isCancel, untilCancelled } from "./time.ts";

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
