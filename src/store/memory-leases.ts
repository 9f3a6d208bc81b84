import type { Clock } from "../protocol/clock.ts";
import type { Lease } from "../protocol/store.ts";

/** Who may write a conversation. The entry outlives its leases, so that fences never repeat. */
interface Ownership {
  fence: number;
  held: boolean;
  /** When the last lease ends, or ended. */
  until: number;
}

/** One owner per conversation, in memory. */
export interface MemoryLeases {
  /** A live lease keeps its own owner out too: two loops of one process must not both write. */
  acquire(sessionId: string, owner: string, ttlMs: number): Lease | undefined;
  /** An expired lease that nobody has taken over still holds. */
  renew(leases: readonly Lease[], ttlMs: number): readonly Lease[];
  /** False when the lease no longer holds and so nothing is released. */
  release(lease: Lease): boolean;
  /** Ends every lease there ever was, so that no late commit comes through. */
  end(sessionId: string): void;
  /** Whether nobody else has acquired the conversation since. */
  holds(lease: Lease): boolean;
  /** Whether somebody's lease is live. */
  isOwned(sessionId: string): boolean;
  /** When the last lease ends, or ended; 0 when there was none. */
  ownedUntil(sessionId: string): number;
}

/** Nobody owns anything yet. */
export function memoryLeases(clock: Pick<Clock, "now">): MemoryLeases {
  const ownerships = new Map<string, Ownership>();

  function heldBy(lease: Lease): Ownership | undefined {
    const ownership = ownerships.get(lease.sessionId);
    return ownership?.held && ownership.fence === lease.fence ? ownership : undefined;
  }

  function isOwned(sessionId: string): boolean {
    const ownership = ownerships.get(sessionId);
    return ownership?.held === true && clock.now() < ownership.until;
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
    ownedUntil: (sessionId) => ownerships.get(sessionId)?.until ?? 0,
  };
}
