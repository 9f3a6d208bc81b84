import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { Store, TaskRecord } from "../../contract/index.ts";
import type { TaskStatus } from "../../protocol/index.ts";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
import { acquire, childRecord, commitOnce, deltas, message, range, record } from "./samples.ts";

const ends: readonly TaskStatus[] = ["completed", "failed", "cancelled", "incomplete"];

/** A queued root task on `sess_1`. */
function queued(taskId: string, changes: Partial<TaskRecord> = {}): TaskRecord {
  return record({ taskId, status: "queued", input: [message(taskId)], ...changes });
}

async function unfinishedIn(store: Store, sessionId: string): Promise<string[]> {
  const status = ["queued", "in_progress", "suspended"] as const;
  return (await store.tasks({ sessionId, status })).map(({ taskId }) => taskId);
}

/** Tasks that any process queues, and commits that start them in order. */
export function queueCases({ describe, it }: StoreSuite): void {
  describe("enqueue", () => {
    it("adds a task with its input, without a lease", async ({ store }) => {
      const task = queued("task_1", { userId: "ann" });
      deepEqual(await store.enqueue(structuredClone(task)), task);
      deepEqual(await store.task("task_1"), task);
      assertMatches(await store.sessions({ limit: 10 }), [
        { sessionId: "sess_1", userId: "ann", messages: 0 },
      ]);
    });

    it("adds a task while another process owns the conversation", async ({ store }) => {
      const lease = await acquire(store);
      await store.enqueue(queued("task_1"));
      await store.commit({ lease, log: "task_1", tasks: [record()], begins: "task_1" });
      deepEqual(await store.task("task_1"), record());
    });

    it("returns the first record of an id, also after that task has ended", async ({ store }) => {
      const first = queued("task_1");
      await store.enqueue(first);
      const second = queued("task_1", { label: "second", sessionId: "sess_2" });
      deepEqual(await store.enqueue(second), first);
      deepEqual(await store.enqueue(queued("task_1"), { ifIdle: true }), first);
      deepEqual(await store.tasks({ sessionId: "sess_2" }), []);
      const ended = record({ status: "completed", result: message("done") });
      await commitOnce(store, { tasks: [ended] });
      deepEqual(await store.enqueue(queued("task_1")), ended);
      deepEqual(await store.task("task_1"), ended);
    });

    it("stores one of many records with one id", async ({ store }) => {
      const records = range(0, 20).map((i) => queued("task_1", { label: String(i) }));
      const stored = await Promise.all(records.map((task) => store.enqueue(task)));
      for (const task of stored) deepEqual(task, await store.task("task_1"));
      equal((await store.tasks({})).length, 1);
    });

    it("keeps the order of the calls within a session", async ({ store }) => {
      const order = ["task_c", "task_a", "task_d", "task_b"];
      for (const taskId of order) await store.enqueue(queued(taskId));
      deepEqual(await unfinishedIn(store, "sess_1"), order);
      await commitOnce(store, {
        tasks: [record({ taskId: "task_d" }), record({ taskId: "task_c" })],
      });
      await commitOnce(store, { tasks: [record({ taskId: "task_a", status: "suspended" })] });
      deepEqual(await unfinishedIn(store, "sess_1"), order);
      await commitOnce(store, { tasks: [record({ taskId: "task_c", status: "completed" })] });
      deepEqual(await unfinishedIn(store, "sess_1"), ["task_a", "task_d", "task_b"]);
    });

    for (const status of ["queued", "in_progress"] as const) {
      it(`rejects with agent_busy when ifIdle is set and a task is ${status}`, async ({
        store,
      }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        const rejected = store.enqueue(queued("task_2"), { ifIdle: true });
        await rejects(rejected, {
          name: "RivuletError",
          code: "agent_busy",
          retryable: true,
        });
        equal(await store.task("task_2"), undefined);
        await store.enqueue(queued("task_3"), { ifIdle: false });
        await store.enqueue(queued("task_4", { sessionId: "sess_2" }), { ifIdle: true });
        deepEqual(await unfinishedIn(store, "sess_1"), ["task_1", "task_3"]);
      });
    }

    it("rejects with session_suspended when ifIdle is set and a task is suspended", async ({
      store,
    }) => {
      await commitOnce(store, { tasks: [record({ status: "suspended" })] });
      const enqueue = () => store.enqueue(queued("task_2"), { ifIdle: true });
      await rejects(enqueue(), {
        code: "session_suspended",
        retryable: false,
      });
      await store.enqueue(queued("task_3"));
      await rejects(enqueue(), { code: "agent_busy" });
      equal(await store.task("task_2"), undefined);
    });

    for (const status of ends) {
      it(`accepts ifIdle when the last task is ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        await store.enqueue(queued("task_2"), { ifIdle: true });
        deepEqual(await unfinishedIn(store, "sess_1"), ["task_2"]);
      });
    }

    it("accepts ifIdle while a background child runs", async ({ store }) => {
      const child = childRecord({ mode: "background" });
      await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
      await store.enqueue(queued("task_2"), { ifIdle: true });
      deepEqual(await unfinishedIn(store, "sess_1"), ["task_2"]);
    });

    it("accepts one of many concurrent calls with ifIdle", async ({ store }) => {
      const tries = await Promise.allSettled(
        range(0, 20).map((i) => store.enqueue(queued(`task_${i}`), { ifIdle: true })),
      );
      equal(tries.filter(({ status }) => status === "fulfilled").length, 1);
      equal((await unfinishedIn(store, "sess_1")).length, 1);
    });

    for (const [first, next] of [
      ["ann", "bob"],
      ["ann", undefined],
      [undefined, "ann"],
    ] as const) {
      it(`rejects with not_found when user ${next} writes to a session of ${first}`, async ({
        store,
      }) => {
        const user = (userId: string | undefined) => (userId === undefined ? {} : { userId });
        await commitOnce(store, { tasks: [record({ status: "completed", ...user(first) })] });
        for (const taskId of ["task_2", "task_1"]) {
          const rejected = store.enqueue(queued(taskId, user(next)));
          await rejects(rejected, { code: "not_found" });
        }
        const elsewhere = queued("task_1", { sessionId: "sess_2", ...user(next) });
        await rejects(store.enqueue(elsewhere), { code: "not_found" });
        const begun = record({ taskId: "task_2", ...user(next) });
        const messages = [message("mine")];
        const commit = {
          tasks: [begun],
          begins: "task_2",
          appends: [{ sessionId: "sess_1", at: 0, messages }],
        };
        await rejects(commitOnce(store, commit), { code: "not_found" });
        deepEqual(await store.session("sess_1"), []);
        equal(await store.task("task_2"), undefined);
        await store.enqueue(queued("task_3", user(first)));
        await store.enqueue(queued("task_4", { sessionId: "sess_2", ...user(next) }));
      });
    }

    it("lets any user start a session that has messages and no task", async ({ store }) => {
      const appends = [{ sessionId: "sess_1", at: 0, messages: [message("imported")] }];
      await commitOnce(store, { appends });
      await store.enqueue(queued("task_1", { userId: "ann" }));
      const rejected = store.enqueue(queued("task_2", { userId: "bob" }));
      await rejects(rejected, { code: "not_found" });
    });

    it("rejects a record that is not a queued root task", async ({ store }) => {
      for (const wrong of [record(), childRecord({ status: "queued" })]) {
        await rejects(store.enqueue(wrong), { code: "invalid_record" });
      }
      deepEqual(await store.tasks({}), []);
    });
  });

  describe("commit with begins", () => {
    for (const status of ["queued", "in_progress", "suspended"] as const) {
      it(`writes nothing while an earlier task is ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        await store.enqueue(queued("task_2"));
        const lease = await acquire(store);
        const begin = (taskId: string) =>
          store.commit({
            lease,
            log: taskId,
            events: deltas(1),
            appends: [{ sessionId: "sess_1", at: 0, messages: [message(taskId)] }],
            tasks: [record({ taskId })],
            begins: taskId,
          });
        for (const taskId of ["task_2", "task_3"]) {
          await rejects(begin(taskId), {
            name: "RivuletError",
            code: "agent_busy",
            retryable: true,
          });
          equal(await store.last(taskId), -1);
        }
        deepEqual(await store.session("sess_1"), []);
        deepEqual(await store.task("task_2"), queued("task_2"));
        equal(await store.task("task_3"), undefined);
        await store.commit({ lease, log: "task_1", tasks: [record({ status: "cancelled" })] });
        await begin("task_2");
      });
    }

    it("accepts the first unfinished task of a session", async ({ store }) => {
      await store.enqueue(queued("task_1"));
      await store.enqueue(queued("task_2"));
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", tasks: [record()], begins: "task_1" });
      // A task that has begun is still the first.
      await store.commit({ lease, log: "task_1", tasks: [record()], begins: "task_1" });
      await store.commit({ lease, log: "task_1", begins: "task_1" });
    });

    it("ignores tasks of other sessions", async ({ store }) => {
      const child = childRecord({ mode: "background" });
      await commitOnce(store, { tasks: [record({ status: "completed" }), child] });
      await store.enqueue(queued("task_9", { sessionId: "sess_9" }));
      const next = record({ taskId: "task_2" });
      await commitOnce(store, { tasks: [next], begins: "task_2" });
      deepEqual(await store.task("task_2"), next);
    });

    it("accepts a commit that ends the earlier task", async ({ store }) => {
      await commitOnce(store, { tasks: [record()] });
      const tasks = [record({ status: "completed" }), record({ taskId: "task_2" })];
      await commitOnce(store, { tasks, begins: "task_2" });
      deepEqual(await unfinishedIn(store, "sess_1"), ["task_2"]);
    });

    it("rejects the second of two new tasks", async ({ store }) => {
      const tasks = [record(), record({ taskId: "task_2" })];
      const rejected = commitOnce(store, { tasks, begins: "task_2" });
      await rejects(rejected, { code: "agent_busy" });
      deepEqual(await store.tasks({}), []);
    });

    it("accepts a task that ends before it starts", async ({ store }) => {
      await store.enqueue(queued("task_1"));
      await store.enqueue(queued("task_2"));
      const cancelled = queued("task_2", { status: "cancelled" });
      await commitOnce(store, { tasks: [cancelled], begins: "task_2" });
      deepEqual(await unfinishedIn(store, "sess_1"), ["task_1"]);
    });

    it("rejects with conflict when the task does not exist", async ({ store }) => {
      const rejected = commitOnce(store, { events: deltas(1), begins: "task_1" });
      await rejects(rejected, { code: "conflict" });
      equal(await store.last("task_1"), -1);
    });

    it("checks the lease first", async ({ store }) => {
      const lease = await acquire(store);
      await store.release(lease);
      await store.enqueue(queued("task_1"));
      const begin = {
        lease,
        log: "task_2",
        tasks: [record({ taskId: "task_2" })],
        begins: "task_2",
      };
      await rejects(store.commit(begin), { code: "fenced" });
    });

    it("never lets two tasks run when it races an enqueue", async ({ store }) => {
      for (const round of range(0, 40)) await race(store, store, `sess_${round}`, round);
    });

    it("never lets two tasks run when it races an enqueue of a second process", async ({
      store,
      openSecond,
    }) => {
      const second = await openSecond();
      for (const round of range(0, 40)) await race(store, second, `sess_${round}`, round);
    });
  });
}

/** Begins a task while another is enqueued; checks that only the first of them runs. */
async function race(owner: Store, door: Store, sessionId: string, round: number): Promise<void> {
  const lease = await acquire(owner, sessionId);
  const local = record({ taskId: `local_${round}`, sessionId });
  const begin = () =>
    owner.commit({ lease, log: local.taskId, tasks: [local], begins: local.taskId });
  const enqueue = () =>
    door.enqueue(queued(`remote_${round}`, { sessionId }), { ifIdle: round % 4 < 2 });
  const order = round % 2 === 0 ? [begin, enqueue] : [enqueue, begin];
  const outcomes = await Promise.allSettled(order.map((write) => write()));
  const [begun, enqueued] = round % 2 === 0 ? outcomes : outcomes.toReversed();
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") assertMatches(outcome.reason, { code: "agent_busy" });
  }
  const unfinished = await unfinishedIn(owner, sessionId);
  const expected = [
    ...(begun?.status === "fulfilled" ? [`local_${round}`] : []),
    ...(enqueued?.status === "fulfilled" ? [`remote_${round}`] : []),
  ];
  ok(expected.length > 0);
  deepEqual(unfinished, expected);
  await owner.release(lease);
}
