import { describe, expect } from "vitest";
import type { Store } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
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
  await store.post(postRow({ id: "post_taken" }));
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

/** Conversations that are forgotten. */
export function deleteCases(it: ContractTest): void {
  describe("a session that is deleted", () => {
    it("leaves nothing behind, its descendants neither", async ({ store }) => {
      const before = await everythingOf(store);
      await begin(store);
      expect(await store.deleteSession("sess_1")).toBe(true);
      expect(await everythingOf(store)).toEqual(before);
    });

    it("is deleted once", async ({ store }) => {
      expect(await store.deleteSession("sess_1")).toBe(false);
      await begin(store);
      expect(await store.deleteSession("sess_1")).toBe(true);
      expect(await store.deleteSession("sess_1")).toBe(false);
    });

    it("leaves the others alone", async ({ store }) => {
      await begin(store);
      const task = record({ taskId: "task_2", sessionId: "sess_2" });
      const appends = [{ sessionId: "sess_2", at: 0, messages: [message("c")] }];
      const posts = [postRow({ id: "post_other", sessionId: "sess_2" })];
      const commit = { log: "task_2", events: deltas(2), tasks: [task], appends, posts };
      await commitOnce(store, commit, "sess_2");
      await store.deleteSession("sess_1");
      expect(await store.last("task_2")).toBe(1);
      expect(ids(await store.session("sess_2"))).toEqual(["msg_c"]);
      expect(await store.tasks({})).toEqual([task]);
      expect(ids(await store.posts({}))).toEqual(["post_other"]);
      expect(await store.sessions({ limit: 10 })).toHaveLength(1);
    });

    it("is kept while it has a live owner", async ({ store, clock }) => {
      await begin(store);
      await acquire(store, "sess_1", { ttlMs: 1000 });
      await expect(store.deleteSession("sess_1")).rejects.toMatchObject({ code: "conflict" });
      expect(await store.session("sess_1")).toHaveLength(1);
      clock.advance(1000);
      expect(await store.deleteSession("sess_1")).toBe(true);
    });

    it("does not come back through an owner who was late", async ({ store, clock }) => {
      await begin(store);
      const late = await acquire(store, "sess_1", { ttlMs: 1000 });
      clock.advance(1000);
      await store.deleteSession("sess_1");
      const commit = store.commit({ lease: late, log: "task_1", tasks: [record()] });
      await expect(commit).rejects.toMatchObject({ code: "fenced" });
      expect(await store.renew([late], 1000)).toEqual([]);
      expect(await store.sessions({ limit: 10 })).toEqual([]);
      expect((await acquire(store)).fence).toBeGreaterThan(late.fence);
    });

    it("is not a child's alone", async ({ store }) => {
      await begin(store);
      await expect(store.deleteSession("sub-1")).rejects.toMatchObject({ code: "conflict" });
      expect(await store.session("sub-1")).toHaveLength(1);
    });

    it("may begin anew", async ({ store }) => {
      await begin(store);
      await store.deleteSession("sess_1");
      await begin(store);
      expect(await store.last("task_1")).toBe(2);
      expect(ids(await store.session("sess_1"))).toEqual(["msg_a"]);
      expect(ids(await store.posts({}))).toEqual(["post_waiting", "post_child"]);
    });

    it("takes its trimmed logs along", async ({ store }) => {
      await begin(store);
      await store.trim("task_1", { through: 2, tasks: [] });
      await store.deleteSession("sess_1");
      expect(await store.snapshot("task_1")).toBeUndefined();
      expect(await store.read("task_1", -1, 10)).toEqual([]);
    });

    it("wakes whoever watches it", async ({ store }) => {
      await begin(store);
      const woken = [
        { log: "task_1" },
        { session: "sess_1" },
        { session: "sub-1" },
        { task: "call_1" },
      ].map((key) => new Promise<void>((resolve) => store.watch(key, resolve)));
      await store.deleteSession("sess_1");
      await Promise.all(woken);
    });
  });
}
