import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../testing/index.ts";
import { cancelGraceMs, isCancel, untilCancelled } from "./until-cancelled.ts";

function scene() {
  const clock = new ManualClock();
  const stop = new AbortController();
  return { clock, stop, patience: { clock, signal: stop.signal } };
}

describe("untilCancelled", () => {
  it("gives what comes, and throws what is thrown, now or later", async () => {
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

  it("waits for ever while nobody cancels, then for a grace", async () => {
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

  it("waits no longer when the cancel came before", async () => {
    const { patience, stop, clock } = scene();
    stop.abort(new Error("enough"));
    const quick = untilCancelled(patience, () => clock.sleep(cancelGraceMs - 1));
    const slow = untilCancelled(patience, () => clock.sleep(cancelGraceMs + 1));
    slow.catch(() => {});
    await clock.advance(cancelGraceMs);
    await expect(quick).resolves.toBeUndefined();
    await expect(slow).rejects.toBe(stop.signal.reason);
  });

  it("waits for all that one task waits for no longer than one grace, but for a moment", async () => {
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
