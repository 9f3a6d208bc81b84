import type { Clock } from "../base/clock.ts";
import type { Lease } from "../contract/index.ts";
import { LeaseJudge, leaseClock, type TimedLease } from "./lease-clock.ts";

/** The last lease of a conversation. */
interface Ownership extends TimedLease {
  readonly held: boolean;
  /** How many owners in a row did not release the lease; progress sets it to 0. */
  readonly losses: number;
}

/** The leases of a memory store: one owner per conversation. */
export interface MemoryLeases {
  /** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
  acquire(sessionId: string, owner: string, ttlMs: number, maxLosses: number): Lease | undefined;
  /** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
  renew(leases: readonly Lease[], ttlMs: number): readonly Lease[];
  /** Returns false when the lease no longer holds. */
  release(lease: Lease): boolean;
  /** Forgets the leases of a deleted conversation. */
  delete(sessionId: string): void;
  /** Forgets a lease that was released long ago; `ownedUntil` is 0 from then on. */
  forget(sessionId: string): void;
  /** How many owners the conversation lost before this lease; undefined when the lease no longer holds. */
  losses(lease: Lease): number | undefined;
  /** Sets the count of lost owners to 0, after progress. */
  clearLosses(sessionId: string): void;
  /** Whether `Store.expired` leaves the conversation out. */
  isHidden(sessionId: string): boolean;
  /** The conversations with a live lease. */
  live(): readonly string[];
  /** The live lease. */
  owner(sessionId: string): { readonly leftMs: number } | undefined;
  /** When the last lease ends or ended; 0 if there was none. */
  ownedUntil(sessionId: string): number;
}

/** A table without leases. */
export function memoryLeases(clock: Pick<Clock, "now">): MemoryLeases {
  const ownerships = new Map<string, Ownership>();
  const judge = new LeaseJudge(leaseClock(clock));
  // One counter for all conversations: fences never repeat, even after a conversation is deleted.
  let fences = 0;

  function heldBy(lease: Lease): Ownership | undefined {
    const ownership = ownerships.get(lease.sessionId);
    return ownership?.held && ownership.fence === lease.fence ? ownership : undefined;
  }

  function leftMs(ownership: Ownership | undefined): number {
    return ownership?.held ? judge.leftMs(ownership) : 0;
  }

  function owner(sessionId: string): { readonly leftMs: number } | undefined {
    const left = leftMs(ownerships.get(sessionId));
    return left > 0 ? { leftMs: left } : undefined;
  }

  function save(ownership: Ownership): void {
    ownerships.set(ownership.sessionId, ownership);
  }

  return {
    acquire(sessionId, name, ttlMs, maxLosses) {
      const old = ownerships.get(sessionId);
      if (leftMs(old) > 0) return undefined;
      const losses = (old?.losses ?? 0) + (old?.held ? 1 : 0);
      if (losses > maxLosses) return undefined;
      const fence = ++fences;
      const { epoch } = judge.clock;
      const until = judge.clock.now() + ttlMs;
      save({ sessionId, fence, held: true, epoch, until, ttl: ttlMs, losses });
      judge.forget(sessionId);
      return { sessionId, owner: name, fence, expiresAt: clock.now() + ttlMs, losses };
    },
    renew(leases, ttlMs) {
      const until = judge.clock.now() + ttlMs;
      return leases.flatMap((lease) => {
        const ownership = heldBy(lease);
        if (!ownership) return [];
        save({ ...ownership, until, ttl: ttlMs });
        judge.forget(lease.sessionId);
        return [{ ...lease, expiresAt: clock.now() + ttlMs, losses: ownership.losses }];
      });
    },
    release(lease) {
      const ownership = heldBy(lease);
      if (!ownership) return false;
      save({ ...ownership, held: false, until: Math.min(ownership.until, judge.clock.now()) });
      return true;
    },
    delete(sessionId) {
      ownerships.delete(sessionId);
      judge.forget(sessionId);
    },
    forget(sessionId) {
      const { held, losses } = ownerships.get(sessionId) ?? {};
      if (held === false && losses === 0) ownerships.delete(sessionId);
    },
    losses: (lease) => heldBy(lease)?.losses,
    clearLosses(sessionId) {
      const ownership = ownerships.get(sessionId);
      if (ownership) save({ ...ownership, losses: 0 });
    },
    isHidden(sessionId) {
      const ownership = ownerships.get(sessionId);
      // A lease that was lost before is listed later.
      return !!ownership?.held && leftMs(ownership) + ownership.ttl * ownership.losses > 0;
    },
    live: () => [...ownerships.keys()].filter((sessionId) => owner(sessionId) !== undefined),
    owner,
    ownedUntil: (sessionId) => ownerships.get(sessionId)?.until ?? 0,
  };
}
