import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ManualClock } from "./clock.ts";

describe("ManualClock", () => {
  it("stands still until it is moved", async () => {
    const clock = new ManualClock(1_000);
    let awake = false;
    const sleeping = clock.sleep(10).then(() => {
      awake = true;
    });
    expect(clock.pending).toBe(1);
    await clock.advance(9);
    expect([clock.now(), awake]).toEqual([1_009, false]);
    await clock.advance(1);
    expect([clock.now(), awake, clock.pending]).toEqual([1_010, true, 0]);
    await sleeping;
  });

  it("wakes in order of time, then of falling asleep, and lets each run before the next", async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const sleeper = async (name: string, ms: number) => {
      await clock.sleep(ms);
      seen.push(`${name} at ${clock.now()}`);
      await Promise.resolve();
      await Promise.resolve();
      seen.push(`${name} done`);
    };
    const all = [sleeper("c", 20), sleeper("a", 10), sleeper("b", 10)];
    await clock.advance(50);
    expect(seen).toEqual(["a at 10", "a done", "b at 10", "b done", "c at 20", "c done"]);
    expect(clock.now()).toBe(50);
    await Promise.all(all);
  });

  it("wakes within one advance who falls asleep on the way", async () => {
    const clock = new ManualClock();
    const times: number[] = [];
    const repeating = (async () => {
      for (let i = 0; i < 3; i++) {
        await clock.sleep(10);
        times.push(clock.now());
      }
    })();
    await clock.advance(30);
    expect(times).toEqual([10, 20, 30]);
    await repeating;
  });

  it("needs no advance for a sleep of nothing", async () => {
    await new ManualClock().sleep(0);
  });

  it("rejects with the signal's reason, and leaves neither sleeper nor listener", async () => {
    const clock = new ManualClock();
    const abort = new AbortController();
    const other = clock.sleep(10);
    const sleeping = clock.sleep(10, abort.signal);
    abort.abort("enough");
    await expect(sleeping).rejects.toBe("enough");
    expect(clock.pending).toBe(1);
    await expect(clock.sleep(10, abort.signal)).rejects.toBe("enough");
    const kept = new AbortController();
    const finished = clock.sleep(10, kept.signal);
    await clock.advance(10);
    await Promise.all([other, finished]);
    expect(getEventListeners(kept.signal, "abort")).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});
