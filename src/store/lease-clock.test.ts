import { describe, expect, it, vi } from "vitest";
import { systemClock } from "../base/clock.ts";
import { LeaseJudge, leaseClock, type TimedLease } from "./lease-clock.ts";

function lease(changes: Partial<TimedLease> = {}): TimedLease {
  return { sessionId: "s", fence: 1, epoch: "mine", until: 1_000, ttl: 1_000, ...changes };
}

function judgeAt(now: number) {
  const clock = { epoch: "mine", time: now, now: () => clock.time };
  return { judge: new LeaseJudge(clock), clock };
}

describe("the clock of leases", () => {
  it("does not follow the date", () => {
    const clock = leaseClock();
    const before = clock.now();
    const hour = 3_600_000;
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + hour);
    expect(clock.now() - before).toBeLessThan(hour);
    vi.restoreAllMocks();
  });

  it("has one epoch for all clocks of a boot of Linux, and one per clock elsewhere", () => {
    const isShared = process.platform === "linux";
    expect(leaseClock(systemClock).epoch === leaseClock().epoch).toBe(isShared);
  });

  it("is the clock that is passed in", () => {
    const clock = leaseClock({ now: () => 42 });
    expect(clock.now()).toBe(42);
    expect(clock.epoch).not.toBe(leaseClock().epoch);
  });
});

describe("a judge of leases", () => {
  it("reads the end of a lease of its own epoch", () => {
    const { judge, clock } = judgeAt(400);
    expect(judge.leftMs(lease())).toBe(600);
    clock.time = 1_000;
    expect(judge.leftMs(lease())).toBe(0);
  });

  it.each([
    ["of another epoch", { epoch: "theirs", until: 5 }],
    ["that ends too late for the clock", { until: 9_000_000 }],
  ])("waits for the time of a lease %s that stays as it is", (_, changes) => {
    const { judge, clock } = judgeAt(5_000);
    expect(judge.leftMs(lease(changes))).toBe(1_000);
    clock.time = 5_999;
    expect(judge.leftMs(lease(changes))).toBe(1);
    clock.time = 6_000;
    expect(judge.leftMs(lease(changes))).toBe(0);
  });

  it.each([
    ["renewed", { until: 6 }],
    ["replaced", { fence: 2 }],
  ])("waits again for a foreign lease that was %s", (_, changes) => {
    const { judge, clock } = judgeAt(0);
    const foreign = lease({ epoch: "theirs", until: 5 });
    judge.leftMs(foreign);
    clock.time = 900;
    expect(judge.leftMs({ ...foreign, ...changes })).toBe(1_000);
  });

  it("does not wait longer after its clock is set back", () => {
    const { judge, clock } = judgeAt(5_000);
    judge.leftMs(lease({ epoch: "theirs" }));
    clock.time = 0;
    expect(judge.leftMs(lease({ epoch: "theirs" }))).toBe(1_000);
  });
});
