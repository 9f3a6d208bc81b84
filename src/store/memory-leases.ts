import type { Clock } from "../protocol/clock.ts";
import type { Lease } from "../protocol/store.ts";

/** The last lease of a conversation. */
interface Ownership {
  readonly fence: number;
  held: boolean;
  /** When the lease ends or ended. */
  until: number;
  ttlMs: number;
}

/** The leases of a memory store: one owner per conversation. */
export interface MemoryLeases {
  /** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
  acquire(sessionId: string, owner: string, ttlMs: number): Lease | undefined;
  /** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
  renew(leases: readonly Lease[], ttlMs: number): readonly Lease[];
  /** Returns false when the lease no longer holds. */
  release(lease: Lease): boolean;
  /** Forgets the leases of a deleted conversation. */
  delete(sessionId: string): void;
  /** Forgets a lease that was released long ago; `ownedUntil` is 0 from then on. */
  forget(sessionId: string): void;
  /** Whether this is the newest lease of its conversation and not released. */
  holds(lease: Lease): boolean;
  isOwned(sessionId: string): boolean;
  /** The live lease. */
  owner(sessionId: string): { readonly leftMs: number } | undefined;
  /** When the last lease ends or ended; 0 if there was none. */
  ownedUntil(sessionId: string): number;
}

/** A table without leases. */
export function memoryLeases(clock: Pick<Clock, "now">): MemoryLeases {
  const ownerships = new Map<string, Ownership>();
  // One counter for all conversations: fences never repeat, even after a conversation is deleted.
  let fences = 0;

  function heldBy(lease: Lease): Ownership | undefined {
    const ownership = ownerships.get(lease.sessionId);
    return ownership?.held && ownership.fence === lease.fence ? ownership : undefined;
  }

  function owner(sessionId: string): { readonly leftMs: number } | undefined {
    const ownership = ownerships.get(sessionId);
    if (!ownership?.held) return undefined;
    const now = clock.now();
    // The clock may have been set back since the lease was granted.
    ownership.until = Math.min(ownership.until, now + ownership.ttlMs);
    const leftMs = ownership.until - now;
    return leftMs > 0 ? { leftMs } : undefined;
  }

  return {
    acquire(sessionId, name, ttlMs) {
      if (owner(sessionId)) return undefined;
      const fence = ++fences;
      const until = clock.now() + ttlMs;
      ownerships.set(sessionId, { fence, held: true, until, ttlMs });
      return { sessionId, owner: name, fence, expiresAt: until };
    },
    renew(leases, ttlMs) {
      const expiresAt = clock.now() + ttlMs;
      return leases.flatMap((lease) => {
        const ownership = heldBy(lease);
        if (!ownership) return [];
        ownership.until = expiresAt;
        ownership.ttlMs = ttlMs;
        return [{ ...lease, expiresAt }];
      });
    },
    release(lease) {
      const ownership = heldBy(lease);
      if (!ownership) return false;
      ownership.held = false;
      ownership.until = Math.min(ownership.until, clock.now());
      return true;
    },
    delete: (sessionId) => void ownerships.delete(sessionId),
    forget(sessionId) {
      if (ownerships.get(sessionId)?.held === false) ownerships.delete(sessionId);
    },
    holds: (lease) => heldBy(lease) !== undefined,
    isOwned: (sessionId) => owner(sessionId) !== undefined,
    owner,
    ownedUntil: (sessionId) => ownerships.get(sessionId)?.until ?? 0,
  };
}
