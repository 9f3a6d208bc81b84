import { deepEqual, equal, notEqual, rejects } from "node:assert/strict";
import type { Store } from "../../contract/index.ts";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
import { acquire, commitOnce, deltas, message, postRow, record } from "./samples.ts";

const lease = { sessionId: "sess_1", owner: "a", fence: 1, expiresAt: 0, losses: 0 };

const calls: Record<string, (store: Store) => unknown> = {
  acquire: (store) => store.acquire("sess_1", "a", 1000),
  renew: (store) => store.renew([lease], 1000),
  release: (store) => store.release(lease),
  owner: (store) => store.owner("sess_1"),
  expired: (store) => store.expired(1),
  enqueue: (store) => store.enqueue(record({ status: "queued" })),
  commit: (store) => store.commit({ lease, log: "task_1" }),
  post: (store) => store.post([postRow()]),
  posts: (store) => store.posts({}),
  read: (store) => store.read("task_1", -1, 1),
  last: (store) => store.last("task_1"),
  trim: (store) => store.trim("task_1", { through: 0, tasks: [] }),
  snapshot: (store) => store.snapshot("task_1"),
  session: (store) => store.session("sess_1"),
  sessions: (store) => store.sessions({ limit: 1 }),
  deleteSession: (store) => store.deleteSession("sess_1"),
  task: (store) => store.task("task_1"),
  tasks: (store) => store.tasks({}),
  watch: (store) => store.watch({ log: "task_1" }, () => {}),
  "files.get": (store) => store.files.get("a"),
  "files.put": (store) => store.files.put("a", new Uint8Array()),
  "files.delete": (store) => store.files.delete("a"),
  "files.list": (store) => store.files.list(""),
};

/** Closing a store, and the independence of two stores. */
export function closeCases({ describe, it }: StoreSuite): void {
  describe("close", () => {
    it("makes every later call reject with store_closed", async ({ store }) => {
      await acquire(store);
      await store.close();
      for (const [name, call] of Object.entries(calls)) {
        // An async function turns the exception of `watch` into a rejection.
        const outcome = (async () => call(store))();
        await rejects(
          outcome,
          {
            name: "RivuletError",
            code: "store_closed",
          },
          name,
        );
      }
    });

    it("accepts a second call, also a concurrent one", async ({ store }) => {
      await Promise.all([store.close(), store.close()]);
      await store.close();
    });

    it("wakes each watcher once, whose next read rejects", async ({ store }) => {
      const found: unknown[] = [];
      const woken = new Promise<void>((resolve) => {
        const keys = [
          { log: "task_1" },
          { session: "sess_1" },
          { task: "task_1" },
          { inbox: "sess_1" },
        ];
        for (const key of keys) {
          store.watch(key, () => {
            store.last("task_1").catch((error) => {
              if (found.push(error.code) === keys.length) resolve();
            });
          });
        }
      });
      await store.close();
      await woken;
      await store.close();
      deepEqual(found, Array(4).fill("store_closed"));
    });

    it("does not wake a stopped watcher", async ({ store }) => {
      let stoppedWoken = false;
      const stop = store.watch({ log: "task_1" }, () => {
        stoppedWoken = true;
      });
      const woken = new Promise<void>((resolve) => {
        store.watch({ log: "task_1" }, () => resolve());
      });
      stop();
      await store.close();
      await woken;
      stop();
      equal(stoppedWoken, false);
    });

    it("writes a pending commit completely or not at all", async ({ store }) => {
      const held = await acquire(store);
      const commits = Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          store.commit({ lease: held, log: "task_1", events: deltas(1, i) }),
        ),
      );
      await store.close();
      for (const result of await commits) {
        if (result.status === "rejected") {
          assertMatches(result.reason, { code: "store_closed" });
        }
      }
    });
  });

  describe("two stores", () => {
    it("share no data", async ({ store, create }) => {
      const other = await create();
      await acquire(store);
      await store.files.put("a", new Uint8Array(1));
      await store.post([postRow()]);
      await commitOnce(
        store,
        {
          log: "task_2",
          events: deltas(1),
          tasks: [record({ taskId: "task_2", sessionId: "sess_2" })],
          appends: [{ sessionId: "sess_2", at: 0, messages: [message("a")] }],
        },
        "sess_2",
      );
      notEqual(await other.acquire("sess_1", "b", 1000), undefined);
      equal(await other.last("task_2"), -1);
      deepEqual(await other.tasks({}), []);
      deepEqual(await other.posts({}), []);
      deepEqual(await other.sessions({ limit: 10 }), []);
      deepEqual(await other.session("sess_2"), []);
      deepEqual(await other.files.list(""), []);
      await other.close();
      equal(await store.last("task_2"), 0);
    });
  });
}
