import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { Store } from "../../contract/index.ts";
import { assertMatches } from "../contract.ts";
import { isDeep } from "../deep.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  childRecord,
  commitOnce,
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

/** Data that other processes and later ones read. */
export function durableCases({ describe, it }: StoreSuite): void {
  describe("a reopened store", () => {
    it("has all committed data", async ({ store, reopen }) => {
      await store.post([postRow()]);
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
      deepEqual(await everything(await reopen()), before);
    });

    it("has no `memory`", async ({ store, reopen }) => {
      equal(store.memory, undefined);
      equal((await reopen()).memory, undefined);
    });

    it("continues the numbers of its logs", async ({ store, reopen }) => {
      await commitOnce(store, { events: deltas(3) });
      const again = await reopen();
      await commitOnce(again, { events: deltas(2, 3) });
      const events = await again.read("task_1", -1, 10);
      deepEqual(events.map(numberOf), [0, 1, 2, 3, 4]);
      deepEqual(events.map(textOfEvent), ["0", "1", "2", "3", "4"]);
    });

    it("keeps leases and continues fences", async ({ store, reopen }) => {
      const old = await acquire(store);
      const again = await reopen();
      equal(await again.acquire("sess_1", "b", 1000), undefined);
      await again.commit({ lease: old, log: "task_1", events: deltas(1) });
      await again.release(old);
      const next = await acquire(again);
      ok(next.fence > old.fence);
      await rejects(again.commit({ lease: old, log: "task_1" }), {
        code: "fenced",
      });
    });

    it("keeps rows taken", async ({ store, reopen }) => {
      await store.post([postRow()]);
      await commitOnce(store, { taken: ["post_1"] });
      const again = await reopen();
      deepEqual(await again.post([postRow({ kind: "hint" })]), [postRow()]);
      deepEqual(await again.posts({}), []);
      await rejects(commitOnce(again, { taken: ["post_1"] }), {
        code: "conflict",
      });
    });

    it("keeps files and continues versions", async ({ store, reopen }) => {
      const version = await store.files.put("a", new Uint8Array([1, 2, 3]));
      await store.files.put("b", new Uint8Array());
      await store.files.delete("b");
      const again = await reopen();
      assertMatches(await again.files.get("a"), {
        version,
        data: new Uint8Array([1, 2, 3]),
      });
      ok((await again.files.put("b", new Uint8Array())) > version);
    });
  });

  describe("two processes", () => {
    it("see each other's commits and posts", async ({ store, openSecond }) => {
      const second = await openSecond();
      await commitOnce(store, {
        events: deltas(3),
        tasks: [record()],
        appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
      });
      deepEqual((await second.read("task_1", 0, 10)).map(numberOf), [1, 2]);
      deepEqual(await second.task("task_1"), record());
      deepEqual(ids(await second.session("sess_1")), ["msg_a"]);
      await second.post([postRow()]);
      deepEqual(await store.posts({}), [postRow()]);
    });

    it("have one owner per conversation", async ({ store, openSecond }) => {
      const second = await openSecond();
      for (let round = 0; round < 20; round++) {
        const asked = await Promise.all(
          range(0, 10).map((i) =>
            (i % 2 ? store : second).acquire(`sess_${round}`, `${i}`, 60_000),
          ),
        );
        equal(asked.filter(Boolean).length, 1);
      }
    });

    it("reject the commits of a fenced owner", async ({ store, openSecond, clock }) => {
      const second = await openSecond();
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      const taken = await acquire(second, "sess_1", { owner: "b" });
      await rejects(store.commit({ lease: lost, log: "task_1", events: deltas(1) }), {
        code: "fenced",
      });
      await second.commit({ lease: taken, log: "task_1", events: deltas(1) });
      equal(await store.last("task_1"), 0);
    });

    it("agree on the first row of an id", async ({ store, openSecond }) => {
      const second = await openSecond();
      const won = await Promise.all(
        range(0, 10).map((i) =>
          (i % 2 ? store : second).post([postRow({ message: message(String(i)) })]),
        ),
      );
      const [kept] = await store.posts({});
      for (const row of won) deepEqual(row, [kept]);
    });

    it("let one follow the log that the other writes", async ({ store, openSecond }) => {
      const second = await openSecond();
      const total = isDeep ? 5000 : 300;
      const readers = [-1, 10, total - 2].map((after) =>
        take(follow(second, "task_1", { after }), total - 1 - after),
      );
      const lease = await acquire(store);
      for (const i of range(0, total)) {
        await store.commit({ lease, log: "task_1", events: [delta(String(i))] });
      }
      const [all, most, last] = (await Promise.all(readers)).map((events) => events.map(numberOf));
      deepEqual(all, range(0, total));
      deepEqual(most, range(11, total));
      deepEqual(last, [total - 1]);
    });

    it("lose no conditional file update", async ({ store, openSecond }) => {
      const second = await openSecond();
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
      deepEqual((await store.files.get("count"))?.data, new Uint8Array([20]));
    });
  });
}
