import { describe, expect } from "vitest";
import type { Post } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import { acquire, awkwardTexts, commitOnce, ids, message, postRow, range } from "./samples.ts";

/** Rows that anyone posts and only the owner takes. */
export function inboxCases(it: ContractTest): void {
  describe("the inbox", () => {
    it("is empty at first", async ({ store }) => {
      expect(await store.posts({})).toEqual([]);
    });

    it("takes a row from anyone and gives it back", async ({ store }) => {
      const row = postRow({ kind: "answer", rootTaskId: "task_1" });
      expect(await store.post(row)).toEqual(row);
      expect(await store.posts({})).toEqual([row]);
    });

    it("takes a row while another owns the conversation", async ({ store }) => {
      await acquire(store);
      await store.post(postRow());
      expect(ids(await store.posts({ sessionId: "sess_1" }))).toEqual(["post_1"]);
    });

    it("takes rows of every kind, with and without a message", async ({ store }) => {
      const rows: Post[] = [
        { id: "post_1", kind: "cancel", sessionId: "sess_1" },
        { id: "post_2", kind: "answer", sessionId: "sess_1", message: message("a") },
        { id: "post_3", kind: "hint", sessionId: "sess_1", rootTaskId: "task_1" },
        { id: "post_4", kind: "input", sessionId: "sess_1", message: message("b") },
      ];
      for (const row of rows) await store.post(row);
      expect(await store.posts({})).toEqual(rows);
    });

    it("keeps the first row of an id", async ({ store }) => {
      const first = postRow({ message: message("approve") });
      await store.post(first);
      const second = postRow({ message: message("expire"), sessionId: "sess_2", kind: "cancel" });
      expect(await store.post(second)).toEqual(first);
      expect(await store.posts({})).toEqual([first]);
    });

    it("gives every poster of an id the same row", async ({ store }) => {
      const rows = range(0, 20).map((i) => postRow({ message: message(String(i)) }));
      const won = await Promise.all(rows.map((row) => store.post(row)));
      const [kept] = await store.posts({});
      for (const row of won) expect(row).toEqual(kept);
    });

    it("gives back the first row also after it was taken, and does not list it again", async ({
      store,
    }) => {
      const first = postRow();
      await store.post(first);
      await commitOnce(store, { taken: ["post_1"] });
      expect(await store.post(postRow({ message: message("late") }))).toEqual(first);
      expect(await store.posts({})).toEqual([]);
    });

    it("lists by session, by root task, by both", async ({ store }) => {
      const place = (id: string, sessionId: string, rootTaskId?: string) =>
        store.post(postRow({ id, sessionId, ...(rootTaskId !== undefined && { rootTaskId }) }));
      await place("a", "sess_1");
      await place("b", "sess_1", "task_1");
      await place("c", "sub-1", "task_1");
      await place("d", "sess_2", "task_2");
      expect(ids(await store.posts({}))).toEqual(["a", "b", "c", "d"]);
      expect(ids(await store.posts({ sessionId: "sess_1" }))).toEqual(["a", "b"]);
      expect(ids(await store.posts({ rootTaskId: "task_1" }))).toEqual(["b", "c"]);
      expect(ids(await store.posts({ sessionId: "sub-1", rootTaskId: "task_1" }))).toEqual(["c"]);
      expect(await store.posts({ sessionId: "sess_2", rootTaskId: "task_1" })).toEqual([]);
      expect(await store.posts({ sessionId: "sess_9" })).toEqual([]);
    });

    it("lists in the order of posting, whatever the ids", async ({ store }) => {
      const order = ["post_c", "post_a", "post_d", "post_b"];
      for (const id of order) await store.post(postRow({ id }));
      expect(ids(await store.posts({ sessionId: "sess_1" }))).toEqual(order);
      await commitOnce(store, { taken: ["post_a"] });
      expect(ids(await store.posts({}))).toEqual(["post_c", "post_d", "post_b"]);
    });

    it("takes rows from a commit, in their order", async ({ store }) => {
      await commitOnce(store, { posts: range(0, 5).map((i) => postRow({ id: `post_${i}` })) });
      expect(ids(await store.posts({}))).toEqual(range(0, 5).map((i) => `post_${i}`));
    });

    it("keeps the first row of an id also against a commit", async ({ store }) => {
      const first = postRow({ message: message("first") });
      await store.post(first);
      const second = postRow({ message: message("second") });
      await commitOnce(store, { posts: [second, postRow({ id: "post_2" }), second] });
      expect(await store.posts({})).toEqual([first, postRow({ id: "post_2" })]);
    });

    it("does not bring a taken row back with a commit that posts it", async ({ store }) => {
      await store.post(postRow());
      await commitOnce(store, { taken: ["post_1"] });
      await commitOnce(store, { posts: [postRow()] });
      expect(await store.posts({})).toEqual([]);
    });

    it("lets a commit take a row that it posts", async ({ store }) => {
      await commitOnce(store, { posts: [postRow()], taken: ["post_1"] });
      expect(await store.posts({})).toEqual([]);
      expect(await store.post(postRow({ kind: "hint" }))).toEqual(postRow());
    });

    it("gives a row to one of many commits that take it", async ({ store }) => {
      await store.post(postRow());
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
      expect(tries.filter((result) => result.status === "fulfilled")).toHaveLength(1);
      expect(await store.posts({})).toHaveLength(1);
    });

    it("does not change with a list that came out", async ({ store }) => {
      await store.post(postRow());
      ((await store.posts({})) as Post[]).length = 0;
      ((await store.posts({ sessionId: "sess_1" })) as Post[]).length = 0;
      expect(await store.posts({})).toHaveLength(1);
      expect(await store.posts({ sessionId: "sess_1" })).toHaveLength(1);
    });

    it("keeps every text as it was, and a megabyte of it", async ({ store }) => {
      const texts = [...awkwardTexts, "x".repeat(1_000_000)];
      for (const [i, text] of texts.entries()) {
        await store.post(postRow({ id: `post_${i}`, message: message(text, `msg_${i}`) }));
      }
      expect((await store.posts({})).map((row) => row.message?.content)).toEqual(
        texts.map((text) => [{ type: "text", text }]),
      );
    });
  });
}
