import { describe, expect } from "vitest";
import type { ContractTest } from "./fixture.ts";
import { acquire } from "./samples.ts";

/** One owner per conversation, and fences that only grow. */
export function leaseCases(it: ContractTest): void {
  describe("leases", () => {
    it("says what it grants and until when", async ({ store, clock }) => {
      expect(await store.acquire("sess_1", "a", 500)).toEqual({
        sessionId: "sess_1",
        owner: "a",
        fence: expect.any(Number),
        expiresAt: clock.now() + 500,
      });
    });

    it("keeps others out while a lease is live", async ({ store }) => {
      await acquire(store, "sess_1", { owner: "a" });
      expect(await store.acquire("sess_1", "b", 60_000)).toBeUndefined();
    });

    it("keeps its own owner out while its lease is live", async ({ store }) => {
      await acquire(store, "sess_1", { owner: "a" });
      expect(await store.acquire("sess_1", "a", 60_000)).toBeUndefined();
    });

    it("grants each conversation on its own", async ({ store }) => {
      await acquire(store, "sess_1");
      expect(await store.acquire("sess_2", "b", 60_000)).toMatchObject({ sessionId: "sess_2" });
    });

    it("has one winner of many who ask at once", async ({ store }) => {
      const asked = await Promise.all(
        Array.from({ length: 50 }, (_, i) => store.acquire("sess_1", `owner ${i}`, 60_000)),
      );
      expect(asked.filter(Boolean)).toHaveLength(1);
    });

    it("has one winner again each time it is free", async ({ store }) => {
      const fences: number[] = [];
      for (let round = 0; round < 20; round++) {
        const asked = await Promise.all(
          Array.from({ length: 5 }, (_, i) => store.acquire("sess_1", `owner ${i}`, 60_000)),
        );
        const won = asked.filter((lease) => lease !== undefined);
        expect(won).toHaveLength(1);
        for (const lease of won) {
          fences.push(lease.fence);
          await store.release(lease);
        }
      }
      expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    });

    it("is free as soon as it is released, with a higher fence", async ({ store }) => {
      const first = await acquire(store);
      await store.release(first);
      const next = await acquire(store, "sess_1", { owner: "b" });
      expect(next.fence).toBeGreaterThan(first.fence);
    });

    it("stays free after its release when the clock is set back", async ({ store, clock }) => {
      await store.release(await acquire(store, "sess_1", { ttlMs: 1000 }));
      clock.advance(-5000);
      expect(await store.acquire("sess_1", "b", 1000)).toBeDefined();
    });

    it("is live until the last millisecond and free after it, with a higher fence", async ({
      store,
      clock,
    }) => {
      const first = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(999);
      expect(await store.acquire("sess_1", "b", 1000)).toBeUndefined();
      clock.advance(1);
      const next = await acquire(store, "sess_1", { owner: "b" });
      expect(next.fence).toBeGreaterThan(first.fence);
    });

    it("renews from now on", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(900);
      const renewed = await store.renew([lease], 1000);
      expect(renewed).toEqual([{ ...lease, expiresAt: clock.now() + 1000 }]);
      clock.advance(999);
      expect(await store.acquire("sess_1", "b", 1000)).toBeUndefined();
      clock.advance(1);
      expect(await store.acquire("sess_1", "b", 1000)).toBeDefined();
    });

    it("takes fractions of a millisecond", async ({ store, clock }) => {
      clock.advance(0.25);
      const lease = await acquire(store, "sess_1", { ttlMs: 100.5 });
      expect(lease.expiresAt).toBe(clock.now() + 100.5);
      clock.advance(100.25);
      expect(await store.acquire("sess_1", "b", 1000)).toBeUndefined();
      clock.advance(0.25);
      expect(await store.acquire("sess_1", "b", 1000)).toBeDefined();
    });

    it("renews an expired lease that nobody has taken", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(5000);
      expect(await store.renew([lease], 1000)).toHaveLength(1);
      expect(await store.acquire("sess_1", "b", 1000)).toBeUndefined();
    });

    it("does not renew what another has taken, and leaves that one alone", async ({
      store,
      clock,
    }) => {
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "b", ttlMs: 1000 });
      expect(await store.renew([lost], 60_000)).toEqual([]);
      clock.advance(1000);
      expect(await store.acquire("sess_1", "c", 1000)).toBeDefined();
    });

    it("does not renew what was released", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      expect(await store.renew([lease], 60_000)).toEqual([]);
      expect(await store.acquire("sess_1", "b", 60_000)).toBeDefined();
    });

    it("returns of many leases those that still hold", async ({ store }) => {
      const leases = [];
      for (const id of ["sess_a", "sess_b", "sess_c", "sess_d"])
        leases.push(await acquire(store, id));
      for (const lease of leases.filter((_, i) => i % 2 === 1)) await store.release(lease);
      const held = await store.renew(leases, 60_000);
      expect(held.map((lease) => lease.sessionId)).toEqual(["sess_a", "sess_c"]);
    });

    it("renews nothing when asked for nothing", async ({ store }) => {
      expect(await store.renew([], 60_000)).toEqual([]);
    });

    it("does not renew a lease that was never granted", async ({ store }) => {
      const invented = { sessionId: "sess_9", owner: "x", fence: 1, expiresAt: 0 };
      expect(await store.renew([invented], 60_000)).toEqual([]);
    });

    it("releases nothing with an old lease", async ({ store }) => {
      const old = await acquire(store);
      await store.release(old);
      await acquire(store, "sess_1", { owner: "b" });
      await store.release(old);
      expect(await store.acquire("sess_1", "c", 60_000)).toBeUndefined();
    });

    it("may be released twice", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      await store.release(lease);
      expect(await store.acquire("sess_1", "b", 60_000)).toBeDefined();
    });

    it("may be released with the lease as it was before it was renewed", async ({ store }) => {
      const lease = await acquire(store);
      await store.renew([lease], 90_000);
      await store.release(lease);
      expect(await store.acquire("sess_1", "b", 60_000)).toBeDefined();
    });
  });
}
