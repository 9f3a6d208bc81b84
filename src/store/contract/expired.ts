import { describe, expect } from "vitest";
import type { ContractTest } from "./fixture.ts";
import { acquire, childRecord, commitOnce, message, postRow, record } from "./samples.ts";

/** Conversations that have work left and nobody to do it. */
export function expiredCases(it: ContractTest): void {
  describe("conversations without an owner", () => {
    it("are none at first", async ({ store }) => {
      expect(await store.expired(10)).toEqual([]);
    });

    it("are none while the owner's lease is live", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      clock.advance(999);
      expect(await store.expired(10)).toEqual([]);
      clock.advance(1);
      expect(await store.expired(10)).toEqual(["sess_1"]);
    });

    it("are none again once the lease is renewed or taken", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      clock.advance(1000);
      await store.renew([lease], 1000);
      expect(await store.expired(10)).toEqual([]);
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "b" });
      expect(await store.expired(10)).toEqual([]);
    });

    for (const status of ["queued", "in_progress"] as const) {
      it(`show when a task was released while ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        expect(await store.expired(10)).toEqual(["sess_1"]);
      });
    }

    for (const status of ["suspended", "completed", "failed", "cancelled", "incomplete"] as const) {
      it(`do not show for a task that is ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record()] });
        await commitOnce(store, { tasks: [record({ status })] });
        expect(await store.expired(10)).toEqual([]);
      });
    }

    it("show by their root session when a background child is left", async ({ store }) => {
      await commitOnce(store, { tasks: [record(), childRecord({ mode: "background" })] });
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      expect(await store.expired(10)).toEqual(["sess_1"]);
      await commitOnce(store, { tasks: [childRecord({ status: "failed" })] });
      expect(await store.expired(10)).toEqual([]);
    });

    it("show once, however much is left in them", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record(), childRecord(), childRecord({ taskId: "call_2", sessionId: "sub-2" })],
        posts: [postRow(), postRow({ id: "post_2", kind: "cancel", rootTaskId: "task_1" })],
      });
      expect(await store.expired(10)).toEqual(["sess_1"]);
    });

    it("show for an input, also to a session that has no task", async ({ store }) => {
      await store.post(postRow());
      expect(await store.expired(10)).toEqual(["sess_1"]);
      await commitOnce(store, { taken: ["post_1"] });
      expect(await store.expired(10)).toEqual([]);
    });

    it("do not show for a hint", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      await store.post(postRow({ kind: "hint" }));
      expect(await store.expired(10)).toEqual([]);
    });

    for (const kind of ["answer", "cancel"] as const) {
      it(`show for ${kind} to a suspended task, until it is taken`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        await store.post(postRow({ kind, rootTaskId: "task_1" }));
        expect(await store.expired(10)).toEqual(["sess_1"]);
        await commitOnce(store, { taken: ["post_1"] });
        expect(await store.expired(10)).toEqual([]);
      });

      it(`show for ${kind} to a session with a suspended task`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        await store.post(postRow({ kind }));
        expect(await store.expired(10)).toEqual(["sess_1"]);
      });

      it(`do not show for ${kind} to a tree that has ended`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "completed" })] });
        await store.post(postRow({ kind, rootTaskId: "task_1" }));
        await store.post(postRow({ id: "post_2", kind }));
        expect(await store.expired(10)).toEqual([]);
      });

      it(`do not show for ${kind} to an ended tree beside a suspended one`, async ({ store }) => {
        const waiting = record({ taskId: "task_2", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), waiting] });
        await store.post(postRow({ kind, rootTaskId: "task_1" }));
        expect(await store.expired(10)).toEqual([]);
      });

      it(`show for ${kind} to a suspended child, by the root session`, async ({ store }) => {
        const child = childRecord({ mode: "background", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
        await store.post(postRow({ kind, sessionId: "sub-1", rootTaskId: "task_1" }));
        expect(await store.expired(10)).toEqual(["sess_1"]);
      });

      it(`find the root session for ${kind} that names only the child's`, async ({ store }) => {
        const child = childRecord({ mode: "background", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
        await store.post(postRow({ kind, sessionId: "sub-1" }));
        expect(await store.expired(10)).toEqual(["sess_1"]);
      });
    }

    it("do not show for messages alone", async ({ store }) => {
      await commitOnce(store, {
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
      });
      expect(await store.expired(10)).toEqual([]);
    });

    it("come longest without an owner first, as many as asked for", async ({ store, clock }) => {
      const abandon = async (id: string, ttlMs: number) => {
        const lease = await acquire(store, id, { ttlMs });
        await store.commit({
          lease,
          log: `task_${id}`,
          tasks: [record({ taskId: `task_${id}`, sessionId: id })],
        });
        return lease;
      };
      await abandon("sess_late", 3000);
      await abandon("sess_early", 2000);
      const released = await abandon("sess_released", 60_000);
      clock.advance(1000);
      await store.release(released);
      clock.advance(5000);
      expect(await store.expired(10)).toEqual(["sess_released", "sess_early", "sess_late"]);
      expect(await store.expired(2)).toEqual(["sess_released", "sess_early"]);
      expect(await store.expired(0)).toEqual([]);
    });
  });
}
