import type { Post, PostQuery, TaskQuery, TaskRecord } from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import { Body } from "./body.ts";
import { encodePost, encodeTask } from "./commit-encoding.ts";
import type { Database } from "./database.ts";
import { assertStorable } from "./ids.ts";
import type { Connection, Statement, Value } from "./pg-connection.ts";

const taskStatement = { name: "task", text: "SELECT record FROM rivulet.tasks WHERE task_id = $1" };
const enqueueStatement = {
  name: "enqueue",
  text: "SELECT stored, is_new, new_rev FROM rivulet.enqueue_1($1::jsonb, $2, $3, $4)",
};
const postStatement = {
  name: "post",
  text: "SELECT stored, touched, new_conv, new_rev FROM rivulet.post_1($1::jsonb, $2)",
};

/** How often a write is repeated because another process was faster with the same id. */
const races = 5;

/** A statement with its values. */
export interface Query {
  readonly statement: Statement;
  readonly values: readonly Value[];
}

/** The record of one task. */
export async function readTask(database: Database, id: string): Promise<TaskRecord | undefined> {
  assertStorable(id);
  const [row] = await database.read<[string]>(taskStatement, [id]);
  return row && JSON.parse(row[0]);
}

/** Records in insertion order. */
export async function listTasks(
  database: Database,
  query: TaskQuery,
): Promise<readonly TaskRecord[]> {
  const { statement, values } = tasksQuery(query);
  const rows = await database.read<[string]>(statement, values);
  return rows.map(([record]) => JSON.parse(record));
}

/** The statement that lists tasks. */
function tasksQuery(query: TaskQuery): Query {
  const { sessionId, parentSessionId, rootTaskId, conversation, status, newestFirst } = query;
  const found = conditions({
    session_id: sessionId,
    parent_session_id: parentSessionId,
    root_task_id: rootTaskId,
    conv: conversation,
  });
  if (status !== undefined) {
    // Word for word as in the partial indexes.
    if (!status.some(isTerminal))
      found.where.push("status IN ('queued', 'in_progress', 'suspended')");
    found.values.push(status);
    found.where.push(`status = ANY ($${found.values.length}::text[])`);
  }
  if (query.dueBy !== undefined) {
    found.values.push(query.dueBy);
    const due = `SELECT session_id FROM rivulet.due WHERE due_at <= $${found.values.length}`;
    found.where.push(`session_id = ANY (ARRAY(${due}))`);
  }
  found.values.push(atMost(query.limit));
  const text = `SELECT record FROM rivulet.tasks WHERE ${found.where.join(" AND ")}
    ORDER BY no ${newestFirst ? "DESC" : "ASC"} LIMIT $${found.values.length}`;
  return { statement: statementOf("tasks", text), values: found.values };
}

type EnqueuedRow = [stored: string, isNew: boolean, revision: number | null];

/** The result of `enqueue`, with the number of changes of its conversation. */
interface Enqueued {
  readonly stored: TaskRecord;
  /** Whether watchers must be woken. */
  readonly isNew: boolean;
  readonly revision: number | null;
}

/** Adds a queued root task, unless there is a record of its id. */
export async function enqueueTask(
  database: Database,
  connection: Connection,
  record: TaskRecord,
  ifIdle: boolean,
): Promise<Enqueued> {
  const body = new Body();
  const task = JSON.stringify(encodeTask(record, body));
  const bytes = body.toBuffer();
  const values = [task, bytes, ifIdle];
  return database.repeat(
    async ({ mayBeDone }) => {
      const statement = database.named(enqueueStatement);
      const [row] = await connection.run<EnqueuedRow>(statement, [...values, database.given]);
      const [stored, isNew, revision] = row as EnqueuedRow;
      return { stored: JSON.parse(stored), isNew: isNew || mayBeDone, revision };
    },
    { races },
  );
}

/** Rows of inboxes that were added. */
export interface Posted {
  readonly stored: readonly Post[];
  /** The keys to wake. */
  readonly touched: readonly string[];
  /** The numbers of changes of their conversations. */
  readonly revisions: ReadonlyMap<string, number>;
}

/** Adds inbox rows, all or none. */
export async function postRows(
  database: Database,
  connection: Connection,
  rows: readonly Post[],
): Promise<Posted> {
  const body = new Body();
  const posts = JSON.stringify(rows.map((post) => encodePost(post, body)));
  const bytes = body.toBuffer();
  let isRepeated = false;
  const added = await database.repeat(
    ({ mayBeDone }) => {
      isRepeated = mayBeDone;
      return connection.run<[string, readonly string[], string | null, number]>(
        database.named(postStatement),
        [posts, bytes],
      );
    },
    { races },
  );
  // The rows of an attempt whose answer was lost are not new, and nobody was woken for them.
  const again = isRepeated
    ? rows.flatMap(({ sessionId }) => [`s${sessionId}`, `i${sessionId}`])
    : [];
  return {
    stored: added.map(([post]) => JSON.parse(post)),
    touched: [...again, ...added.flatMap(([, touched]) => touched)],
    revisions: new Map(
      added.flatMap(([, , conversation, revision]) =>
        conversation === null ? [] : [[conversation, revision]],
      ),
    ),
  };
}

/** Untaken rows in insertion order. */
export async function listPosts(database: Database, query: PostQuery): Promise<readonly Post[]> {
  const { statement, values } = postsQuery(query);
  const rows = await database.read<[string]>(statement, values);
  return rows.map(([post]) => JSON.parse(post));
}

/** The statement that lists untaken rows. */
function postsQuery({ conversation, sessionId, rootTaskId }: PostQuery): Query {
  const found = conditions({
    conv: conversation,
    session_id: sessionId,
    root_task_id: rootTaskId,
  });
  const where = ["NOT taken", ...found.where].join(" AND ");
  const text = `SELECT post FROM rivulet.posts WHERE ${where} ORDER BY no`;
  return { statement: statementOf("posts", text), values: found.values };
}

function conditions(columns: Readonly<Record<string, string | undefined>>) {
  const values: Value[] = [];
  const where: string[] = ["TRUE"];
  for (const [column, value] of Object.entries(columns)) {
    if (value === undefined) continue;
    assertStorable(value);
    values.push(value);
    where.push(`${column} = $${values.length}`);
  }
  return { values, where };
}

const statements = new Map<string, Statement>();

/** The same object for the same text, so that a connection prepares it once. */
export function statementOf(name: string, text: string): Statement {
  let statement = statements.get(text);
  if (statement === undefined) {
    statement = { name: `${name}_${statements.size}`, text };
    statements.set(text, statement);
  }
  return statement;
}

/** A limit for PostgreSQL, which uses NULL for none. */
export function atMost(limit = Number.POSITIVE_INFINITY): number | null {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : null;
}
