import { deepEqual, equal, notEqual, ok, rejects } from "node:assert/strict";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
import { acquire, record } from "./samples.ts";

/** One owner per conversation, and growing fences. */
export function leaseCases({ describe, it }: StoreSuite): void {
  describe("leases", () => {
    it("returns the owner and the end of a lease", async ({ store, clock }) => {
      const lease = await store.acquire("sess_1", "a", 500);
      equal(typeof lease?.fence, "number");
      deepEqual(lease, {
        sessionId: "sess_1",
        owner: "a",
        fence: lease?.fence,
        expiresAt: clock.now() + 500,
        losses: 0,
      });
    });

    it("refuses another owner while a lease is live", async ({ store }) => {
      await acquire(store, "sess_1", { owner: "a" });
      equal(await store.acquire("sess_1", "b", 60_000), undefined);
    });

    it("refuses the same owner while its lease is live", async ({ store }) => {
      await acquire(store, "sess_1", { owner: "a" });
      equal(await store.acquire("sess_1", "a", 60_000), undefined);
    });

    it("returns the remaining time of a live lease", async ({ store, clock }) => {
      equal(await store.owner("sess_1"), undefined);
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      deepEqual(await store.owner("sess_1"), { leftMs: 1000 });
      equal(await store.owner("sess_2"), undefined);
      clock.advance(999);
      deepEqual(await store.owner("sess_1"), { leftMs: 1 });
      clock.advance(1);
      equal(await store.owner("sess_1"), undefined);
      await store.renew([lease], 500);
      deepEqual(await store.owner("sess_1"), { leftMs: 500 });
      await store.release(lease);
      equal(await store.owner("sess_1"), undefined);
    });

    it("grants leases on several conversations", async ({ store }) => {
      await acquire(store, "sess_1");
      assertMatches(await store.acquire("sess_2", "b", 60_000), { sessionId: "sess_2" });
    });

    it("grants one of many concurrent requests", async ({ store }) => {
      const asked = await Promise.all(
        Array.from({ length: 50 }, (_, i) => store.acquire("sess_1", `owner ${i}`, 60_000)),
      );
      equal(asked.filter(Boolean).length, 1);
    });

    it("grants one of many requests after each release, with growing fences", async ({ store }) => {
      const fences: number[] = [];
      for (let round = 0; round < 20; round++) {
        const asked = await Promise.all(
          Array.from({ length: 5 }, (_, i) => store.acquire("sess_1", `owner ${i}`, 60_000)),
        );
        const won = asked.filter((lease) => lease !== undefined);
        equal(won.length, 1);
        for (const lease of won) {
          fences.push(lease.fence);
          await store.release(lease);
        }
      }
      deepEqual(
        fences,
        [...new Set(fences)].sort((a, b) => a - b),
      );
    });

    it("grants a higher fence after a release", async ({ store }) => {
      const first = await acquire(store);
      await store.release(first);
      const next = await acquire(store, "sess_1", { owner: "b" });
      ok(next.fence > first.fence);
    });

    it("stays released when the clock is set back", async ({ store, clock }) => {
      await store.release(await acquire(store, "sess_1", { ttlMs: 1000 }));
      clock.advance(-5000);
      notEqual(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("ends within its time to live after the clock is set back", async ({ store, clock }) => {
      const hour = 3_600_000;
      for (const look of [
        async () => deepEqual(await store.owner("sess_1"), { leftMs: 1000 }),
        async () => equal(await store.acquire("sess_1", "b", 1000), undefined),
        async () => deepEqual(await store.expired(10), []),
        () => rejects(store.deleteSession("sess_1"), { code: "conflict" }),
      ]) {
        const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
        await store.commit({ lease, log: "task_1", tasks: [record()] });
        clock.advance(-hour);
        await look();
        clock.advance(999);
        equal(await store.acquire("sess_1", "b", 1000), undefined);
        clock.advance(1);
        deepEqual(await store.expired(10), ["sess_1"]);
        await store.release(await acquire(store, "sess_1", { owner: "b" }));
        await store.deleteSession("sess_1");
      }
    });

    it("stays with an owner that renews it after the clock is set back", async ({
      store,
      clock,
    }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(-5000);
      equal((await store.renew([lease], 1000)).length, 1);
      clock.advance(999);
      equal(await store.acquire("sess_1", "b", 1000), undefined);
      clock.advance(1);
      notEqual(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("expires after its last millisecond", async ({ store, clock }) => {
      const first = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(999);
      equal(await store.acquire("sess_1", "b", 1000), undefined);
      clock.advance(1);
      const next = await acquire(store, "sess_1", { owner: "b" });
      ok(next.fence > first.fence);
    });

    it("renews from the current time", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(900);
      const renewed = await store.renew([lease], 1000);
      deepEqual(renewed, [{ ...lease, expiresAt: clock.now() + 1000 }]);
      clock.advance(999);
      equal(await store.acquire("sess_1", "b", 1000), undefined);
      clock.advance(1);
      notEqual(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("accepts fractions of a millisecond", async ({ store, clock }) => {
      clock.advance(0.25);
      const lease = await acquire(store, "sess_1", { ttlMs: 100.5 });
      equal(lease.expiresAt, clock.now() + 100.5);
      clock.advance(100.25);
      equal(await store.acquire("sess_1", "b", 1000), undefined);
      clock.advance(0.25);
      notEqual(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("renews an expired lease that no other owner has acquired", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(5000);
      equal((await store.renew([lease], 1000)).length, 1);
      equal(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("does not renew a lease that another owner replaced", async ({ store, clock }) => {
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "b", ttlMs: 1000 });
      deepEqual(await store.renew([lost], 60_000), []);
      clock.advance(1000);
      notEqual(await store.acquire("sess_1", "c", 1000), undefined);
    });

    it("does not renew a released lease", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      deepEqual(await store.renew([lease], 60_000), []);
      notEqual(await store.acquire("sess_1", "b", 60_000), undefined);
    });

    it("returns the renewed leases only", async ({ store }) => {
      const leases = [];
      for (const id of ["sess_a", "sess_b", "sess_c", "sess_d"])
        leases.push(await acquire(store, id));
      for (const lease of leases.filter((_, i) => i % 2 === 1)) await store.release(lease);
      const held = await store.renew(leases, 60_000);
      deepEqual(
        held.map((lease) => lease.sessionId),
        ["sess_a", "sess_c"],
      );
    });

    it("accepts an empty list of leases", async ({ store }) => {
      deepEqual(await store.renew([], 60_000), []);
    });

    it("does not renew a lease that was never granted", async ({ store }) => {
      const invented = { sessionId: "sess_9", owner: "x", fence: 1, expiresAt: 0, losses: 0 };
      deepEqual(await store.renew([invented], 60_000), []);
    });

    it("ignores the release of an old lease", async ({ store }) => {
      const old = await acquire(store);
      await store.release(old);
      await acquire(store, "sess_1", { owner: "b" });
      await store.release(old);
      equal(await store.acquire("sess_1", "c", 60_000), undefined);
    });

    it("accepts a second release", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      await store.release(lease);
      notEqual(await store.acquire("sess_1", "b", 60_000), undefined);
    });

    it("releases with a lease object from before a renewal", async ({ store }) => {
      const lease = await acquire(store);
      await store.renew([lease], 90_000);
      await store.release(lease);
      notEqual(await store.acquire("sess_1", "b", 60_000), undefined);
    });
  });
}
