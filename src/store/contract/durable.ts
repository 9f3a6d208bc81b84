import { describe, expect } from "vitest";
import type { Store } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  childRecord,
  commitOnce,
  deep,
  delta,
  deltas,
  follow,
  ids,
  message,
  numberOf,
  postRow,
  range,
  record,
  take,
  textOfEvent,
} from "./samples.ts";

/** What outlives a process, for stores that do. */
export function durableCases(it: ContractTest): void {
  describe("a store that is opened again", () => {
    it("has everything that was committed", async ({ store, reopen }) => {
      await store.post(postRow());
      await commitOnce(store, {
        events: deltas(3),
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("a"), message("b")] }],
        tasks: [record({ userId: "ann" }), childRecord()],
        posts: [postRow({ id: "post_2", kind: "hint" })],
        taken: ["post_1"],
      });
      const everything = async (from: Store) => ({
        events: await from.read("task_1", -1, 100),
        last: await from.last("task_1"),
        session: await from.session("sess_1"),
        sessions: await from.sessions({ limit: 10 }),
        tasks: await from.tasks({}),
        posts: await from.posts({}),
        expired: await from.expired(10),
      });
      const before = await everything(store);
      expect(await everything(await reopen())).toEqual(before);
    });

    it("does not say that it takes memory", async ({ store, reopen }) => {
      expect(store.memory).toBeUndefined();
      expect((await reopen()).memory).toBeUndefined();
    });

    it("goes on with the numbers of its logs", async ({ store, reopen }) => {
      await commitOnce(store, { events: deltas(3) });
      const again = await reopen();
      await commitOnce(again, { events: deltas(2, 3) });
      const events = await again.read("task_1", -1, 10);
      expect(events.map(numberOf)).toEqual([0, 1, 2, 3, 4]);
      expect(events.map(textOfEvent)).toEqual(["0", "1", "2", "3", "4"]);
    });

    it("keeps leases, and fences that grow", async ({ store, reopen }) => {
      const old = await acquire(store);
      const again = await reopen();
      expect(await again.acquire("sess_1", "b", 1000)).toBeUndefined();
      await again.commit({ lease: old, log: "task_1", events: deltas(1) });
      await again.release(old);
      const next = await acquire(again);
      expect(next.fence).toBeGreaterThan(old.fence);
      await expect(again.commit({ lease: old, log: "task_1" })).rejects.toMatchObject({
        code: "fenced",
      });
    });

    it("remembers which rows were taken", async ({ store, reopen }) => {
      await store.post(postRow());
      await commitOnce(store, { taken: ["post_1"] });
      const again = await reopen();
      expect(await again.post(postRow({ kind: "hint" }))).toEqual(postRow());
      expect(await again.posts({})).toEqual([]);
      await expect(commitOnce(again, { taken: ["post_1"] })).rejects.toMatchObject({
        code: "conflict",
      });
    });

    it("keeps files, and versions that grow", async ({ store, reopen }) => {
      const version = await store.files.put("a", new Uint8Array([1, 2, 3]));
      await store.files.put("b", new Uint8Array());
      await store.files.delete("b");
      const again = await reopen();
      expect(await again.files.get("a")).toMatchObject({
        version,
        data: new Uint8Array([1, 2, 3]),
      });
      expect(await again.files.put("b", new Uint8Array())).toBeGreaterThan(version);
    });
  });

  describe("two handles on the same data", () => {
    it("see each other's commits and posts", async ({ store, second }) => {
      await commitOnce(store, {
        events: deltas(3),
        tasks: [record()],
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
      });
      expect((await second.read("task_1", 0, 10)).map(numberOf)).toEqual([1, 2]);
      expect(await second.task("task_1")).toEqual(record());
      expect(ids(await second.session("sess_1"))).toEqual(["msg_a"]);
      await second.post(postRow());
      expect(await store.posts({})).toEqual([postRow()]);
    });

    it("have one owner between them", async ({ store, second }) => {
      for (let round = 0; round < 20; round++) {
        const asked = await Promise.all(
          range(0, 10).map((i) =>
            (i % 2 ? store : second).acquire(`sess_${round}`, `${i}`, 60_000),
          ),
        );
        expect(asked.filter(Boolean)).toHaveLength(1);
      }
    });

    it("refuse the stale owner on either", async ({ store, second, clock }) => {
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      const taken = await acquire(second, "sess_1", { owner: "b" });
      await expect(
        store.commit({ lease: lost, log: "task_1", events: deltas(1) }),
      ).rejects.toMatchObject({ code: "fenced" });
      await second.commit({ lease: taken, log: "task_1", events: deltas(1) });
      expect(await store.last("task_1")).toBe(0);
    });

    it("keep the first row of an id between them", async ({ store, second }) => {
      const won = await Promise.all(
        range(0, 10).map((i) =>
          (i % 2 ? store : second).post(postRow({ message: message(String(i)) })),
        ),
      );
      const [kept] = await store.posts({});
      for (const row of won) expect(row).toEqual(kept);
    });

    it("let a reader on one follow a writer on the other", async ({ store, second }) => {
      const total = deep ? 5000 : 300;
      const readers = [-1, 10, total - 2].map((after) =>
        take(follow(second, "task_1", { after }), total - 1 - after),
      );
      const lease = await acquire(store);
      for (const i of range(0, total)) {
        await store.commit({ lease, log: "task_1", events: [delta(String(i))] });
      }
      const [all, most, last] = (await Promise.all(readers)).map((events) => events.map(numberOf));
      expect(all).toEqual(range(0, total));
      expect(most).toEqual(range(11, total));
      expect(last).toEqual([total - 1]);
    });

    it("lose no file update between them", async ({ store, second }) => {
      const increment = async (files: Store["files"]) => {
        for (;;) {
          const file = await files.get("count");
          const next = new Uint8Array([(file?.data[0] ?? 0) + 1]);
          const done = await files
            .put("count", next, { ifVersion: file?.version ?? 0 })
            .catch(() => 0);
          if (done > 0) return;
        }
      };
      await Promise.all(range(0, 20).map((i) => increment((i % 2 ? store : second).files)));
      expect((await store.files.get("count"))?.data).toEqual(new Uint8Array([20]));
    });
  });
}
