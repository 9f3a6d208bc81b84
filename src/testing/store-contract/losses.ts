import { deepEqual, equal } from "node:assert/strict";
import type { Store, TaskRecord } from "../../contract/index.ts";
import type { StoreSuite } from "./fixture.ts";
import { acquire, deltas, message, record } from "./samples.ts";

/** How often a conversation took its owner down, and the commits that set the count to 0. */
export function lossCases({ describe, it }: StoreSuite): void {
  /** Loses the lease `times` times in a row; returns the next one. */
  async function lose(store: Store, clock: { advance(ms: number): void }, times: number) {
    for (let n = 0; n < times; n++) {
      await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
    }
    return acquire(store, "sess_1", { ttlMs: 1000 });
  }

  describe("losses", () => {
    it("counts the leases in a row that ended without a release", async ({ store, clock }) => {
      equal((await lose(store, clock, 0)).losses, 0);
      clock.advance(1000);
      equal((await lose(store, clock, 2)).losses, 3);
    });

    it("does not count a lease that was released", async ({ store, clock }) => {
      const lease = await lose(store, clock, 2);
      equal(lease.losses, 2);
      await store.release(lease);
      const next = await acquire(store);
      equal(next.losses, 2);
      await store.release(next);
      equal((await acquire(store)).losses, 2);
    });

    it("counts for each conversation", async ({ store, clock }) => {
      await lose(store, clock, 2);
      equal((await acquire(store, "sess_2")).losses, 0);
    });

    it("refuses a lease with more losses than the caller allows", async ({ store, clock }) => {
      await store.release(await lose(store, clock, 2));
      equal(await store.acquire("sess_1", "b", 1000, 1), undefined);
      equal(await store.owner("sess_1"), undefined);
      equal((await store.acquire("sess_1", "b", 1000, 2))?.losses, 2);
      clock.advance(1000);
      equal(await store.acquire("sess_1", "b", 1000, 2), undefined);
    });

    const steps: readonly [string, Partial<TaskRecord>, boolean][] = [
      ["more committed output", { committedOutput: 1 }, true],
      ["a task that ended", { status: "failed" }, true],
      ["a suspended task", { status: "suspended" }, true],
      ["a record that stays as it was", {}, false],
      ["a task that waits again", { status: "queued" }, false],
      ["other metadata", { metadata: { attempt: 2 } }, false],
    ];
    for (const [title, change, isProgress] of steps) {
      it(`${isProgress ? "forgets" : "keeps"} losses after ${title}`, async ({ store, clock }) => {
        const first = await acquire(store, "sess_1", { ttlMs: 1000 });
        await store.commit({ lease: first, log: "task_1", tasks: [record()] });
        clock.advance(1000);
        const lease = await lose(store, clock, 1);
        equal(lease.losses, 2);
        await store.commit({ lease, log: "task_1", tasks: [record(change)] });
        const losses = isProgress ? 0 : 2;
        deepEqual(
          (await store.renew([lease], 1000)).map((one) => one.losses),
          [losses],
        );
        await store.release(lease);
        equal((await acquire(store)).losses, losses);
      });
    }

    it("keeps losses after streamed events, messages and a new task", async ({ store, clock }) => {
      const lease = await lose(store, clock, 2);
      await store.commit({
        lease,
        log: "task_1",
        events: deltas(3),
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("hello")] }],
        tasks: [record()],
      });
      equal((await store.renew([lease], 1000))[0]?.losses, 2);
    });

    it("keeps losses after a commit that is refused", async ({ store, clock }) => {
      const lease = await lose(store, clock, 2);
      const appends = [{ sessionId: "sess_1", at: 7, messages: [message("late")] }];
      const tasks = [record({ status: "failed" })];
      await store.commit({ lease, log: "task_1", tasks, appends }).catch(() => {});
      equal((await store.renew([lease], 1000))[0]?.losses, 2);
    });

    it("lists a conversation later for each earlier loss", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      clock.advance(1000);
      deepEqual(await store.expired(10), ["sess_1"]);
      await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1999);
      equal(await store.owner("sess_1"), undefined);
      deepEqual(await store.expired(10), []);
      clock.advance(1);
      deepEqual(await store.expired(10), ["sess_1"]);
    });

    it("lists a released conversation at once", async ({ store, clock }) => {
      const lease = await lose(store, clock, 3);
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      await store.release(lease);
      deepEqual(await store.expired(10), ["sess_1"]);
    });

    it("forgets losses with a deleted conversation", async ({ store, clock }) => {
      const lease = await lose(store, clock, 3);
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      await store.release(lease);
      await store.deleteSession("sess_1");
      equal((await acquire(store)).losses, 0);
    });
  });
}
