import type { TaskQuery, TaskRecord } from "../../contract/index.ts";
import { isTerminal, type TaskStatus } from "../../protocol/index.ts";
import { conflict } from "../store-error.ts";
import { type TaskState, type TaskStates, unfinishedStatuses } from "../task-queue.ts";
import { assertIntact, type Checked, checksumOf, onlyIntact, parseRow } from "./damage.ts";
import type { Database, Query, Value } from "./database.ts";
import { unfinished } from "./schema.ts";

/** A record and its JSON text. */
export interface EncodedTask {
  readonly record: TaskRecord;
  readonly text: string;
}

interface TaskRow {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly sessionId: string;
  readonly parentSessionId: string | null;
  readonly conversation: string;
  readonly status: TaskStatus;
  readonly record: string;
}

/** The columns of an intact row. */
const taskColumns = `task_id AS taskId, root_task_id AS rootTaskId, session_id AS sessionId,
  parent_session_id AS parentSessionId, conversation, status, record, checksum`;

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
  // Without its record, which is replaced.
  const old = database.get<Omit<TaskRow, "record">>(
    `SELECT root_task_id AS rootTaskId, session_id AS sessionId,
       parent_session_id AS parentSessionId, conversation, status
     FROM tasks WHERE task_id = ?`,
    taskId,
  );
  if (old && isTerminal(old.status) && old.status !== status) {
    throw conflict(`Task ${taskId} has ended as ${old.status}.`);
  }
  const isInPlace =
    old?.rootTaskId === rootTaskId &&
    old.sessionId === sessionId &&
    old.parentSessionId === parentSessionId;
  const isRoot = rootTaskId === taskId;
  let { conversation } = old ?? { conversation: sessionId };
  if (!isInPlace) conversation = isRoot ? sessionId : conversationOf(database, record);
  const row = {
    taskId,
    rootTaskId,
    sessionId,
    parentSessionId,
    conversation,
    status,
    record: text,
  };
  const checksum = checksumOfTask(row);
  // SQLite rewrites the indexes of every column that a statement sets, changed or not.
  if (isInPlace && old.status === status) {
    const sql = "UPDATE tasks SET record = ?, checksum = ? WHERE task_id = ?";
    database.run(sql, text, checksum, taskId);
    return { isNew: false, hasDescendants: false };
  }
  if (isInPlace) {
    const sql = "UPDATE tasks SET record = ?, checksum = ?, status = ? WHERE task_id = ?";
    database.run(sql, text, checksum, status, taskId);
    return { isNew: false, hasDescendants: false };
  }
  database.run(
    `INSERT INTO tasks
       (task_id, root_task_id, session_id, parent_session_id, conversation, status, record,
        checksum)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (task_id) DO UPDATE
     SET root_task_id = excluded.root_task_id, session_id = excluded.session_id,
       parent_session_id = excluded.parent_session_id, conversation = excluded.conversation,
       status = excluded.status, record = excluded.record, checksum = excluded.checksum`,
    ...[taskId, rootTaskId, sessionId, parentSessionId, conversation, status, text, checksum],
  );
  return { isNew: old === undefined, hasDescendants: isRoot && moveDescendants(database, row) };
}

/** Moves the tasks that were written before their root to its conversation; returns true if there are any. */
function moveDescendants(
  database: Database,
  { taskId, sessionId: conversation }: TaskRow,
): boolean {
  const moved = database.all<TaskRow & Checked>(
    `SELECT ${taskColumns} FROM tasks WHERE root_task_id = ? AND conversation <> ?`,
    taskId,
    conversation,
  );
  for (const row of moved) {
    database.run(
      "UPDATE tasks SET conversation = ?, checksum = ? WHERE task_id = ?",
      conversation,
      checksumOfTask({ ...intact(row), conversation }),
      row.taskId,
    );
  }
  return moved.length > 0;
}

function rowOf(database: Database, taskId: string): TaskRow | undefined {
  const row = database.get<TaskRow & Checked>(
    `SELECT ${taskColumns} FROM tasks WHERE task_id = ?`,
    taskId,
  );
  return row && intact(row);
}

function intact(row: TaskRow & Checked): TaskRow {
  assertIntact(row, checksumOfTask(row), () => `task ${row.taskId}`);
  return row;
}

function checksumOfTask(row: TaskRow): number {
  const { taskId, rootTaskId, sessionId, parentSessionId, conversation, status, record } = row;
  const columns = [taskId, rootTaskId, sessionId, parentSessionId, conversation, status];
  return checksumOf(columns, record);
}

function recordOf({ taskId, record }: TaskRow): TaskRecord {
  return parseRow(record, () => `task ${taskId}`);
}

/** The record of one task. */
export function readTask(database: Database, taskId: string): TaskRecord | undefined {
  const row = rowOf(database, taskId);
  return row && recordOf(row);
}

/** How a write looks up the states of tasks. */
export function statesIn(database: Database): TaskStates {
  return {
    get: (taskId) => rowOf(database, taskId),
    unfinished: (sessionId) => unfinishedIn(database, sessionId),
  };
}

/** The states of a session's unfinished tasks, in insertion order. */
export function unfinishedIn(database: Database, sessionId: string): readonly TaskState[] {
  const { sql, values } = tasksQuery({ sessionId, status: unfinishedStatuses }, -1);
  return database.all<TaskRow & Checked>(sql, ...values).map(intact);
}

/** Records in insertion order. */
export function listTasks(
  database: Database,
  query: TaskQuery,
  limit: number,
): readonly TaskRecord[] {
  const { sql, values } = tasksQuery(query, limit);
  const rows = database.all<TaskRow & Checked>(sql, ...values);
  const read = (row: TaskRow & Checked) => recordOf(intact(row));
  const { status: _, dueBy: __, limit: ___, newestFirst: ____, ...places } = query;
  const isOfOne = Object.values(places).some((place) => place !== undefined);
  return isOfOne ? rows.map(read) : onlyIntact(rows, read);
}

/** The statement that lists tasks. */
export function tasksQuery(query: TaskQuery, limit: number): Query {
  const { dueBy } = query;
  const conditions: string[] = ["TRUE"];
  const values: Value[] = dueBy === undefined ? [] : [dueBy];
  // CROSS JOIN and the plus signs make SQLite begin with the few sessions that are due.
  const due = `number IN (
    SELECT task.number FROM due INDEXED BY due_by_time
      CROSS JOIN tasks AS task ON task.session_id = due.session_id WHERE due_at <= ?
  )`;
  if (dueBy !== undefined) conditions.push(due);
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
    const isDue = dueBy !== undefined;
    if (!query.status.some(isTerminal) && !isDue) conditions.push(unfinished);
    conditions.push(`${isDue ? "+" : ""}status IN (${query.status.map(() => "?").join()})`);
    values.push(...query.status);
  }
  const where = conditions.join(" AND ");
  const order = query.newestFirst ? "DESC" : "ASC";
  return {
    sql: `SELECT ${taskColumns} FROM tasks WHERE ${where} ORDER BY number ${order} LIMIT ?`,
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
