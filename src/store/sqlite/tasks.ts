import type { TaskQuery, TaskRecord } from "../../protocol/store.ts";
import { isTerminal, type TaskStatus } from "../../protocol/task.ts";
import { conflict } from "../store-error.ts";
import type { Database, Value } from "./database.ts";

/** A record as it was given, and as it is kept. */
export interface EncodedTask {
  readonly record: TaskRecord;
  readonly text: string;
}

/** Adds a record, or replaces it in its place; throws when that would undo an end. */
export function putTask(database: Database, { record, text }: EncodedTask): void {
  const { taskId, status } = record;
  const old = database.get<{ status: TaskStatus }>(
    "SELECT status FROM tasks WHERE task_id = ?",
    taskId,
  );
  if (old && isTerminal(old.status) && old.status !== status) {
    throw conflict(`Task ${taskId} has ended as ${old.status}.`);
  }
  database.run(
    `INSERT INTO tasks (task_id, root_task_id, session_id, parent_session_id, status, record)
     VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (task_id) DO UPDATE
     SET root_task_id = excluded.root_task_id, session_id = excluded.session_id,
       parent_session_id = excluded.parent_session_id, status = excluded.status,
       record = excluded.record`,
    taskId,
    record.rootTaskId,
    record.sessionId,
    record.parentSessionId ?? null,
    status,
    text,
  );
}

/** The record of one task. */
export function readTask(database: Database, taskId: string): TaskRecord | undefined {
  const row = database.get<{ record: string }>(
    "SELECT record FROM tasks WHERE task_id = ?",
    taskId,
  );
  return row && JSON.parse(row.record);
}

/** In the order of their first commit. */
export function listTasks(database: Database, query: TaskQuery, limit: number): TaskRecord[] {
  const conditions: string[] = ["TRUE"];
  const values: Value[] = [];
  for (const [column, value] of [
    ["session_id", query.sessionId],
    ["parent_session_id", query.parentSessionId],
    ["root_task_id", query.rootTaskId],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (query.conversation !== undefined) {
    conditions.push("root_task_id IN (SELECT task_id FROM tasks WHERE session_id = ?)");
    values.push(query.conversation);
  }
  if (query.status !== undefined) {
    conditions.push(`status IN (${query.status.map(() => "?").join()})`);
    values.push(...query.status);
  }
  const rows = database.all<{ record: string }>(
    `SELECT record FROM tasks WHERE ${conditions.join(" AND ")} ORDER BY number LIMIT ?`,
    ...values,
    limit,
  );
  return rows.map((row) => JSON.parse(row.record));
}

/** The root session that a task or a post belongs to: what its owner holds the lease on. */
export function conversationOf(
  database: Database,
  row: { readonly rootTaskId?: string; readonly sessionId: string },
): string {
  const root = database.get<{ session_id: string }>(
    `SELECT session_id FROM tasks
     WHERE task_id = coalesce(?, (SELECT root_task_id FROM sessions WHERE session_id = ?))`,
    row.rootTaskId ?? null,
    row.sessionId,
  );
  return root?.session_id ?? row.sessionId;
}
