import { deepEqual, equal, rejects } from "node:assert/strict";
import type { Message, TaskRecord } from "../../contract/index.ts";
import type { TaskStatus } from "../../protocol/index.ts";
import type { StoreSuite } from "./fixture.ts";
import { awkwardTexts, childRecord, commitOnce, message, record } from "./samples.ts";

function taskIds(records: readonly TaskRecord[]): string[] {
  return records.map((task) => task.taskId);
}

const ends: readonly TaskStatus[] = ["completed", "failed", "cancelled", "incomplete"];

/** Task records. */
export function taskCases({ describe, it }: StoreSuite): void {
  describe("tasks", () => {
    it("returns undefined for an unknown task", async ({ store }) => {
      equal(await store.task("task_1"), undefined);
      deepEqual(await store.tasks({}), []);
    });

    it("keeps every field unchanged", async ({ store }) => {
      const full = childRecord({
        label: "helper",
        userId: "ann",
        mode: "background",
        status: "failed",
        committedOutput: 7,
        outputSchema: { type: "object", properties: { a: { type: "string" } } },
        result: message("done"),
        structured: { a: [1, null, "ü"] },
        error: { code: "timeout", message: "Too slow.", retryable: true, where: { taskId: "x" } },
        remote: { url: "https://example.org/agents/a", taskId: "task_r", cursor: 12 },
      });
      await commitOnce(store, { tasks: [structuredClone(full)] });
      deepEqual(await store.task("call_1"), full);
      deepEqual(await store.tasks({}), [full]);
    });

    it("keeps every text unchanged", async ({ store }) => {
      for (const [i, text] of awkwardTexts.entries()) {
        const task = record({ taskId: `task_${i}`, label: text, result: message(text) });
        await commitOnce(store, { tasks: [task] });
        deepEqual(await store.task(`task_${i}`), task);
      }
    });

    it("replaces a record completely", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ label: "x", committedOutput: 3 })] });
      const next = record({ status: "suspended", committedOutput: 4 });
      await commitOnce(store, { tasks: [next] });
      deepEqual(await store.task("task_1"), next);
      deepEqual(await store.tasks({ sessionId: "sess_1" }), [next]);
    });

    it("keeps the last of several records in one commit", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record({ status: "queued" }), record(), record({ status: "completed" })],
      });
      deepEqual(await store.task("task_1"), record({ status: "completed" }));
    });

    for (const status of ends) {
      it(`rejects another status once a task is ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        const statuses = ["queued", "in_progress", "suspended", ...ends] as const;
        for (const other of statuses.filter((value) => value !== status)) {
          const change = commitOnce(store, { tasks: [record({ status: other })] }, `sess_${other}`);
          await rejects(change, { code: "conflict" });
        }
        deepEqual(await store.task("task_1"), record({ status }));
      });
    }

    it("accepts other changes to an ended task", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      const later = record({ status: "completed", result: message("done"), committedOutput: 2 });
      await commitOnce(store, { tasks: [later] });
      deepEqual(await store.task("task_1"), later);
    });

    it("finds records by session, parent session, root task, conversation and status", async ({
      store,
    }) => {
      await commitOnce(store, {
        tasks: [
          record(),
          childRecord(),
          childRecord({ taskId: "call_2", sessionId: "sub-2", status: "suspended" }),
          childRecord({ taskId: "call_3", sessionId: "sub-1", status: "completed" }),
          childRecord({ taskId: "call_4", sessionId: "sub-4", parentSessionId: "sub-1", depth: 2 }),
          record({ taskId: "task_2", sessionId: "sess_2", status: "queued" }),
        ],
      });
      const found = async (query: Parameters<typeof store.tasks>[0]) =>
        taskIds(await store.tasks(query));
      deepEqual(await found({ sessionId: "sess_1" }), ["task_1"]);
      deepEqual(await found({ sessionId: "sub-1" }), ["call_1", "call_3"]);
      deepEqual(await found({ parentSessionId: "sess_1" }), ["call_1", "call_2", "call_3"]);
      deepEqual(await found({ parentSessionId: "sub-1" }), ["call_4"]);
      equal((await found({ rootTaskId: "task_1" })).length, 5);
      equal((await found({ conversation: "sess_1" })).length, 5);
      deepEqual(await found({ conversation: "sess_1", status: ["suspended"] }), ["call_2"]);
      deepEqual(await found({ conversation: "sess_2" }), ["task_2"]);
      deepEqual(await found({ conversation: "sub-1" }), []);
      deepEqual(await found({ status: ["suspended", "queued"] }), ["call_2", "task_2"]);
      deepEqual(await found({ status: [] }), []);
      deepEqual(await found({ sessionId: "sub-1", rootTaskId: "task_1", status: ["completed"] }), [
        "call_3",
      ]);
      deepEqual(await found({ sessionId: "sess_2", rootTaskId: "task_1" }), []);
      deepEqual(await found({ sessionId: "sess_9" }), []);
    });

    it("lists in insertion order, up to the limit", async ({ store }) => {
      for (const taskId of ["task_c", "task_a", "task_b"]) {
        await commitOnce(store, { tasks: [record({ taskId })] });
      }
      await commitOnce(store, { tasks: [record({ taskId: "task_c", status: "completed" })] });
      deepEqual(taskIds(await store.tasks({})), ["task_c", "task_a", "task_b"]);
      deepEqual(taskIds(await store.tasks({ sessionId: "sess_1", limit: 2 })), [
        "task_c",
        "task_a",
      ]);
      deepEqual(taskIds(await store.tasks({ status: ["in_progress"], limit: 1 })), ["task_a"]);
      deepEqual(await store.tasks({ limit: 0 }), []);
    });

    it("lists the newest first on request, up to the limit", async ({ store }) => {
      for (const taskId of ["task_c", "task_a", "task_b"]) {
        await commitOnce(store, { tasks: [record({ taskId, status: "completed" })] });
      }
      await commitOnce(store, { tasks: [record({ taskId: "task_x", sessionId: "sess_2" })] });
      const newest = { sessionId: "sess_1", newestFirst: true };
      deepEqual(taskIds(await store.tasks(newest)), ["task_b", "task_a", "task_c"]);
      deepEqual(taskIds(await store.tasks({ ...newest, limit: 1 })), ["task_b"]);
      deepEqual(taskIds(await store.tasks({ newestFirst: true, limit: 2 })), ["task_x", "task_b"]);
      deepEqual(await store.tasks({ ...newest, status: ["suspended"] }), []);
    });

    const asks = (approvalId: string, expiresAt?: number): Message => {
      const block = { type: "suspension", callId: "call_a", kind: "approval", approvalId } as const;
      return { ...message(approvalId), content: [{ ...block, ...(expiresAt && { expiresAt }) }] };
    };
    const answers = (approvalId: string): Message => ({
      ...message(approvalId),
      content: [{ type: "answer", callId: "call_a", approvalId, decision: "deny" }],
    });
    const suspended = { status: ["suspended"] } as const;

    it("finds tasks whose approvals expire, until they are answered", async ({ store }) => {
      const add = (sessionId: string, at: number, messages: readonly Message[]) =>
        commitOnce(store, { appends: [{ sessionId, at, messages }] }, sessionId);
      for (const n of [1, 2, 3]) {
        const task = record({
          taskId: `task_${n}`,
          sessionId: `sess_${n}`,
          status: n === 3 ? "in_progress" : "suspended",
        });
        await commitOnce(store, { log: task.taskId, tasks: [task] }, task.sessionId);
      }
      const due = async (dueBy: number) => taskIds(await store.tasks({ ...suspended, dueBy }));
      await add("sess_1", 0, [asks("a", 20), asks("b", 10), asks("never")]);
      await add("sess_2", 0, [asks("a", 30)]);
      await add("sess_3", 0, [asks("c", 5)]);
      deepEqual(await due(9), []);
      deepEqual(await due(10), ["task_1"]);
      deepEqual(await due(30), ["task_1", "task_2"]);
      deepEqual(taskIds(await store.tasks({ dueBy: 30 })), ["task_1", "task_2", "task_3"]);
      deepEqual(taskIds(await store.tasks({ dueBy: 30, sessionId: "sess_2" })), ["task_2"]);
      deepEqual(taskIds(await store.tasks({ dueBy: 30, newestFirst: true, limit: 1 })), ["task_3"]);
      await add("sess_1", 3, [answers("b")]);
      deepEqual(await due(19), []);
      deepEqual(await due(20), ["task_1"]);
      await add("sess_1", 4, [answers("a"), asks("\ud83d\0", 25)]);
      deepEqual(await due(24), []);
      deepEqual(await due(25), ["task_1"]);
    });

    it("keeps the times of approvals when it is opened again", async ({ store, reopen }) => {
      const appends = [{ sessionId: "sess_1", at: 0, messages: [asks("a", 10), asks("b", 20)] }];
      await commitOnce(store, { tasks: [record({ status: "suspended" })], appends });
      const answered = [{ sessionId: "sess_1", at: 2, messages: [answers("a")] }];
      await commitOnce(store, { appends: answered });
      const later = await reopen();
      deepEqual(await later.tasks({ ...suspended, dueBy: 19 }), []);
      deepEqual(taskIds(await later.tasks({ ...suspended, dueBy: 20 })), ["task_1"]);
    });

    it("finds no approvals of ended tasks and deleted sessions", async ({ store }) => {
      for (const [n, status] of [
        [1, "completed"],
        [2, "suspended"],
      ] as const) {
        const [taskId, sessionId] = [`task_${n}`, `sess_${n}`];
        const appends = [{ sessionId, at: 0, messages: [asks("a", 10)] }];
        const tasks = [record({ taskId, sessionId, status: "suspended" })];
        await commitOnce(store, { log: taskId, tasks, appends }, sessionId);
        await commitOnce(
          store,
          { log: taskId, tasks: [record({ taskId, sessionId, status })] },
          sessionId,
        );
      }
      deepEqual(taskIds(await store.tasks({ dueBy: 10 })), ["task_2"]);
      await store.deleteSession("sess_2");
      await commitOnce(
        store,
        { tasks: [record({ taskId: "task_3", sessionId: "sess_2" })] },
        "sess_2",
      );
      deepEqual(await store.tasks({ dueBy: 10 }), []);
    });

    it("returns a new array each time", async ({ store }) => {
      await commitOnce(store, { tasks: [record()] });
      ((await store.tasks({})) as TaskRecord[]).length = 0;
      ((await store.tasks({ sessionId: "sess_1" })) as TaskRecord[]).length = 0;
      equal((await store.tasks({})).length, 1);
      equal((await store.tasks({ sessionId: "sess_1" })).length, 1);
    });
  });
}
