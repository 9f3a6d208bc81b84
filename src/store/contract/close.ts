import { describe, expect } from "vitest";
import type { Store } from "../../protocol/store.ts";
import { type ContractTest, type CreateStore, stillClock } from "./fixture.ts";
import { acquire, commitOnce, deltas, message, postRow, record } from "./samples.ts";

const lease = { sessionId: "sess_1", owner: "a", fence: 1, expiresAt: 0 };

const calls: Record<string, (store: Store) => unknown> = {
  acquire: (store) => store.acquire("sess_1", "a", 1000),
  renew: (store) => store.renew([lease], 1000),
  release: (store) => store.release(lease),
  expired: (store) => store.expired(1),
  commit: (store) => store.commit({ lease, log: "task_1" }),
  post: (store) => store.post(postRow()),
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

/** What a store is after its end, and apart from others of its kind. */
export function closeCases(it: ContractTest, create: CreateStore): void {
  describe("closing", () => {
    it("ends every call from then on", async ({ store }) => {
      await acquire(store);
      await store.close();
      for (const [name, call] of Object.entries(calls)) {
        // Within an async function, so that `watch`, which throws, is like the rest.
        const outcome = (async () => call(store))();
        await expect(outcome, name).rejects.toMatchObject({
          name: "RivuletError",
          code: "store_closed",
        });
      }
    });

    it("may be done twice, also at once", async ({ store }) => {
      await Promise.all([store.close(), store.close()]);
      await store.close();
    });

    it("wakes each watcher once, to find the store closed", async ({ store }) => {
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
      expect(found).toEqual(Array(4).fill("store_closed"));
    });

    it("does not wake who has stopped", async ({ store }) => {
      let stoppedWoken = false;
      const stop = store.watch({ log: "task_1" }, () => {
        stoppedWoken = true;
      });
      const woken = new Promise<void>((resolve) => {
        store.watch({ log: "task_1" }, resolve);
      });
      stop();
      await store.close();
      await woken;
      stop();
      expect(stoppedWoken).toBe(false);
    });

    it("ends what is under way either whole or not at all", async ({ store }) => {
      const held = await acquire(store);
      const commits = Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          store.commit({ lease: held, log: "task_1", events: deltas(1, i) }),
        ),
      );
      await store.close();
      for (const result of await commits) {
        if (result.status === "rejected") {
          expect(result.reason).toMatchObject({ code: "store_closed" });
        }
      }
    });
  });

  describe("two stores", () => {
    it("share nothing", async ({ store }) => {
      const other = await create({ clock: stillClock() });
      await acquire(store);
      await store.files.put("a", new Uint8Array(1));
      await store.post(postRow());
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
      expect(await other.store.acquire("sess_1", "b", 1000)).toBeDefined();
      expect(await other.store.last("task_2")).toBe(-1);
      expect(await other.store.tasks({})).toEqual([]);
      expect(await other.store.posts({})).toEqual([]);
      expect(await other.store.sessions({ limit: 10 })).toEqual([]);
      expect(await other.store.session("sess_2")).toEqual([]);
      expect(await other.store.files.list("")).toEqual([]);
      await other.store.close();
      await other.dispose?.();
      expect(await store.last("task_2")).toBe(0);
    });
  });
}
