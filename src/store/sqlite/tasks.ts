import type { TaskQuery, TaskRecord } from "../../protocol/store.ts";
import { isTerminal, type TaskStatus } from "../../protocol/task.ts";
import { conflict } from "../store-error.ts";
import { type TaskState, unfinishedStatuses } from "../task-queue.ts";
import type { Database, Query, Value } from "./database.ts";

/** A record and its JSON text. */
export interface EncodedTask {
  readonly record: TaskRecord;
  readonly text: string;
}

interface TaskRow {
  readonly task_id: string;
  readonly root_task_id: string;
  readonly session_id: string;
  readonly parent_session_id: string | null;
  readonly status: TaskStatus;
}

/** The result of writing a record. */
export interface PutTask {
  readonly isNew: boolean;
  /** True when tasks of its tree were written before it. */
  readonly hasDescendants: boolean;
}

/** Adds or replaces a record; throws when it would reopen an ended task. */
export function putTask(database: Database, { record, text }: EncodedTask): PutTask {
  const { taskId, status, rootTaskId, sessionId } = record;
  const parentSessionId = record.parentSessionId ?? null;
  const old = rowOf(database, taskId);
  if (old && isTerminal(old.status) && old.status !== status) {
    throw conflict(`Task ${taskId} has ended as ${old.status}.`);
  }
  const isInPlace =
    old?.root_task_id === rootTaskId &&
    old.session_id === sessionId &&
    old.parent_session_id === parentSessionId;
  let moved = 0;
  // SQLite rewrites the indexes of every column that a statement sets, changed or not.
  if (isInPlace && old.status === status) {
    database.run("UPDATE tasks SET record = ? WHERE task_id = ?", text, taskId);
  } else if (isInPlace) {
    database.run("UPDATE tasks SET record = ?, status = ? WHERE task_id = ?", text, status, taskId);
  } else {
    database.run(
      `INSERT INTO tasks
         (task_id, root_task_id, session_id, parent_session_id, conversation, status, record)
       VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (task_id) DO UPDATE
       SET root_task_id = excluded.root_task_id, session_id = excluded.session_id,
         parent_session_id = excluded.parent_session_id, conversation = excluded.conversation,
         status = excluded.status, record = excluded.record`,
      taskId,
      rootTaskId,
      sessionId,
      parentSessionId,
      rootTaskId === taskId ? sessionId : conversationOf(database, record),
      status,
      text,
    );
    if (rootTaskId === taskId) {
      moved = database.run(
        "UPDATE tasks SET conversation = ? WHERE root_task_id = ? AND conversation <> ?",
        sessionId,
        taskId,
        sessionId,
      );
    }
  }
  return { isNew: old === undefined, hasDescendants: moved > 0 };
}

function rowOf(database: Database, taskId: string): TaskRow | undefined {
  return database.get(
    `SELECT task_id, root_task_id, session_id, parent_session_id, status
     FROM tasks WHERE task_id = ?`,
    taskId,
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

/** The state of one task. */
export function readState(database: Database, taskId: string): TaskState | undefined {
  const row = rowOf(database, taskId);
  return row && stateOf(row);
}

/** The states of a session's unfinished tasks, in insertion order. */
export function unfinishedIn(database: Database, sessionId: string): TaskState[] {
  const query = tasksQuery(
    { sessionId, status: unfinishedStatuses },
    { columns: "task_id, session_id, status", limit: -1 },
  );
  return database.all<TaskRow>(query.sql, ...query.values).map(stateOf);
}

function stateOf({ task_id, session_id, status }: TaskRow): TaskState {
  return { taskId: task_id, sessionId: session_id, status };
}

/** Records in insertion order. */
export function listTasks(database: Database, query: TaskQuery, limit: number): TaskRecord[] {
  const { sql, values } = tasksQuery(query, { columns: "record", limit });
  return database.all<{ record: string }>(sql, ...values).map((row) => JSON.parse(row.record));
}

/** The statement that lists tasks. */
export function tasksQuery(
  query: TaskQuery,
  { columns, limit }: { readonly columns: string; readonly limit: number },
): Query {
  const conditions: string[] = ["TRUE"];
  const values: Value[] = [];
  for (const [column, value] of [
    ["session_id", query.sessionId],
    ["parent_session_id", query.parentSessionId],
    ["root_task_id", query.rootTaskId],
    ["conversation", query.conversation],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (query.status !== undefined) {
    conditions.push(`status IN (${query.status.map(() => "?").join()})`);
    values.push(...query.status);
  }
  const where = conditions.join(" AND ");
  return {
    sql: `SELECT ${columns} FROM tasks WHERE ${where} ORDER BY number LIMIT ?`,
    values: [...values, limit],
  };
}

/** The root session of a task or a post: the session that the lease is on. */
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
