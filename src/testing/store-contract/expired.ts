import { deepEqual } from "node:assert/strict";
import type { StoreSuite } from "./fixture.ts";
import { acquire, childRecord, commitOnce, message, postRow, record } from "./samples.ts";

/** Conversations that need an owner. */
export function expiredCases({ describe, it }: StoreSuite): void {
  describe("expired", () => {
    it("is empty in an empty store", async ({ store }) => {
      deepEqual(await store.expired(10), []);
    });

    it("leaves out a conversation with a live lease", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      clock.advance(999);
      deepEqual(await store.expired(10), []);
      clock.advance(1);
      deepEqual(await store.expired(10), ["sess_1"]);
    });

    it("leaves out a conversation whose lease is renewed or taken over", async ({
      store,
      clock,
    }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      clock.advance(1000);
      await store.renew([lease], 1000);
      deepEqual(await store.expired(10), []);
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "b" });
      deepEqual(await store.expired(10), []);
    });

    for (const status of ["queued", "in_progress"] as const) {
      it(`lists a ${status} task`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        deepEqual(await store.expired(10), ["sess_1"]);
      });
    }

    for (const status of ["suspended", "completed", "failed", "cancelled", "incomplete"] as const) {
      it(`leaves out a ${status} task`, async ({ store }) => {
        await commitOnce(store, { tasks: [record()] });
        await commitOnce(store, { tasks: [record({ status })] });
        deepEqual(await store.expired(10), []);
      });
    }

    it("lists the root session of an unfinished background child", async ({ store }) => {
      await commitOnce(store, { tasks: [record(), childRecord({ mode: "background" })] });
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      deepEqual(await store.expired(10), ["sess_1"]);
      await commitOnce(store, { tasks: [childRecord({ status: "failed" })] });
      deepEqual(await store.expired(10), []);
    });

    it("lists a conversation once", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record(), childRecord(), childRecord({ taskId: "call_2", sessionId: "sub-2" })],
        posts: [postRow(), postRow({ id: "post_2", kind: "cancel", rootTaskId: "task_1" })],
      });
      deepEqual(await store.expired(10), ["sess_1"]);
    });

    it("lists an input for a session without tasks", async ({ store }) => {
      await store.post([postRow()]);
      deepEqual(await store.expired(10), ["sess_1"]);
      await commitOnce(store, { taken: ["post_1"] });
      deepEqual(await store.expired(10), []);
    });

    for (const status of ["suspended", "completed"] as const) {
      it(`${status === "completed" ? "lists" : "leaves out"} an input when the task is ${status}`, async ({
        store,
      }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        await store.post([postRow()]);
        deepEqual(await store.expired(10), status === "completed" ? ["sess_1"] : []);
      });
    }

    it("leaves out an input for a child's session or for a single task", async ({ store }) => {
      const ended = { status: "completed" } as const;
      await commitOnce(store, { tasks: [record(ended), childRecord(ended)] });
      await store.post([
        postRow({ id: "a", sessionId: "sub-1" }),
        postRow({ id: "b", taskId: "task_1" }),
      ]);
      deepEqual(await store.expired(10), []);
    });

    it("lists an enqueued task", async ({ store, clock }) => {
      const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.enqueue(record({ status: "queued" }));
      deepEqual(await store.expired(10), []);
      clock.advance(1000);
      deepEqual(await store.expired(10), ["sess_1"]);
      await store.release(lease);
      deepEqual(await store.expired(10), ["sess_1"]);
    });

    it("leaves out a hint", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      await store.post([postRow({ kind: "hint" })]);
      deepEqual(await store.expired(10), []);
    });

    for (const kind of ["answer", "cancel"] as const) {
      it(`lists ${kind} for a suspended task until it is taken`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        await store.post([postRow({ kind, rootTaskId: "task_1" })]);
        deepEqual(await store.expired(10), ["sess_1"]);
        await commitOnce(store, { taken: ["post_1"] });
        deepEqual(await store.expired(10), []);
      });

      it(`lists ${kind} for a session with a suspended task`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        await store.post([postRow({ kind })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });

      it(`lists ${kind} for an ended task until it is taken`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "completed" })] });
        for (const target of [{ taskId: "task_1" }, { rootTaskId: "task_1" }, {}]) {
          const id = `post_${Object.keys(target)}`;
          await store.post([postRow({ id, kind, ...target })]);
          deepEqual(await store.expired(10), ["sess_1"]);
          await commitOnce(store, { taken: [id] });
          deepEqual(await store.expired(10), []);
        }
      });

      it(`lists ${kind} for an ended task beside a suspended one`, async ({ store }) => {
        const waiting = record({ taskId: "task_2", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), waiting] });
        await store.post([postRow({ kind, taskId: "task_1" })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });

      it(`reads the target of ${kind} from its message when the row has no taskId`, async ({
        store,
      }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        const to = (taskId: string) => ({ ...message("x"), metadata: { taskId } });
        await store.post([postRow({ id: "a", kind, message: to("task_9") })]);
        deepEqual(await store.expired(10), []);
        await store.post([postRow({ id: "b", kind, message: to("task_1") })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });

      it(`leaves out ${kind} for a task that does not exist`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status: "suspended" })] });
        await store.post([
          postRow({ id: "a", kind, taskId: "task_9" }),
          postRow({ id: "b", kind, rootTaskId: "task_9" }),
          postRow({ id: "c", kind, sessionId: "sess_9" }),
        ]);
        deepEqual(await store.expired(10), []);
      });

      it(`lists ${kind} for a grandchild that suspended tasks wait for`, async ({ store }) => {
        const suspended = { status: "suspended" } as const;
        const grandchild = { taskId: "call_2", sessionId: "sub-2", parentSessionId: "sub-1" };
        await commitOnce(store, {
          tasks: [
            record(suspended),
            childRecord(suspended),
            childRecord({ ...grandchild, ...suspended }),
          ],
        });
        deepEqual(await store.expired(10), []);
        await store.post([postRow({ kind, sessionId: "sub-2", taskId: "call_2" })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });

      it(`lists the root session for ${kind} to a suspended child`, async ({ store }) => {
        const child = childRecord({ mode: "background", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
        await store.post([postRow({ kind, sessionId: "sub-1", rootTaskId: "task_1" })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });

      it(`lists the root session for ${kind} without a rootTaskId`, async ({ store }) => {
        const child = childRecord({ mode: "background", status: "suspended" });
        await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
        await store.post([postRow({ kind, sessionId: "sub-1" })]);
        deepEqual(await store.expired(10), ["sess_1"]);
      });
    }

    it("leaves out a session that has only messages", async ({ store }) => {
      await commitOnce(store, {
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
      });
      deepEqual(await store.expired(10), []);
    });

    it("sorts by the time without an owner and applies the limit", async ({ store, clock }) => {
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
      deepEqual(await store.expired(10), ["sess_released", "sess_early", "sess_late"]);
      deepEqual(await store.expired(2), ["sess_released", "sess_early"]);
      deepEqual(await store.expired(0), []);
    });
  });
}
