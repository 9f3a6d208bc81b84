import { type Clock, systemClock } from "../base/clock.ts";

/** The time by which leases end. Only times of the same epoch can be compared. */
export interface LeaseClock {
  readonly epoch: string;
  now(): number;
}

/** The time to live of a stored lease, and when it ends on the clock of its epoch. */
export interface TimedLease {
  readonly sessionId: string;
  readonly fence: number;
  readonly epoch: string;
  readonly until: number;
  readonly ttl: number;
}

/**
 * The clock of all processes of this machine since it booted, which no change of the date moves. Where there is none,
 * a clock of this process alone.
 */
export function leaseClock(given: Pick<Clock, "now"> = systemClock): LeaseClock {
  if (given !== systemClock) return { epoch: "given", now: () => given.now() };
  return {
    epoch: bootEpoch() ?? `process:${crypto.randomUUID()}`,
    now: () => Number(process.hrtime.bigint()) / 1e6,
  };
}

/** Node counts from the boot of Linux; a time namespace has a count of its own. */
function bootEpoch(): string | undefined {
  const isShared =
    process.platform === "linux" && !("bun" in process.versions || "Deno" in globalThis);
  if (!isShared) return undefined;
  const { readFileSync, readlinkSync } = process.getBuiltinModule("node:fs");
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `boot:${boot}:${readlinkSync("/proc/self/ns/time")}`;
  } catch {
    return undefined;
  }
}

/** Judges how long leases are still live, as seen by one process. */
export class LeaseJudge {
  readonly clock: LeaseClock;
  /** The leases whose end this clock cannot tell, with the time when they were first seen as they are. */
  readonly #observed = new Map<string, { fence: number; until: number; at: number }>();

  constructor(clock: LeaseClock) {
    this.clock = clock;
  }

  /** The time until a held lease ends; 0 or less when it has ended. */
  leftMs(lease: TimedLease): number {
    const now = this.clock.now();
    const { sessionId, fence, epoch, until, ttl } = lease;
    // A later end was set before the clock was set back.
    if (epoch === this.clock.epoch && until <= now + ttl) {
      this.#observed.delete(sessionId);
      return until - now;
    }
    const first = this.#observed.get(sessionId);
    const isSame = first?.fence === fence && first.until === until;
    const at = isSame ? Math.min(first.at, now) : now;
    this.#observed.set(sessionId, { fence, until, at });
    return at + ttl - now;
  }

  /** Forgets a lease that no longer exists as it was observed. */
  forget(sessionId: string): void {
    this.#observed.delete(sessionId);
  }
}
