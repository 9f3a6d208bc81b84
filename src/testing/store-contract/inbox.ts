import { deepEqual, equal } from "node:assert/strict";
import type { Post } from "../../contract/index.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  childRecord,
  commitOnce,
  ids,
  message,
  postRow,
  range,
  record,
} from "./samples.ts";

/** Rows that any process posts and the owner takes. */
export function inboxCases({ describe, it }: StoreSuite): void {
  describe("inbox", () => {
    it("is empty at first", async ({ store }) => {
      deepEqual(await store.posts({}), []);
    });

    it("stores and returns a row", async ({ store }) => {
      const row = postRow({ kind: "answer", rootTaskId: "task_1" });
      deepEqual(await store.post([row]), [row]);
      deepEqual(await store.posts({}), [row]);
    });

    it("stores a row while another process owns the conversation", async ({ store }) => {
      await acquire(store);
      await store.post([postRow()]);
      deepEqual(ids(await store.posts({ sessionId: "sess_1" })), ["post_1"]);
    });

    it("stores rows of every kind, with and without a message", async ({ store }) => {
      const rows: Post[] = [
        { id: "post_1", kind: "cancel", sessionId: "sess_1" },
        { id: "post_2", kind: "answer", sessionId: "sess_1", message: message("a") },
        { id: "post_3", kind: "hint", sessionId: "sess_1", rootTaskId: "task_1" },
        { id: "post_4", kind: "input", sessionId: "sess_1", message: message("b") },
      ];
      for (const row of rows) await store.post([row]);
      deepEqual(await store.posts({}), rows);
    });

    it("keeps the first row of an id", async ({ store }) => {
      const first = postRow({ message: message("approve") });
      await store.post([first]);
      const second = postRow({ message: message("expire"), sessionId: "sess_2", kind: "cancel" });
      deepEqual(await store.post([second]), [first]);
      deepEqual(await store.posts({}), [first]);
    });

    it("returns the same row to every poster of an id", async ({ store }) => {
      const rows = range(0, 20).map((i) => postRow({ message: message(String(i)) }));
      const won = await Promise.all(rows.map((row) => store.post([row])));
      const [kept] = await store.posts({});
      for (const row of won) deepEqual(row, [kept]);
    });

    it("returns the first row after it was taken, and does not list it again", async ({
      store,
    }) => {
      const first = postRow();
      await store.post([first]);
      await commitOnce(store, { taken: ["post_1"] });
      deepEqual(await store.post([postRow({ message: message("late") })]), [first]);
      deepEqual(await store.posts({}), []);
    });

    it("lists by session and by root task", async ({ store }) => {
      const place = (id: string, sessionId: string, rootTaskId?: string) =>
        store.post([postRow({ id, sessionId, ...(rootTaskId !== undefined && { rootTaskId }) })]);
      await place("a", "sess_1");
      await place("b", "sess_1", "task_1");
      await place("c", "sub-1", "task_1");
      await place("d", "sess_2", "task_2");
      deepEqual(ids(await store.posts({})), ["a", "b", "c", "d"]);
      deepEqual(ids(await store.posts({ sessionId: "sess_1" })), ["a", "b"]);
      deepEqual(ids(await store.posts({ rootTaskId: "task_1" })), ["b", "c"]);
      deepEqual(ids(await store.posts({ sessionId: "sub-1", rootTaskId: "task_1" })), ["c"]);
      deepEqual(await store.posts({ sessionId: "sess_2", rootTaskId: "task_1" }), []);
      deepEqual(await store.posts({ sessionId: "sess_9" }), []);
    });

    it("lists the rows of a conversation: its root session and all descendants", async ({
      store,
    }) => {
      await commitOnce(store, {
        tasks: [
          record({ status: "completed" }),
          record({ taskId: "task_2" }),
          childRecord(),
          childRecord({ taskId: "call_2", sessionId: "sub-2", parentSessionId: "sub-1", depth: 2 }),
          record({ taskId: "task_9", sessionId: "sess_9" }),
        ],
      });
      await store.post([
        postRow({ id: "a", sessionId: "sub-2", rootTaskId: "task_1" }),
        postRow({ id: "b", sessionId: "sess_9" }),
        postRow({ id: "c", sessionId: "sub-1" }),
        postRow({ id: "d", rootTaskId: "task_2" }),
        postRow({ id: "e" }),
        postRow({ id: "f", sessionId: "sess_9", rootTaskId: "task_9" }),
      ]);
      deepEqual(ids(await store.posts({ conversation: "sess_1" })), ["a", "c", "d", "e"]);
      deepEqual(ids(await store.posts({ conversation: "sess_9" })), ["b", "f"]);
      deepEqual(await store.posts({ conversation: "sub-1" }), []);
      const both = { conversation: "sess_1", sessionId: "sub-1" };
      deepEqual(ids(await store.posts(both)), ["c"]);
      await commitOnce(store, { taken: ["a", "d"] });
      deepEqual(ids(await store.posts({ conversation: "sess_1" })), ["c", "e"]);
    });

    it("assigns rows that were posted before their tasks existed", async ({ store }) => {
      await store.post([
        postRow({ id: "a", sessionId: "sub-1" }),
        postRow({ id: "b", sessionId: "sub-1", rootTaskId: "task_1" }),
        postRow({ id: "c", sessionId: "sub-2" }),
      ]);
      deepEqual(ids(await store.posts({ conversation: "sub-1" })), ["a", "b"]);
      await commitOnce(store, { tasks: [childRecord()] });
      await commitOnce(store, { tasks: [record()] });
      await commitOnce(store, { tasks: [childRecord({ taskId: "call_2", sessionId: "sub-2" })] });
      deepEqual(await store.posts({ conversation: "sub-1" }), []);
      deepEqual(ids(await store.posts({ conversation: "sess_1" })), ["a", "b", "c"]);
      const children = await store.tasks({ conversation: "sess_1", status: ["in_progress"] });
      deepEqual(
        children.map(({ taskId }) => taskId),
        ["call_1", "task_1", "call_2"],
      );
    });

    it("adds the rows of a call together and returns the stored rows in order", async ({
      store,
    }) => {
      const first = postRow({ message: message("first") });
      await store.post([first]);
      const rows = [
        postRow({ id: "post_3" }),
        postRow({ message: message("second") }),
        postRow({ id: "post_2", kind: "cancel", taskId: "task_1", ifQueued: true }),
        postRow({ id: "post_3", kind: "hint" }),
      ];
      deepEqual(await store.post(rows), [rows[0], first, rows[2], rows[0]]);
      deepEqual(await store.posts({}), [first, rows[0], rows[2]]);
      deepEqual(await store.post([]), []);
    });

    it("lists in insertion order", async ({ store }) => {
      const order = ["post_c", "post_a", "post_d", "post_b"];
      for (const id of order) await store.post([postRow({ id })]);
      deepEqual(ids(await store.posts({ sessionId: "sess_1" })), order);
      await commitOnce(store, { taken: ["post_a"] });
      deepEqual(ids(await store.posts({})), ["post_c", "post_d", "post_b"]);
    });

    it("stores the rows of a commit in order", async ({ store }) => {
      await commitOnce(store, { posts: range(0, 5).map((i) => postRow({ id: `post_${i}` })) });
      deepEqual(
        ids(await store.posts({})),
        range(0, 5).map((i) => `post_${i}`),
      );
    });

    it("keeps the first row of an id when a commit posts another", async ({ store }) => {
      const first = postRow({ message: message("first") });
      await store.post([first]);
      const second = postRow({ message: message("second") });
      await commitOnce(store, { posts: [second, postRow({ id: "post_2" }), second] });
      deepEqual(await store.posts({}), [first, postRow({ id: "post_2" })]);
    });

    it("keeps a row taken when a commit posts it again", async ({ store }) => {
      await store.post([postRow()]);
      await commitOnce(store, { taken: ["post_1"] });
      await commitOnce(store, { posts: [postRow()] });
      deepEqual(await store.posts({}), []);
    });

    it("lets a commit take a row that it posts", async ({ store }) => {
      await commitOnce(store, { posts: [postRow()], taken: ["post_1"] });
      deepEqual(await store.posts({}), []);
      deepEqual(await store.post([postRow({ kind: "hint" })]), [postRow()]);
    });

    it("accepts one of many commits that take a row", async ({ store }) => {
      await store.post([postRow()]);
      const lease = await acquire(store);
      const tries = await Promise.allSettled(
        range(0, 10).map((i) =>
          store.commit({
            lease,
            log: "task_1",
            taken: ["post_1"],
            tasks: [],
            posts: [postRow({ id: `from_${i}` })],
          }),
        ),
      );
      equal(tries.filter((result) => result.status === "fulfilled").length, 1);
      equal((await store.posts({})).length, 1);
    });

    it("returns a new array each time", async ({ store }) => {
      await store.post([postRow()]);
      ((await store.posts({})) as Post[]).length = 0;
      ((await store.posts({ sessionId: "sess_1" })) as Post[]).length = 0;
      equal((await store.posts({})).length, 1);
      equal((await store.posts({ sessionId: "sess_1" })).length, 1);
    });

    it("keeps every text unchanged, up to a megabyte", async ({ store }) => {
      const texts = [...awkwardTexts, "x".repeat(1_000_000)];
      for (const [i, text] of texts.entries()) {
        await store.post([postRow({ id: `post_${i}`, message: message(text, `msg_${i}`) })]);
      }
      deepEqual(
        (await store.posts({})).map((row) => row.message?.content),
        texts.map((text) => [{ type: "text", text }]),
      );
    });
  });
}
