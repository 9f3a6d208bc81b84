import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { Commit, Store } from "../../contract/index.ts";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
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

/** Everything that a commit can change in these cases. */
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

/** Commits that must be rejected, each with one invalid part among valid ones. */
const rejected: readonly {
  readonly because: string;
  readonly code: string;
  readonly commit: Omit<Commit, "lease" | "log"> & { readonly log?: string };
  readonly stale?: boolean;
}[] = [
  { because: "the fence is old", code: "fenced", commit: {}, stale: true },
  {
    because: "an append starts too early",
    code: "conflict",
    commit: { appends: [{ sessionId: "sess_1", at: 0, messages: [message("x")] }] },
  },
  {
    because: "an append starts too late",
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
    because: "two appends start at the same index",
    code: "conflict",
    commit: {
      appends: [
        { sessionId: "sess_1", at: 1, messages: [message("x")] },
        { sessionId: "sess_1", at: 1, messages: [message("y")] },
      ],
    },
  },
  {
    because: "a task has ended with another status",
    code: "conflict",
    commit: { tasks: [childRecord({ taskId: "call_2" }), childRecord({ status: "in_progress" })] },
  },
  {
    because: "the commit reopens a task that it ends",
    code: "conflict",
    commit: { tasks: [record({ status: "completed" }), record({ status: "in_progress" })] },
  },
  {
    because: "a row is already taken",
    code: "conflict",
    commit: { taken: ["post_free", "post_taken"] },
  },
  {
    because: "a row that the commit posts again is already taken",
    code: "conflict",
    commit: { posts: [postRow({ id: "post_taken" })], taken: ["post_taken"] },
  },
  {
    because: "a row does not exist",
    code: "conflict",
    commit: { taken: ["post_free", "post_none"] },
  },
  {
    because: "the commit takes a row twice",
    code: "conflict",
    commit: { taken: ["post_free", "post_free"] },
  },
  {
    because: "the log belongs to another conversation",
    code: "conflict",
    commit: { log: "task_other" },
  },
];

/** Atomic commits under a lease. */
export function commitCases({ describe, it }: StoreSuite): void {
  describe("commit", () => {
    it("writes every part", async ({ store }) => {
      const lease = await acquire(store);
      await store.post([postRow()]);
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
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), ["0", "1"]);
      deepEqual(ids(await store.session("sess_1")), ["msg_a", "msg_b"]);
      deepEqual(ids(await store.session("sub-1")), ["msg_c"]);
      deepEqual(await store.task("task_1"), record());
      deepEqual(await store.task("call_1"), childRecord());
      deepEqual(ids(await store.posts({})), ["post_2"]);
    });

    it("accepts an empty commit", async ({ store }) => {
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
      equal(await store.last("task_1"), -1);
    });

    it("rejects an invented lease", async ({ store }) => {
      const invented = { sessionId: "sess_1", owner: "x", fence: 1, expiresAt: 9e15, losses: 0 };
      const commit = store.commit({ lease: invented, log: "task_1", events: deltas(1) });
      await rejects(commit, { name: "RivuletError", code: "fenced" });
      equal(await store.last("task_1"), -1);
    });

    it("rejects a fence that was not granted yet", async ({ store }) => {
      const lease = await acquire(store);
      const ahead = { ...lease, fence: lease.fence + 1 };
      await rejects(store.commit({ lease: ahead, log: "task_1" }), {
        code: "fenced",
      });
    });

    it("rejects the fence of another conversation", async ({ store }) => {
      for (let i = 0; i < 5; i++) await store.release(await acquire(store, "sess_2"));
      const other = await acquire(store, "sess_2");
      await acquire(store, "sess_1");
      const forged = { ...other, sessionId: "sess_1" };
      await rejects(store.commit({ lease: forged, log: "task_1" }), {
        code: "fenced",
      });
    });

    it("rejects a released lease", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      await rejects(store.commit({ lease, log: "task_1", events: deltas(1) }), { code: "fenced" });
    });

    it("accepts an expired lease until another owner acquires the conversation", async ({
      store,
      clock,
    }) => {
      const lost = await acquire(store, "sess_1", { ttlMs: 1000 });
      await store.commit({ lease: lost, log: "task_1", events: [delta("mine")] });
      clock.advance(1000);
      await store.commit({ lease: lost, log: "task_1", events: [delta("late, not yet taken")] });
      const taken = await acquire(store, "sess_1", { owner: "b" });
      await rejects(store.commit({ lease: lost, log: "task_1", events: [delta("stale")] }), {
        code: "fenced",
      });
      await store.commit({ lease: taken, log: "task_1", events: [delta("theirs")] });
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), [
        "mine",
        "late, not yet taken",
        "theirs",
      ]);
    });

    it("rejects an old lease of the same owner", async ({ store, clock }) => {
      const lost = await acquire(store, "sess_1", { owner: "a", ttlMs: 1000 });
      clock.advance(1000);
      await acquire(store, "sess_1", { owner: "a" });
      await rejects(store.commit({ lease: lost, log: "task_1" }), {
        code: "fenced",
      });
    });

    it("accepts a lease object from before a renewal", async ({ store }) => {
      const lease = await acquire(store);
      const [renewed] = await store.renew([lease], 90_000);
      await store.commit({ lease, log: "task_1", events: deltas(1) });
      await store.commit({ lease: renewed ?? lease, log: "task_1", events: deltas(1) });
      equal(await store.last("task_1"), 1);
    });

    for (const { because, code, commit, stale } of rejected) {
      it(`writes nothing when ${because}`, async ({ store }) => {
        const other = await acquire(store, "sess_other");
        await store.commit({ lease: other, log: "task_other", events: deltas(1, 0, "task_other") });
        const old = await acquire(store);
        await store.post([postRow({ id: "post_taken" })]);
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
        await rejects(store.commit(doomed), { code });
        deepEqual(await everything(store), before);
        equal(await store.last("task_other"), 0);
      });
    }

    it("accepts the same objects again after a rejection", async ({ store }) => {
      const lease = await acquire(store);
      const events = deltas(3);
      const messages = [message("a")];
      const wrong = [{ sessionId: "sess_1", at: 1, messages }];
      await rejects(store.commit({ lease, log: "task_1", events, appends: wrong }), {
        code: "conflict",
      });
      await store.commit({ lease, log: "task_1", events: deltas(2, 10) });
      const appends = [{ sessionId: "sess_1", at: 0, messages }];
      await store.commit({ lease, log: "task_1", events, appends });
      const read = await store.read("task_1", -1, 10);
      deepEqual(read.map(textOfEvent), ["10", "11", "0", "1", "2"]);
      assertMatches(
        read,
        range(0, 5).map((sequence_number) => ({ sequence_number })),
      );
    });

    it("applies several appends to one session in order", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({
        lease,
        log: "task_1",
        appends: [
          { sessionId: "sess_1", at: 0, messages: [message("a"), message("b")] },
          { sessionId: "sess_1", at: 2, messages: [message("c")] },
        ],
      });
      deepEqual(ids(await store.session("sess_1")), ["msg_a", "msg_b", "msg_c"]);
    });

    it("checks the index of an append without messages", async ({ store }) => {
      const lease = await acquire(store);
      const at = (index: number) => [{ sessionId: "sess_1", at: index, messages: [] }];
      await store.commit({ lease, log: "task_1", appends: at(0) });
      await rejects(store.commit({ lease, log: "task_1", appends: at(1) }), {
        code: "conflict",
      });
      deepEqual(await store.session("sess_1"), []);
    });

    it("accepts one of many appends at the same index", async ({ store }) => {
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
      equal(won.length, 1);
      deepEqual((await store.read("task_1", -1, 100)).map(textOfEvent), won);
      deepEqual(
        ids(await store.session("sess_1")),
        won.map((text) => `msg_${text}`),
      );
    });

    it("writes the commits of a list in order, each in full", async ({ store }) => {
      const lease = await acquire(store);
      const list = range(0, 5).map((at) => ({
        lease,
        log: "task_1",
        events: [delta(String(at))],
        appends: [{ sessionId: "sess_1", at, messages: [message(String(at))] }],
        tasks: [record({ committedOutput: at })],
      }));
      for (let written = 0; written < list.length; ) {
        const [first, ...following] = list.slice(written);
        const count = await store.commit(first as Commit, following);
        ok(count >= 1 && count <= following.length + 1, `${count} is not a number of commits`);
        written += count;
        equal((await store.session("sess_1")).length, written);
        equal(await store.last("task_1"), written - 1);
      }
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), ["0", "1", "2", "3", "4"]);
      assertMatches(await store.task("task_1"), { committedOutput: 4 });
    });

    for (const { because, code, commit, stale } of rejected) {
      it(`stops a list at the first commit that is refused, when ${because}`, async ({ store }) => {
        const other = await acquire(store, "sess_other");
        await store.commit({ lease: other, log: "task_other", events: deltas(1, 0, "task_other") });
        const old = await acquire(store);
        await store.release(old);
        const lease = await acquire(store);
        await store.post([postRow({ id: "post_taken" })]);
        const before: Commit = {
          lease,
          log: "task_1",
          events: [delta("before")],
          appends: [{ sessionId: "sess_1", at: 0, messages: [message("before")] }],
          tasks: [record(), childRecord({ status: "completed" })],
          posts: [postRow({ id: "post_free", kind: "hint" })],
          taken: ["post_taken"],
        };
        const refused: Commit = {
          lease: stale ? old : lease,
          log: "task_1",
          events: [delta("refused")],
          ...commit,
        };
        const after: Commit = { lease, log: "task_1", events: [delta("after")] };
        equal(await store.commit(before, [refused, after]), 1);
        deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), ["before"]);
        const kept = await everything(store);
        await rejects(store.commit(refused, [after]), { code });
        deepEqual(await everything(store), kept);
      });
    }

    it("refuses the beginning of a task in a list and nothing before it", async ({ store }) => {
      const lease = await acquire(store);
      const first: Commit = { lease, log: "task_1", events: [delta("begun")], tasks: [record()] };
      const second = record({ taskId: "task_2", rootTaskId: "task_2" });
      const begins: Commit = { lease, log: "task_2", tasks: [second], begins: "task_2" };
      equal(await store.commit(first, [begins]), 1);
      await rejects(store.commit(begins), { code: "agent_busy" });
      equal(await store.task("task_2"), undefined);
      deepEqual(await store.task("task_1"), record());
    });

    it("keeps a rejection from affecting concurrent commits", async ({ store }) => {
      const lease = await acquire(store);
      const tries = await Promise.allSettled([
        store.commit({ lease, log: "task_1", events: [delta("before")] }),
        store.commit({ lease, log: "task_1", events: [delta("rejected")], taken: ["post_none"] }),
        store.commit({ lease, log: "task_1", events: [delta("after")] }),
      ]);
      deepEqual(
        tries.map((result) => result.status),
        ["fulfilled", "rejected", "fulfilled"],
      );
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), ["before", "after"]);
    });
  });
}
