import { describe, expect } from "vitest";
import type { Store, WatchKey } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  childRecord,
  commitOnce,
  deltas,
  message,
  postRow,
  range,
  record,
} from "./samples.ts";

/** Counts the wakes of a key; `next` resolves with the first wake after it was asked for. */
function counted(store: Store, key: WatchKey) {
  let count = 0;
  let waiting: (() => void)[] = [];
  const stop = store.watch(key, () => {
    count += 1;
    for (const resolve of waiting) resolve();
    waiting = [];
  });
  return {
    stop,
    count: () => count,
    next: () => new Promise<void>((resolve) => waiting.push(resolve)),
  };
}

let barriers = 0;

/** Resolves when a change made now has been told, and so everything before it as well. */
async function told(store: Store): Promise<void> {
  barriers += 1;
  const sessionId = `sess_barrier_${barriers}`;
  const watcher = counted(store, { session: sessionId });
  const woken = watcher.next();
  await store.post(postRow({ id: `post_barrier_${barriers}`, sessionId, kind: "hint" }));
  await woken;
  watcher.stop();
}

/** A hint after each change, to whoever watches what changed. */
export function watchCases(it: ContractTest): void {
  describe("watching", () => {
    const commitOf = {
      events: deltas(1),
      appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
      tasks: [record()],
    };

    for (const [what, key] of Object.entries({
      "a log": { log: "task_1" },
      "a session": { session: "sess_1" },
      "a task": { task: "task_1" },
    } satisfies Record<string, WatchKey>)) {
      it(`wakes for ${what} that a commit changes`, async ({ store }) => {
        const watcher = counted(store, key);
        const woken = watcher.next();
        // Without a release, which wakes the session as well.
        const lease = await acquire(store);
        await store.commit({ lease, log: "task_1", ...structuredClone(commitOf) });
        await woken;
      });

      it(`does not wake for ${what} that a commit leaves alone`, async ({ store }) => {
        const watcher = counted(store, key);
        await commitOnce(
          store,
          {
            log: "task_2",
            events: deltas(1, 0, "task_2"),
            appends: [{ sessionId: "sess_2", at: 0, messages: [message("a")] }],
            tasks: [record({ taskId: "task_2", sessionId: "sess_2" })],
          },
          "sess_2",
        );
        await told(store);
        expect(watcher.count()).toBe(0);
      });
    }

    it("wakes when the change can be read", async ({ store }) => {
      const lease = await acquire(store);
      for (const i of range(0, 20)) {
        const seen = new Promise<number>((resolve, reject) => {
          const stop = store.watch({ log: "task_1" }, () => {
            stop();
            store.last("task_1").then(resolve, reject);
          });
        });
        await store.commit({ lease, log: "task_1", events: deltas(1) });
        expect(await seen).toBe(i);
      }
    });

    it("wakes for a session that only grows, and for one whose task changes", async ({ store }) => {
      const lease = await acquire(store, "sess_0");
      const watchers = [
        counted(store, { session: "sess_1" }),
        counted(store, { session: "sub-1" }),
      ];
      const woken = watchers.map((watcher) => watcher.next());
      const appends = [{ sessionId: "sess_1", at: 0, messages: [message("a")] }];
      await store.commit({ lease, log: "task_1", appends, tasks: [childRecord()] });
      await Promise.all(woken);
    });

    it("wakes the session, the conversation and the root task of a post", async ({ store }) => {
      await commitOnce(store, { tasks: [record(), childRecord()] });
      const watchers = [
        counted(store, { session: "sub-1" }),
        counted(store, { session: "sess_1" }),
        counted(store, { task: "task_1" }),
        counted(store, { inbox: "sub-1" }),
        counted(store, { inbox: "sess_1" }),
      ];
      const woken = watchers.map((watcher) => watcher.next());
      await store.post(postRow({ kind: "answer", sessionId: "sub-1", rootTaskId: "task_1" }));
      await Promise.all(woken);
    });

    it("wakes the same for a post within a commit", async ({ store }) => {
      await commitOnce(store, { tasks: [record(), childRecord()] });
      const watchers = [counted(store, { session: "sess_2" }), counted(store, { inbox: "sess_2" })];
      const woken = watchers.map((watcher) => watcher.next());
      await commitOnce(store, { posts: [postRow({ kind: "hint", sessionId: "sess_2" })] });
      await Promise.all(woken);
    });

    it("does not wake an inbox for anything but a post to it", async ({ store }) => {
      await store.post(postRow());
      await told(store);
      const watcher = counted(store, { inbox: "sess_1" });
      await commitOnce(store, { ...structuredClone(commitOf), taken: ["post_1"] });
      await store.post(postRow({ id: "post_2", sessionId: "sess_2" }));
      await told(store);
      expect(watcher.count()).toBe(0);
    });

    it("does not wake for a post that lost", async ({ store }) => {
      await store.post(postRow());
      await told(store);
      const watchers = [counted(store, { session: "sess_1" }), counted(store, { inbox: "sess_1" })];
      await store.post(postRow({ message: message("again") }));
      await told(store);
      expect(watchers.map((watcher) => watcher.count())).toEqual([0, 0]);
    });

    it("wakes the session of a row that is taken", async ({ store }) => {
      await store.post(postRow({ sessionId: "sess_2" }));
      await told(store);
      const watcher = counted(store, { session: "sess_2" });
      const woken = watcher.next();
      await commitOnce(store, { taken: ["post_1"] });
      await woken;
    });

    it("wakes a session whose lease is released", async ({ store }) => {
      const lease = await acquire(store);
      const watcher = counted(store, { session: "sess_1" });
      const woken = watcher.next();
      await store.release(lease);
      await woken;
      expect(await store.acquire("sess_1", "b", 1000)).toBeDefined();
    });

    it("does not wake for a commit that is refused", async ({ store }) => {
      const lease = await acquire(store);
      const watchers = [
        counted(store, { log: "task_1" }),
        counted(store, { session: "sess_1" }),
        counted(store, { task: "task_1" }),
      ];
      const refused = store.commit({
        lease,
        log: "task_1",
        ...structuredClone(commitOf),
        taken: ["post_none"],
      });
      await expect(refused).rejects.toMatchObject({ code: "conflict" });
      await told(store);
      expect(watchers.map((watcher) => watcher.count())).toEqual([0, 0, 0]);
    });

    it("wakes everyone who watches the same", async ({ store }) => {
      const watchers = range(0, 20).map(() => counted(store, { log: "task_1" }));
      const woken = watchers.map((watcher) => watcher.next());
      await commitOnce(store, { events: deltas(1) });
      await Promise.all(woken);
    });

    it("wakes again for the next change", async ({ store }) => {
      const watcher = counted(store, { log: "task_1" });
      for (let i = 0; i < 5; i++) {
        const woken = watcher.next();
        await commitOnce(store, { events: deltas(1) });
        await woken;
      }
    });

    it("does not wake who has stopped", async ({ store }) => {
      const watcher = counted(store, { log: "task_1" });
      watcher.stop();
      watcher.stop();
      await commitOnce(store, { events: deltas(1) });
      await told(store);
      expect(watcher.count()).toBe(0);
    });

    it("lets one stop while others go on", async ({ store }) => {
      const [stopped, going] = [
        counted(store, { log: "task_1" }),
        counted(store, { log: "task_1" }),
      ];
      stopped.stop();
      const woken = going.next();
      await commitOnce(store, { events: deltas(1) });
      await woken;
      expect(stopped.count()).toBe(0);
    });

    it("may be stopped from within a wake, oneself and others", async ({ store }) => {
      const log: string[] = [];
      const stops: (() => void)[] = [];
      for (const name of ["a", "b", "c"]) {
        stops.push(
          store.watch({ log: "task_1" }, () => {
            log.push(name);
            for (const stop of stops) stop();
          }),
        );
      }
      await commitOnce(store, { events: deltas(1) });
      await told(store);
      await commitOnce(store, { events: deltas(1) });
      await told(store);
      expect(log).toHaveLength(1);
    });

    it("may be started from within a wake", async ({ store }) => {
      const inner = new Promise<void>((resolve) => {
        const stop = store.watch({ log: "task_1" }, () => {
          stop();
          store.watch({ log: "task_1" }, resolve);
          void commitOnce(store, { events: deltas(1) }, "sess_1");
        });
      });
      const lease = await acquire(store);
      const committed = store.commit({ lease, log: "task_1", events: deltas(1) });
      await store.release(lease);
      await committed;
      await inner;
      expect(await store.last("task_1")).toBe(1);
    });

    it("survives a wake that throws", async ({ store }) => {
      store.watch({ log: "task_1" }, () => {
        throw new Error("a watcher's own fault");
      });
      const watcher = counted(store, { log: "task_1" });
      for (let i = 0; i < 2; i++) {
        const woken = watcher.next();
        await commitOnce(store, { events: deltas(1) });
        await woken;
      }
      expect(await store.last("task_1")).toBe(1);
    });
  });
}
