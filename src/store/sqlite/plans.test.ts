import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { PostQuery, TaskQuery } from "../../contract/store.ts";
import { unfinishedStatuses } from "../task-queue.ts";
import { openDatabase, type Query } from "./database.ts";
import { postsQuery } from "./inbox.ts";
import { expiredQuery } from "./leases.ts";
import { migrate } from "./schema.ts";
import { tasksQuery } from "./tasks.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-plans-"));
const database = openDatabase(join(folder, "store.db"), 0);
migrate(database);
afterAll(() => {
  database.close();
  rmSync(folder, { recursive: true });
});

/** The steps of the plan of a statement. */
function planOf({ sql, values }: Query): string[] {
  return database
    .all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values)
    .map(({ detail }) => detail);
}

describe("query plans", () => {
  it.each<[TaskQuery, string]>([
    [
      { conversation: "s", status: unfinishedStatuses },
      "INDEX tasks_by_conversation (conversation=? AND status=?)",
    ],
    [{ conversation: "s" }, "INDEX tasks_by_conversation (conversation=?)"],
    [{ sessionId: "s", status: unfinishedStatuses }, "INDEX unfinished_by_session (session_id=?)"],
    [{ sessionId: "s" }, "INDEX tasks_by_session (session_id=?)"],
    [{ rootTaskId: "t" }, "INDEX tasks_by_root (root_task_id=?)"],
    [
      { rootTaskId: "t", status: ["in_progress", "suspended"] },
      "INDEX tasks_by_root (root_task_id=?)",
    ],
    [
      { parentSessionId: "s", status: unfinishedStatuses },
      "INDEX tasks_by_parent_session (parent_session_id=?)",
    ],
    [{ status: ["suspended"] }, "INDEX tasks_by_status (status=?)"],
  ])("lists tasks by %j through an index", (query, index) => {
    const [first, ...rest] = planOf(tasksQuery(query, -1));
    expect(first).toBe(`SEARCH tasks USING ${index}`);
    expect(rest.filter((step) => step !== "USE TEMP B-TREE FOR ORDER BY")).toEqual([]);
  });

  it("finds tasks with due approvals by time", () => {
    const steps = planOf(tasksQuery({ status: ["suspended"], dueBy: 1 }, -1));
    expect(steps).toContain("SEARCH due USING COVERING INDEX due_by_time (due_at<?)");
    expect(steps).toContain("SEARCH task USING COVERING INDEX tasks_by_session (session_id=?)");
    expect(steps[0]).toBe("SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)");
  });

  it.each<TaskQuery>([
    { sessionId: "s", limit: 1 },
    { sessionId: "s", newestFirst: true, limit: 1 },
    { sessionId: "s", status: unfinishedStatuses },
  ])("reads tasks by %j in the order of their index", (query) => {
    expect(planOf(tasksQuery(query, query.limit ?? -1))).toHaveLength(1);
  });

  it.each<[PostQuery, string]>([
    [{ conversation: "s" }, "INDEX posts_by_conversation (conversation=?)"],
    [{ sessionId: "s" }, "INDEX posts_by_session (session_id=? AND taken=?)"],
    [{ rootTaskId: "t" }, "INDEX posts_by_root (root_task_id=? AND taken=?)"],
  ])("lists untaken rows by %j through an index", (query, index) => {
    const [first, ...rest] = planOf(postsQuery(query));
    expect(first).toBe(`SEARCH posts USING ${index}`);
    expect(rest).toEqual([]);
  });

  it("finds conversations without an owner among unfinished tasks and untaken rows", () => {
    const scans = planOf({ sql: expiredQuery, values: ["", 0, 0, -1] }).filter((step) =>
      /^SCAN (tasks|posts|lease|sessions)\b/.test(step),
    );
    expect(scans).toEqual(["SCAN posts USING INDEX posts_by_conversation"]);
  });
});
