import type { Clock } from "../protocol/clock.ts";
import type { Lease } from "../protocol/store.ts";

/** The last lease of a conversation. It stays after its end, so that fences never repeat. */
interface Ownership {
  fence: number;
  held: boolean;
  /** When the lease ends or ended. */
  until: number;
}

/** The leases of a memory store: one owner per conversation. */
export interface MemoryLeases {
  /** Returns undefined while a lease is live, even of the same owner: two loops of a process must not both write. */
  acquire(sessionId: string, owner: string, ttlMs: number): Lease | undefined;
  /** Extends the leases that still hold; an expired lease holds until another owner acquires the conversation. */
  renew(leases: readonly Lease[], ttlMs: number): readonly Lease[];
  /** Returns false when the lease no longer holds. */
  release(lease: Lease): boolean;
  /** Ends all leases of a conversation, so that the store rejects late commits. */
  end(sessionId: string): void;
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

  function heldBy(lease: Lease): Ownership | undefined {
    const ownership = ownerships.get(lease.sessionId);
    return ownership?.held && ownership.fence === lease.fence ? ownership : undefined;
  }

  function owner(sessionId: string): { readonly leftMs: number } | undefined {
    const ownership = ownerships.get(sessionId);
    if (!ownership?.held) return undefined;
    const leftMs = ownership.until - clock.now();
    return leftMs > 0 ? { leftMs } : undefined;
  }

  function isOwned(sessionId: string): boolean {
    return owner(sessionId) !== undefined;
  }

  function free(ownership: Ownership): void {
    ownership.held = false;
    ownership.until = Math.min(ownership.until, clock.now());
  }

  return {
    acquire(sessionId, owner, ttlMs) {
      if (isOwned(sessionId)) return undefined;
      const fence = (ownerships.get(sessionId)?.fence ?? 0) + 1;
      const until = clock.now() + ttlMs;
      ownerships.set(sessionId, { fence, held: true, until });
      return { sessionId, owner, fence, expiresAt: until };
    },
    renew(leases, ttlMs) {
      const expiresAt = clock.now() + ttlMs;
      const renewed: Lease[] = [];
      for (const lease of leases) {
        const ownership = heldBy(lease);
        if (!ownership) continue;
        ownership.until = expiresAt;
        renewed.push({ ...lease, expiresAt });
      }
      return renewed;
    },
    release(lease) {
      const ownership = heldBy(lease);
      if (ownership) free(ownership);
      return ownership !== undefined;
    },
    end(sessionId) {
      const ownership = ownerships.get(sessionId);
      if (!ownership) return;
      ownership.fence += 1;
      free(ownership);
    },
    holds: (lease) => heldBy(lease) !== undefined,
    isOwned,
    owner,
    ownedUntil: (sessionId) => ownerships.get(sessionId)?.until ?? 0,
  };
}
