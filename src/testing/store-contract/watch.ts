import { deepEqual, equal, notEqual, ok, rejects } from "node:assert/strict";
import type { Store, WatchKey } from "../../contract/index.ts";
import type { StoreSuite } from "./fixture.ts";
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

/** Counts the wakes of a key; `next` resolves at the next wake. */
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

/** Resolves when the watchers of all earlier changes have been woken. */
async function wakesDelivered(store: Store): Promise<void> {
  barriers += 1;
  const sessionId = `sess_barrier_${barriers}`;
  const watcher = counted(store, { session: sessionId });
  const woken = watcher.next();
  await store.post([postRow({ id: `post_barrier_${barriers}`, sessionId, kind: "hint" })]);
  await woken;
  watcher.stop();
}

/** Posts a row and queues a task, and waits for a wake after each. */
async function wakesAll(
  store: Store,
  watcher: ReturnType<typeof counted>,
  id: string,
): Promise<void> {
  const posted = watcher.next();
  await store.post([postRow({ id: `post_${id}`, sessionId: `sess_${id}` })]);
  await posted;
  const queued = watcher.next();
  const sessionId = `sess_queued_${id}`;
  const taskId = `task_${id}`;
  const queuedRecord = { taskId, rootTaskId: taskId, sessionId, path: sessionId };
  await store.enqueue(record({ ...queuedRecord, status: "queued" }));
  await queued;
}

/** Wakes after changes. */
export function watchCases({ describe, it }: StoreSuite): void {
  describe("watch", () => {
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
        // No release: it wakes the session too.
        const lease = await acquire(store);
        await store.commit({ lease, log: "task_1", ...structuredClone(commitOf) });
        await woken;
      });

      it(`does not wake for ${what} that a commit does not change`, async ({ store }) => {
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
        await wakesDelivered(store);
        equal(watcher.count(), 0);
      });
    }

    it("wakes after the change is readable", async ({ store }) => {
      const lease = await acquire(store);
      for (const i of range(0, 20)) {
        const seen = new Promise<number>((resolve, reject) => {
          const stop = store.watch({ log: "task_1" }, () => {
            stop();
            store.last("task_1").then(resolve, reject);
          });
        });
        await store.commit({ lease, log: "task_1", events: deltas(1) });
        equal(await seen, i);
      }
    });

    it("wakes for a session with new messages, and for one with a changed task", async ({
      store,
    }) => {
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
      await store.post([postRow({ kind: "answer", sessionId: "sub-1", rootTaskId: "task_1" })]);
      await Promise.all(woken);
    });

    it("wakes for a post within a commit", async ({ store }) => {
      await commitOnce(store, { tasks: [record(), childRecord()] });
      const watchers = [counted(store, { session: "sess_2" }), counted(store, { inbox: "sess_2" })];
      const woken = watchers.map((watcher) => watcher.next());
      await commitOnce(store, { posts: [postRow({ kind: "hint", sessionId: "sess_2" })] });
      await Promise.all(woken);
    });

    it("does not wake an inbox for commits and posts elsewhere", async ({ store }) => {
      await store.post([postRow()]);
      await wakesDelivered(store);
      const watcher = counted(store, { inbox: "sess_1" });
      const lease = await acquire(store);
      await store.commit({
        lease,
        log: "task_1",
        ...structuredClone(commitOf),
        taken: ["post_1"],
      });
      await store.post([postRow({ id: "post_2", sessionId: "sess_2" })]);
      await wakesDelivered(store);
      equal(watcher.count(), 0);
    });

    it("does not wake for a post whose id exists", async ({ store }) => {
      await store.post([postRow()]);
      await wakesDelivered(store);
      const watchers = [counted(store, { session: "sess_1" }), counted(store, { inbox: "sess_1" })];
      await store.post([postRow({ message: message("again") })]);
      await wakesDelivered(store);
      deepEqual(
        watchers.map((watcher) => watcher.count()),
        [0, 0],
      );
    });

    it("wakes the session of a row that is taken", async ({ store }) => {
      await store.post([postRow({ sessionId: "sess_2" })]);
      await wakesDelivered(store);
      const watcher = counted(store, { session: "sess_2" });
      const woken = watcher.next();
      await commitOnce(store, { taken: ["post_1"] });
      await woken;
    });

    it("wakes the watcher of all inboxes for rows and queued tasks of any session", async ({
      store,
    }) => {
      const watcher = counted(store, { inbox: "*" });
      await wakesAll(store, watcher, "own");
      watcher.stop();
    });

    it("wakes the watcher of all inboxes for those of a second process", async ({
      store,
      openSecond,
    }) => {
      const second = await openSecond();
      const watcher = counted(store, { inbox: "*" });
      await wakesAll(second, watcher, "second");
      watcher.stop();
      await second.close();
    });

    it("wakes the session and the inbox of a lease that is released", async ({ store }) => {
      const lease = await acquire(store);
      const watchers = [counted(store, { session: "sess_1" }), counted(store, { inbox: "sess_1" })];
      const woken = watchers.map((watcher) => watcher.next());
      await store.release(lease);
      await Promise.all(woken);
      notEqual(await store.acquire("sess_1", "b", 1000), undefined);
    });

    it("wakes the task, the session and the inbox of a task that is queued", async ({ store }) => {
      const watchers = [
        counted(store, { task: "task_1" }),
        counted(store, { session: "sess_1" }),
        counted(store, { inbox: "sess_1" }),
      ];
      const woken = watchers.map((watcher) => watcher.next());
      await store.enqueue(record({ status: "queued" }));
      await Promise.all(woken);
      await wakesDelivered(store);
      const counts = watchers.map((watcher) => watcher.count());
      await store.enqueue(record({ status: "queued" }));
      const rejected = store.enqueue(record({ taskId: "task_2", status: "queued" }), {
        ifIdle: true,
      });
      await rejects(rejected, { code: "agent_busy" });
      await wakesDelivered(store);
      deepEqual(
        watchers.map((watcher) => watcher.count()),
        counts,
      );
    });

    for (const [what, key] of Object.entries({
      "a log": { log: "task_1" },
      "a session": { session: "sess_1" },
      "a task": { task: "task_1" },
      "an inbox": { inbox: "sess_1" },
    } satisfies Record<string, WatchKey>)) {
      it(`wakes for ${what} only when a second process changes it`, async ({
        store,
        openSecond,
      }) => {
        const second = await openSecond();
        const watcher = counted(store, key);
        const foreign = {
          log: "task_9",
          events: deltas(1),
          posts: [postRow({ sessionId: "sess_9" })],
        };
        const barrier = counted(store, { log: "task_9" });
        const passed = barrier.next();
        await commitOnce(second, foreign, "sess_9");
        await passed;
        equal(watcher.count(), 0);
        const woken = watcher.next();
        const started = performance.now();
        await commitOnce(second, { ...structuredClone(commitOf), posts: [postRow()] });
        await woken;
        ok(performance.now() - started < 1000);
      });
    }

    it("wakes when a second process enqueues, takes a row or releases", async ({
      store,
      openSecond,
    }) => {
      const second = await openSecond();
      const inbox = counted(store, { inbox: "sess_1" });
      const session = counted(store, { session: "sess_1" });
      let woken = [inbox.next(), session.next()];
      await second.enqueue(record({ status: "queued" }));
      await Promise.all(woken);
      const lease = await acquire(second);
      await second.post([postRow()]);
      await wakesDelivered(second);
      woken = [session.next()];
      await second.commit({ lease, log: "task_1", taken: ["post_1"] });
      await Promise.all(woken);
      woken = [inbox.next(), session.next()];
      await second.release(lease);
      await Promise.all(woken);
    });

    it("wakes for events that a second process writes after a trim or a delete", async ({
      store,
      openSecond,
    }) => {
      const second = await openSecond();
      const watcher = counted(store, { log: "task_1" });
      for (const round of range(0, 3)) {
        let woken = watcher.next();
        await commitOnce(second, { events: deltas(1) });
        await woken;
        const last = await second.last("task_1");
        equal(await store.last("task_1"), last);
        woken = watcher.next();
        if (round % 2 === 0) await second.trim("task_1", { through: last, tasks: [] });
        else await second.deleteSession("sess_1");
        await commitOnce(second, { events: deltas(1) });
        await woken;
      }
    });

    it("wakes for a second process between many commits of its own", async ({
      store,
      openSecond,
    }) => {
      const second = await openSecond();
      const watcher = counted(store, { log: "task_9" });
      const lease = await acquire(store);
      const other = await acquire(second, "sess_9");
      for (const round of range(0, 5)) {
        const woken = watcher.next();
        for (const i of range(0, 100)) {
          await store.commit({ lease, log: "task_1", events: deltas(1, i) });
          if (i === 50) await second.commit({ lease: other, log: "task_9", events: deltas(1) });
        }
        await woken;
        equal(await store.last("task_9"), round);
      }
    });

    it("does not wake for a rejected commit", async ({ store }) => {
      const lease = await acquire(store);
      const watchers = [
        counted(store, { log: "task_1" }),
        counted(store, { session: "sess_1" }),
        counted(store, { task: "task_1" }),
      ];
      const rejected = store.commit({
        lease,
        log: "task_1",
        ...structuredClone(commitOf),
        taken: ["post_none"],
      });
      await rejects(rejected, { code: "conflict" });
      await wakesDelivered(store);
      deepEqual(
        watchers.map((watcher) => watcher.count()),
        [0, 0, 0],
      );
    });

    it("wakes all watchers of a key", async ({ store }) => {
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

    it("does not wake a stopped watcher", async ({ store }) => {
      const watcher = counted(store, { log: "task_1" });
      watcher.stop();
      watcher.stop();
      await commitOnce(store, { events: deltas(1) });
      await wakesDelivered(store);
      equal(watcher.count(), 0);
    });

    it("keeps other watchers when one stops", async ({ store }) => {
      const [stopped, going] = [
        counted(store, { log: "task_1" }),
        counted(store, { log: "task_1" }),
      ];
      stopped.stop();
      const woken = going.next();
      await commitOnce(store, { events: deltas(1) });
      await woken;
      equal(stopped.count(), 0);
    });

    it("lets a wake stop its own and other watchers", async ({ store }) => {
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
      await wakesDelivered(store);
      await commitOnce(store, { events: deltas(1) });
      await wakesDelivered(store);
      equal(log.length, 1);
    });

    it("hands committed events to watchers of the log, with their numbers", async ({ store }) => {
      const seen: number[] = [];
      let next = Promise.withResolvers<void>();
      let after = -1;
      store.watch({ log: "task_1" }, (committed) => {
        equal(committed?.after, after);
        for (const event of committed?.events ?? [])
          seen.push((event as { sequence_number: number }).sequence_number);
        after += committed?.events.length ?? 0;
        next.resolve();
        next = Promise.withResolvers();
      });
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", tasks: [record()] });
      for (const count of [2, 1, 3]) {
        const { promise } = next;
        await store.commit({ lease, log: "task_1", events: deltas(count, after + 1) });
        await promise;
      }
      deepEqual(seen, range(0, 6));
      deepEqual(
        (await store.read("task_1", -1, 10)).map((event) => "delta" in event && event.delta),
        deltas(6).map(({ delta }) => delta),
      );
    });

    it("hands over nothing of a refused commit", async ({ store }) => {
      const handed: number[] = [];
      store.watch({ log: "task_1" }, (committed) => {
        handed.push(committed?.events.length ?? -1);
      });
      const lease = await acquire(store);
      const good = { lease, log: "task_1", tasks: [record()], events: deltas(2) };
      const appends = [{ sessionId: "sess_1", at: 7, messages: [message("a")] }];
      const refused = { lease, log: "task_1", events: deltas(3, 2), appends };
      equal(await store.commit(good, [refused]), 1);
      await rejects(store.commit(refused));
      await wakesDelivered(store);
      deepEqual(handed, [2]);
    });

    it("lets a wake start a watcher", async ({ store }) => {
      const inner = new Promise<void>((resolve) => {
        const stop = store.watch({ log: "task_1" }, () => {
          stop();
          store.watch({ log: "task_1" }, () => resolve());
          void commitOnce(store, { events: deltas(1) }, "sess_1");
        });
      });
      const lease = await acquire(store);
      const committed = store.commit({ lease, log: "task_1", events: deltas(1) });
      await store.release(lease);
      await committed;
      await inner;
      equal(await store.last("task_1"), 1);
    });

    it("keeps working when a wake throws", async ({ store }) => {
      store.watch({ log: "task_1" }, () => {
        throw new Error("a watcher's own fault");
      });
      const watcher = counted(store, { log: "task_1" });
      for (let i = 0; i < 2; i++) {
        const woken = watcher.next();
        await commitOnce(store, { events: deltas(1) });
        await woken;
      }
      equal(await store.last("task_1"), 1);
    });
  });
}
