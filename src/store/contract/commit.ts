import { describe, expect } from "vitest";
import type { Commit, Store } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  childRecord,
  delta,
  deltas,
  ids,
  message,
  postRow,
  range,
  record,
  textOfEvent,
} from "./samples.ts";

/** Everything that a commit could have changed in the conversations of these cases. */
async function everything(store: Store) {
  return {
    events: await store.read("task_1", -1, 1000),
    last: await store.last("task_1"),
    root: await store.session("sess_1"),
    child: await store.session("sub-1"),
    sessions: await store.sessions({ limit: 100 }),
    tasks: await store.tasks({}),
    posts: await store.posts({}),
  };
}

/** Commits that must be refused, each with one part that fails among others that would not. */
const refused: readonly {
  readonly because: string;
  readonly code: string;
  readonly commit: Omit<Commit, "lease" | "log"> & { readonly log?: string };
  readonly stale?: boolean;
}[] = [
  { because: "its fence is old", code: "fenced", commit: {}, stale: true },
  {
    because: "an append is too early",
    code: "conflict",
    commit: { appends: [{ sessionId: "sess_1", at: 0, messages: [message("x")] }] },
  },
  {
    because: "an append is too late",
    code: "conflict",
    commit: { appends: [{ sessionId: "sess_1", at: 2, messages: [message("x")] }] },
  },
  {
    because: "only the second append fails",
    code: "conflict",
    commit: {
      appends: [
        { sessionId: "sub-1", at: 0, messages: [message("x")] },
        { sessionId: "sess_1", at: 7, messages: [message("x")] },
      ],
    },
  },
  {
    because: "two appends claim the same place",
    code: "conflict",
    commit: {
      appends: [
        { sessionId: "sess_1", at: 1, messages: [message("x")] },
        { sessionId: "sess_1", at: 1, messages: [message("y")] },
      ],
    },
  },
  {
    because: "a task has ended otherwise",
    code: "conflict",
    commit: { tasks: [childRecord({ taskId: "call_2" }), childRecord({ status: "in_progress" })] },
  },
  {
    because: "a task goes on after its end within the commit",
    code: "conflict",
    commit: { tasks: [record({ status: "completed" }), record({ status: "in_progress" })] },
  },
  {
    because: "a row is already taken",
    code: "conflict",
    commit: { taken: ["post_free", "post_taken"] },
  },
  {
    because: "a row that it posts again is already taken",
    code: "conflict",
    commit: { posts: [postRow({ id: "post_taken" })], taken: ["post_taken"] },
  },
  { because: "a row is unknown", code: "conflict", commit: { taken: ["post_free", "post_none"] } },
  {
    because: "a row is named twice",
    code: "conflict",
    commit: { taken: ["post_free", "post_free"] },
  },
  {
    because: "the log is another conversation's",
    code: "conflict",
    commit: { log: "task_other" },
  },
];

/** One step, whole or not at all. */
export function commitCases(it: ContractTest): void {
  describe("commits", () => {
    it("write every part at once", async ({ store }) => {
      const lease = await acquire(store);
      await store.post(postRow());
      await store.commit({
        lease,
        log: "task_1",
        events: deltas(2),
        appends: [
          { sessionId: "sess_1", at: 0, messages: [message("a"), message("b")] },
          { sessionId: "sub-1", at: 0, messages: [message("c")] },
        ],
        tasks: [record(), childRecord()],
        posts: [postRow({ id: "post_2", kind: "hint", sessionId: "sub-1" })],
        taken: ["post_1"],
      });
      expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual(["0", "1"]);
      expect(ids(await store.session("sess_1"))).toEqual(["msg_a", "msg_b"]);
      expect(ids(await store.session("sub-1"))).toEqual(["msg_c"]);
      expect(await store.task("task_1")).toEqual(record());
      expect(await store.task("call_1")).toEqual(childRecord());
      expect(ids(await store.posts({}))).toEqual(["post_2"]);
    });

    it("may be empty", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1" });
      await store.commit({
        lease,
        log: "task_1",
        events: [],
        appends: [],
        tasks: [],
        posts: [],
        taken: [],
      });
      expect(await store.last("task_1")).toBe(-1);
    });

    it("are refused without a lease", async ({ store }) => {
      const invented = { sessionId: "sess_1", owner: "x", fence: 1, expiresAt: 9e15 };
      const commit = store.commit({ lease: invented, log: "task_1", events: deltas(1) });
      await expect(commit).rejects.toMatchObject({ name: "RivuletError", code: "fenced" });
      expect(await store.last("task_1")).toBe(-1);
    });

    it("are refused with a fence from the future", async ({ store }) => {
      const lease = await acquire(store);
      const ahead = { ...lease, fence: lease.fence + 1 };
      await expect(store.commit({ lease: ahead, log: "task_1" })).rejects.toMatchObject({
        code: "fenced",
      });
    });

    it("are refused with the lease of another conversation under this one's name", async ({
      store,
    }) => {
      for (let i = 0; i < 5; i++) await store.release(await acquire(store, "sess_2"));
      const other = await acquire(store, "sess_2");
      await acquire(store, "sess_1");
      const forged = { ...other, sessionId: "sess_1" };
      await expect(store.commit({ lease: forged, log: "task_1" })).rejects.toMatchObject({
        code: "fenced",
      });
    });

    it("are refused after the release", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      await expect(store.commit({ lease, log: "task_1", events: deltas(1) })).rejects.toMatchObject(
        { code: "fenced" },
      );
    });

    it("are refused from the moment another owner has taken over", async ({ store, clock }) => {
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease: lost, log: "task_1", events: [delta("mine")] });
      clock.advance(1000);
      await store.commit({ lease: lost, log: "task_1", events: [delta("late, not yet taken")] });
      const taken = await acquire(store, "sess_1", { owner: "b" });
      await expect(
        store.commit({ lease: lost, log: "task_1", events: [delta("stale")] }),
      ).rejects.toMatchObject({ code: "fenced" });
      await store.commit({ lease: taken, log: "task_1", events: [delta("theirs")] });
      expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual([
        "mine",
        "late, not yet taken",
        "theirs",
      ]);
    });

    it("are refused to a stale owner of the same name", async ({ store, clock }) => {
      const lost = await acquire(store, "sess_1", { owner: "a", ttlMs: 1000 });
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "a" });
      await expect(store.commit({ lease: lost, log: "task_1" })).rejects.toMatchObject({
        code: "fenced",
      });
    });

    it("are taken with the lease as it was before it was renewed", async ({ store }) => {
      const lease = await acquire(store);
      const [renewed] = await store.renew([lease], 90_000);
      await store.commit({ lease, log: "task_1", events: deltas(1) });
      await store.commit({ lease: renewed ?? lease, log: "task_1", events: deltas(1) });
      expect(await store.last("task_1")).toBe(1);
    });

    for (const { because, code, commit, stale } of refused) {
      it(`change nothing when ${because}`, async ({ store }) => {
        const other = await acquire(store, "sess_other");
        await store.commit({ lease: other, log: "task_other", events: deltas(1, 0, "task_other") });
        const old = await acquire(store);
        await store.post(postRow({ id: "post_taken" }));
        await store.commit({
          lease: old,
          log: "task_1",
          events: deltas(3),
          appends: [{ sessionId: "sess_1", at: 0, messages: [message("first")] }],
          tasks: [record(), childRecord({ status: "completed" })],
          posts: [postRow({ id: "post_free", kind: "hint" })],
          taken: ["post_taken"],
        });
        await store.release(old);
        const current = await acquire(store);
        const lease = stale ? old : current;
        const before = await everything(store);
        const doomed: Commit = {
          lease,
          log: "task_1",
          events: deltas(2),
          appends: [{ sessionId: "sess_1", at: 1, messages: [message("second")] }],
          tasks: [record({ committedOutput: 5 })],
          posts: [postRow({ id: "post_new" })],
          taken: ["post_free"],
          ...commit,
        };
        await expect(store.commit(doomed)).rejects.toMatchObject({ code });
        expect(await everything(store)).toEqual(before);
        expect(await store.last("task_other")).toBe(0);
      });
    }

    it("can be tried again with the same objects", async ({ store }) => {
      const lease = await acquire(store);
      const events = deltas(3);
      const messages = [message("a")];
      const wrong = [{ sessionId: "sess_1", at: 1, messages }];
      await expect(
        store.commit({ lease, log: "task_1", events, appends: wrong }),
      ).rejects.toMatchObject({ code: "conflict" });
      await store.commit({ lease, log: "task_1", events: deltas(2, 10) });
      const appends = [{ sessionId: "sess_1", at: 0, messages }];
      await store.commit({ lease, log: "task_1", events, appends });
      const read = await store.read("task_1", -1, 10);
      expect(read.map(textOfEvent)).toEqual(["10", "11", "0", "1", "2"]);
      expect(read).toMatchObject(range(0, 5).map((sequence_number) => ({ sequence_number })));
    });

    it("chain several appends to one session", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({
        lease,
        log: "task_1",
        appends: [
          { sessionId: "sess_1", at: 0, messages: [message("a"), message("b")] },
          { sessionId: "sess_1", at: 2, messages: [message("c")] },
        ],
      });
      expect(ids(await store.session("sess_1"))).toEqual(["msg_a", "msg_b", "msg_c"]);
    });

    it("check the place of an append that has no messages", async ({ store }) => {
      const lease = await acquire(store);
      const at = (index: number) => [{ sessionId: "sess_1", at: index, messages: [] }];
      await store.commit({ lease, log: "task_1", appends: at(0) });
      await expect(store.commit({ lease, log: "task_1", appends: at(1) })).rejects.toMatchObject({
        code: "conflict",
      });
      expect(await store.session("sess_1")).toEqual([]);
    });

    it("have one winner of many that append at the same place", async ({ store }) => {
      const lease = await acquire(store);
      const tries = await Promise.allSettled(
        range(0, 20).map((i) =>
          store.commit({
            lease,
            log: "task_1",
            events: [delta(String(i))],
            appends: [{ sessionId: "sess_1", at: 0, messages: [message(String(i))] }],
          }),
        ),
      );
      const won = tries.flatMap((result, i) => (result.status === "fulfilled" ? [String(i)] : []));
      expect(won).toHaveLength(1);
      expect((await store.read("task_1", -1, 100)).map(textOfEvent)).toEqual(won);
      expect(ids(await store.session("sess_1"))).toEqual(won.map((text) => `msg_${text}`));
    });

    it("do not fail their neighbours", async ({ store }) => {
      const lease = await acquire(store);
      const tries = await Promise.allSettled([
        store.commit({ lease, log: "task_1", events: [delta("before")] }),
        store.commit({ lease, log: "task_1", events: [delta("refused")], taken: ["post_none"] }),
        store.commit({ lease, log: "task_1", events: [delta("after")] }),
      ]);
      expect(tries.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual(["before", "after"]);
    });
  });
}
