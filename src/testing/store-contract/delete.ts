import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { Store } from "../../contract/index.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  childRecord,
  commitOnce,
  deltas,
  ids,
  message,
  postRow,
  record,
} from "./samples.ts";

/** A conversation with a child, both with messages, a log and rows in the inbox. */
async function begin(store: Store): Promise<void> {
  await store.post([postRow({ id: "post_taken" })]);
  await commitOnce(store, {
    events: deltas(3),
    tasks: [record({ userId: "ann" }), childRecord({ mode: "background" })],
    appends: [
      { sessionId: "sess_1", at: 0, messages: [message("a")] },
      { sessionId: "sub-1", at: 0, messages: [message("b")] },
    ],
    posts: [
      postRow({ id: "post_waiting" }),
      postRow({ id: "post_child", sessionId: "sub-1", kind: "answer", rootTaskId: "task_1" }),
    ],
    taken: ["post_taken"],
  });
}

async function everythingOf(store: Store) {
  return {
    events: await store.read("task_1", -1, 100),
    last: await store.last("task_1"),
    root: await store.session("sess_1"),
    child: await store.session("sub-1"),
    task: await store.task("task_1"),
    tasks: await store.tasks({ rootTaskId: "task_1" }),
    posts: [
      ...(await store.posts({ sessionId: "sess_1" })),
      ...(await store.posts({ rootTaskId: "task_1" })),
    ],
    sessions: await store.sessions({ userId: "ann", limit: 10 }),
    found: await store.search({ text: "a", limit: 10 }),
    expired: (await store.expired(10)).filter((id) => id === "sess_1" || id === "sub-1"),
  };
}

/** Deleted conversations. */
export function deleteCases({ describe, it }: StoreSuite): void {
  describe("deleteSession", () => {
    it("deletes the session with all its descendants", async ({ store }) => {
      const before = await everythingOf(store);
      await begin(store);
      ok(await store.deleteSession("sess_1"));
      deepEqual(await everythingOf(store), before);
    });

    it("returns false for a session that does not exist", async ({ store }) => {
      equal(await store.deleteSession("sess_1"), false);
      await begin(store);
      ok(await store.deleteSession("sess_1"));
      equal(await store.deleteSession("sess_1"), false);
    });

    it("keeps other conversations", async ({ store }) => {
      await begin(store);
      const task = record({ taskId: "task_2", sessionId: "sess_2" });
      const appends = [{ sessionId: "sess_2", at: 0, messages: [message("c")] }];
      const posts = [postRow({ id: "post_other", sessionId: "sess_2" })];
      const commit = { log: "task_2", events: deltas(2), tasks: [task], appends, posts };
      await commitOnce(store, commit, "sess_2");
      await store.deleteSession("sess_1");
      equal(await store.last("task_2"), 1);
      deepEqual(ids(await store.session("sess_2")), ["msg_c"]);
      deepEqual(await store.tasks({}), [task]);
      deepEqual(ids(await store.posts({})), ["post_other"]);
      equal((await store.sessions({ limit: 10 })).length, 1);
    });

    it("rejects while the conversation has a live owner", async ({ store, clock }) => {
      await begin(store);
      await acquire(store, "sess_1", { ttlMs: 1000 });
      await rejects(store.deleteSession("sess_1"), { code: "conflict" });
      equal((await store.session("sess_1")).length, 1);
      clock.advance(1000);
      ok(await store.deleteSession("sess_1"));
    });

    it("rejects a late commit of the former owner", async ({ store, clock }) => {
      await begin(store);
      const late = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      await store.deleteSession("sess_1");
      const commit = store.commit({ lease: late, log: "task_1", tasks: [record()] });
      await rejects(commit, { code: "fenced" });
      deepEqual(await store.renew([late], 1000), []);
      deepEqual(await store.sessions({ limit: 10 }), []);
      ok((await acquire(store)).fence > late.fence);
    });

    it("rejects the session of a child", async ({ store }) => {
      await begin(store);
      await rejects(store.deleteSession("sub-1"), { code: "conflict" });
      equal((await store.session("sub-1")).length, 1);
    });

    it("lets the session start again", async ({ store }) => {
      await begin(store);
      await store.deleteSession("sess_1");
      await begin(store);
      equal(await store.last("task_1"), 2);
      deepEqual(ids(await store.session("sess_1")), ["msg_a"]);
      deepEqual(ids(await store.posts({})), ["post_waiting", "post_child"]);
    });

    it("deletes trimmed logs", async ({ store }) => {
      await begin(store);
      await store.trim("task_1", { through: 2, tasks: [] });
      await store.deleteSession("sess_1");
      equal(await store.snapshot("task_1"), undefined);
      deepEqual(await store.read("task_1", -1, 10), []);
    });

    it("deletes the blobs of its tasks and no other file", async ({ store }) => {
      await begin(store);
      const kept = ["blobs/task_10/a", "blobs/task_2/a", "notes/task_1/a"];
      for (const path of ["blobs/task_1/a", "blobs/call_1/b", ...kept]) {
        await store.files.put(path, new Uint8Array([1]));
      }
      await store.deleteSession("sess_1");
      deepEqual(
        (await store.files.list("")).map(({ path }) => path),
        kept,
      );
    });

    it("wakes the watchers of the session", async ({ store }) => {
      await begin(store);
      const woken = [
        { log: "task_1" },
        { session: "sess_1" },
        { session: "sub-1" },
        { task: "call_1" },
      ].map((key) => new Promise<void>((resolve) => store.watch(key, () => resolve())));
      await store.deleteSession("sess_1");
      await Promise.all(woken);
    });
  });
}
