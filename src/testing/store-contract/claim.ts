import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { Claim, Store, TaskRecord } from "../../contract/index.ts";
import { MissingAbility } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
import { acquire, commitOnce, deltas, postRow, range, record } from "./samples.ts";

/** The leases that a process claims on conversations without an owner. */
export function claimCases({ describe, it }: StoreSuite): void {
  const all: Claim = { agents: [{ agentId: "assistant" }] };

  /** Claims, and returns the leases. */
  async function claim(
    store: Store,
    { limit = 10, ...given }: Partial<Claim> & { limit?: number },
  ) {
    if (!store.claim) throw new MissingAbility("The store has no `claim`.");
    return store.claim("a", 1000, limit, { ...all, ...given });
  }

  const claimed = async (...args: Parameters<typeof claim>) =>
    (await claim(...args)).map(({ sessionId }) => sessionId);

  /** Queues a task in a conversation of its own. */
  async function queue(store: Store, n: number, changes: Partial<TaskRecord> = {}) {
    const task = record({ taskId: `task_${n}`, sessionId: `sess_${n}`, status: "queued" });
    await store.enqueue({ ...task, ...changes });
  }

  describe("claim", () => {
    it("returns leases that their owner can use", async ({ store, clock }) => {
      await queue(store, 1);
      const [lease, ...others] = await claim(store, {});
      deepEqual(others, []);
      if (lease === undefined) throw new Error("Nothing was claimed.");
      deepEqual(lease, {
        ...{ sessionId: "sess_1", owner: "a", fence: lease.fence },
        ...{ expiresAt: clock.now() + 1000, losses: 0 },
      });
      deepEqual(await store.owner("sess_1"), { leftMs: 1000 });
      await store.commit({ lease, log: "task_1", events: deltas(1) });
      equal(await store.last("task_1"), 0);
    });

    it("takes each conversation once, whoever asks at the same time", async ({ store }) => {
      for (const n of range(0, 12)) await queue(store, n);
      const taken = await Promise.all(range(0, 6).map(() => claimed(store, { limit: 3 })));
      ok(taken.every(({ length }) => length <= 3));
      // One that asks while another takes a conversation may get fewer.
      const rest = await claimed(store, { limit: 12 });
      deepEqual(
        [...taken.flat(), ...rest].sort(),
        range(0, 12)
          .map((n) => `sess_${n}`)
          .sort(),
      );
    });

    it("takes what `expired` lists, and nothing else", async ({ store, clock }) => {
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      await queue(store, 2);
      const old = await acquire(store, "sess_2", { ttlMs: 500 });
      deepEqual(await claimed(store, {}), []);
      clock.advance(500);
      const [lease] = await claim(store, {});
      equal(lease?.sessionId, "sess_2");
      equal(lease?.losses, 1);
      ok((lease?.fence ?? 0) > old.fence);
      await rejects(store.commit({ lease: old, log: "task_2", events: deltas(1) }), {
        code: "fenced",
      });
    });

    it("takes the conversations that wait longest, up to the limit", async ({ store, clock }) => {
      for (const n of [3, 1, 2]) {
        await queue(store, n);
        await store.release(await acquire(store, `sess_${n}`));
        clock.advance(10);
      }
      deepEqual(await claimed(store, { limit: 2 }), ["sess_3", "sess_1"]);
      deepEqual(await claimed(store, { limit: 0 }), []);
    });

    it("takes a higher priority first", async ({ store }) => {
      await queue(store, 1, { priority: -1 });
      await queue(store, 2);
      await queue(store, 3, { priority: 1 });
      deepEqual(await claimed(store, { limit: 1 }), ["sess_3"]);
      deepEqual(await claimed(store, { limit: 1 }), ["sess_2"]);
      deepEqual(await claimed(store, { limit: 1 }), ["sess_1"]);
    });

    it("leaves agents, versions and places that the process does not have", async ({ store }) => {
      await queue(store, 1, { agentId: "other" });
      await queue(store, 2, { agentVersion: "2" });
      await queue(store, 3, { place: "disk" });
      await queue(store, 4, { agentVersion: "2", place: "disk" });
      const agents = [{ agentId: "assistant", version: "2" }];
      deepEqual(await claimed(store, {}), []);
      deepEqual(await claimed(store, { agents: [] }), []);
      deepEqual(await claimed(store, { agents: [{ agentId: "assistant", version: "1" }] }), []);
      deepEqual(await claimed(store, { agents }), ["sess_2"]);
      deepEqual(await claimed(store, { places: ["elsewhere", "disk"] }), ["sess_3"]);
      deepEqual(await claimed(store, { agents, places: ["disk"] }), ["sess_4"]);
      deepEqual(await claimed(store, { agents: [{ agentId: "other", version: "7" }] }), ["sess_1"]);
    });

    it("runs anywhere what was freed from its version and its place", async ({ store }) => {
      await queue(store, 1, { agentVersion: "2", place: "disk" });
      deepEqual(await claimed(store, {}), []);
      const task = record({ taskId: "task_1", status: "queued", agentVersion: "", place: "" });
      await commitOnce(store, { tasks: [task] });
      deepEqual(await claimed(store, {}), ["sess_1"]);
    });

    it("leaves users who have as many conversations as allowed", async ({ store }) => {
      for (const n of [1, 2, 3]) await queue(store, n, { userId: "ann" });
      await queue(store, 4, { userId: "ben" });
      for (const n of [5, 6]) await queue(store, n);
      const first = await claim(store, { maxPerUser: 2 });
      deepEqual(first.map(({ sessionId }) => sessionId).sort(), [
        ...["sess_1", "sess_2", "sess_4", "sess_5", "sess_6"],
      ]);
      deepEqual(await claimed(store, { maxPerUser: 2 }), []);
      const [ann] = first.filter(({ sessionId }) => sessionId === "sess_1");
      if (ann === undefined) throw new Error("sess_1 was not claimed.");
      await commitOnce(store, {}, "sess_7");
      await store.commit({
        ...{ lease: ann, log: "task_1" },
        tasks: [record({ userId: "ann", status: "completed" })],
      });
      await store.release(ann);
      deepEqual(await claimed(store, { maxPerUser: 2 }), ["sess_3"]);
    });

    it("passes users who have no room, however many conversations of theirs are first", async ({
      store,
    }) => {
      for (const n of range(1, 9)) await queue(store, n, { userId: "ann", priority: 1 });
      await queue(store, 9, { userId: "ben" });
      const first = await claimed(store, { limit: 2, maxPerUser: 1 });
      const all = [...first, ...(await claimed(store, { limit: 2, maxPerUser: 1 }))];
      deepEqual([all.length, all.includes("sess_9")], [2, true]);
    });

    it("follows the agent of the newest root task", async ({ store }) => {
      await queue(store, 1);
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      await queue(store, 2, { sessionId: "sess_1", agentId: "other" });
      deepEqual(await claimed(store, {}), []);
      deepEqual(await claimed(store, { agents: [{ agentId: "other" }] }), ["sess_1"]);
    });

    it("takes an input for a session without tasks", async ({ store }) => {
      await store.post([postRow()]);
      deepEqual(await claimed(store, { agents: [] }), ["sess_1"]);
    });

    it("leaves conversations with more losses than allowed", async ({ store, clock }) => {
      await queue(store, 1);
      await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      deepEqual(await claimed(store, { maxLosses: 0 }), []);
      equal((await claim(store, { maxLosses: 1 }))[0]?.losses, 1);
    });
  });
}
