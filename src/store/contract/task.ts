import { describe, expect } from "vitest";
import type { TaskRecord } from "../../protocol/store.ts";
import type { TaskStatus } from "../../protocol/task.ts";
import type { ContractTest } from "./fixture.ts";
import { awkwardTexts, childRecord, commitOnce, message, record } from "./samples.ts";

function taskIds(records: readonly TaskRecord[]): string[] {
  return records.map((task) => task.taskId);
}

const ends: readonly TaskStatus[] = ["completed", "failed", "cancelled", "incomplete"];

/** Records of tasks, by their id and by what they belong to. */
export function taskCases(it: ContractTest): void {
  describe("task records", () => {
    it("are unknown at first", async ({ store }) => {
      expect(await store.task("task_1")).toBeUndefined();
      expect(await store.tasks({})).toEqual([]);
    });

    it("keep every field as it was", async ({ store }) => {
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
      expect(await store.task("call_1")).toEqual(full);
      expect(await store.tasks({})).toEqual([full]);
    });

    it("keep every text as it was", async ({ store }) => {
      for (const [i, text] of awkwardTexts.entries()) {
        const task = record({ taskId: `task_${i}`, label: text, result: message(text) });
        await commitOnce(store, { tasks: [task] });
        expect(await store.task(`task_${i}`)).toEqual(task);
      }
    });

    it("are replaced whole by the next commit", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ label: "x", committedOutput: 3 })] });
      const next = record({ status: "suspended", committedOutput: 4 });
      await commitOnce(store, { tasks: [next] });
      expect(await store.task("task_1")).toEqual(next);
      expect(await store.tasks({ sessionId: "sess_1" })).toEqual([next]);
    });

    it("take the last of several in one commit", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record({ status: "queued" }), record(), record({ status: "completed" })],
      });
      expect(await store.task("task_1")).toEqual(record({ status: "completed" }));
    });

    for (const status of ends) {
      it(`do not change their status once ${status}`, async ({ store }) => {
        await commitOnce(store, { tasks: [record({ status })] });
        const others = ["queued", "in_progress", "suspended", ...ends] as const;
        for (const other of others.filter((one) => one !== status)) {
          const change = commitOnce(store, { tasks: [record({ status: other })] }, `sess_${other}`);
          await expect(change).rejects.toMatchObject({ code: "conflict" });
        }
        expect(await store.task("task_1")).toEqual(record({ status }));
      });
    }

    it("may change in the rest after their end", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "completed" })] });
      const later = record({ status: "completed", result: message("done"), committedOutput: 2 });
      await commitOnce(store, { tasks: [later] });
      expect(await store.task("task_1")).toEqual(later);
    });

    it("are found by session, parent session, root task and status", async ({ store }) => {
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
      expect(await found({ sessionId: "sess_1" })).toEqual(["task_1"]);
      expect(await found({ sessionId: "sub-1" })).toEqual(["call_1", "call_3"]);
      expect(await found({ parentSessionId: "sess_1" })).toEqual(["call_1", "call_2", "call_3"]);
      expect(await found({ parentSessionId: "sub-1" })).toEqual(["call_4"]);
      expect(await found({ rootTaskId: "task_1" })).toHaveLength(5);
      expect(await found({ conversation: "sess_1" })).toHaveLength(5);
      expect(await found({ conversation: "sess_1", status: ["suspended"] })).toEqual(["call_2"]);
      expect(await found({ conversation: "sess_2" })).toEqual(["task_2"]);
      expect(await found({ conversation: "sub-1" })).toEqual([]);
      expect(await found({ status: ["suspended", "queued"] })).toEqual(["call_2", "task_2"]);
      expect(await found({ status: [] })).toEqual([]);
      expect(
        await found({ sessionId: "sub-1", rootTaskId: "task_1", status: ["completed"] }),
      ).toEqual(["call_3"]);
      expect(await found({ sessionId: "sess_2", rootTaskId: "task_1" })).toEqual([]);
      expect(await found({ sessionId: "sess_9" })).toEqual([]);
    });

    it("are listed in the order of their first commit, as many as asked for", async ({ store }) => {
      for (const taskId of ["task_c", "task_a", "task_b"]) {
        await commitOnce(store, { tasks: [record({ taskId })] });
      }
      await commitOnce(store, { tasks: [record({ taskId: "task_c", status: "completed" })] });
      expect(taskIds(await store.tasks({}))).toEqual(["task_c", "task_a", "task_b"]);
      expect(taskIds(await store.tasks({ sessionId: "sess_1", limit: 2 }))).toEqual([
        "task_c",
        "task_a",
      ]);
      expect(taskIds(await store.tasks({ status: ["in_progress"], limit: 1 }))).toEqual(["task_a"]);
      expect(await store.tasks({ limit: 0 })).toEqual([]);
    });

    it("do not change with a list that came out", async ({ store }) => {
      await commitOnce(store, { tasks: [record()] });
      ((await store.tasks({})) as TaskRecord[]).length = 0;
      ((await store.tasks({ sessionId: "sess_1" })) as TaskRecord[]).length = 0;
      expect(await store.tasks({})).toHaveLength(1);
      expect(await store.tasks({ sessionId: "sess_1" })).toHaveLength(1);
    });
  });
}
