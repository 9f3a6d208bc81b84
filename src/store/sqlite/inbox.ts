import type { Post, PostQuery, TaskRecord } from "../../contract/index.ts";
import { conflict } from "../store-error.ts";
import { targetOf } from "../task-queue.ts";
import { assertIntact, type Checked, checksumOf, onlyIntact, parseRow } from "./damage.ts";
import type { Database, Query, Value } from "./database.ts";
import { conversationOf } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** A post and its JSON text. */
export interface EncodedPost {
  readonly post: Post;
  readonly text: string;
}

interface PostRow {
  readonly postId: string;
  readonly sessionId: string;
  readonly rootTaskId: string | null;
  readonly taskId: string | null;
  readonly conversation: string;
  readonly kind: string;
  readonly taken: number;
  readonly post: string;
}

const postColumns = `post_id AS postId, session_id AS sessionId, root_task_id AS rootTaskId,
  task_id AS taskId, conversation, kind, taken, post, checksum`;

/** Adds a row unless its id exists; returns the stored row, even if it was taken. */
export function putPost(database: Database, { post, text }: EncodedPost, touch: Touch): Post {
  const { id: postId, sessionId, kind } = post;
  const rootTaskId = post.rootTaskId ?? null;
  const taskId = targetOf(post) ?? null;
  const conversation = conversationOf(database, post);
  const row = { postId, sessionId, rootTaskId, taskId, conversation, kind, taken: 0, post: text };
  const added = database.run(
    `INSERT INTO posts
       (post_id, session_id, root_task_id, task_id, conversation, kind, taken, post, checksum)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (post_id) DO NOTHING`,
    ...[postId, sessionId, rootTaskId, taskId, conversation, kind, 0, text, checksumOfPost(row)],
  );
  if (added === 0) return postOf(rowOf(database, postId) as PostRow);
  touchPost(row, touch, true);
  return JSON.parse(text);
}

function rowOf(database: Database, id: string): PostRow | undefined {
  const row = database.get<PostRow & Checked>(
    `SELECT ${postColumns} FROM posts WHERE post_id = ?`,
    id,
  );
  return row && intact(row);
}

function intact(row: PostRow & Checked): PostRow {
  assertIntact(row, checksumOfPost(row), () => `inbox row ${row.postId}`);
  return row;
}

function checksumOfPost(row: PostRow): number {
  const { postId, sessionId, rootTaskId, taskId, conversation, kind, taken, post } = row;
  return checksumOf([postId, sessionId, rootTaskId, taskId, conversation, kind, taken], post);
}

function postOf({ postId, post }: PostRow): Post {
  return parseRow(post, () => `inbox row ${postId}`);
}

/** Marks a row as taken; throws when it is not in the inbox. */
export function takePost(database: Database, id: string, touch: Touch): void {
  const row = rowOf(database, id);
  if (row === undefined || row.taken !== 0) {
    throw conflict(`Post ${id} ${row ? "is already taken" : "does not exist"}.`);
  }
  const checksum = checksumOfPost({ ...row, taken: 1 });
  database.run("UPDATE posts SET taken = 1, checksum = ? WHERE post_id = ?", checksum, id);
  touchPost(row, touch, false);
}

/** Wakes the watchers of the session, the conversation and the root task; of their inboxes only for a new row. */
function touchPost(row: PostRow, touch: Touch, isNew: boolean): void {
  for (const id of [row.sessionId, row.conversation]) {
    touch("session", id);
    if (isNew) touch("inbox", id);
  }
  if (row.rootTaskId !== null) touch("task", row.rootTaskId);
}

/** Whether untaken rows wait for a new task, its session or, with `bySession`, the sessions of its tree. */
export function hasPostsFor(
  database: Database,
  { taskId, sessionId }: TaskRecord,
  bySession: boolean,
): boolean {
  if (bySession) return database.get("SELECT 1 FROM posts WHERE taken = 0 LIMIT 1") !== undefined;
  return (
    database.get(
      `SELECT 1 FROM posts WHERE taken = 0 AND session_id = ?
       UNION ALL SELECT 1 FROM posts WHERE taken = 0 AND root_task_id = ? LIMIT 1`,
      sessionId,
      taskId,
    ) !== undefined
  );
}

/** Assigns the untaken rows of a new task, of its session and of its tree's sessions to their conversation. */
export function reassignPosts(database: Database, { taskId, sessionId }: TaskRecord): void {
  const rows = database.all<PostRow & Checked>(
    `SELECT ${postColumns} FROM posts WHERE taken = 0 AND (root_task_id = ? OR session_id IN (
       SELECT ? UNION SELECT session_id FROM tasks WHERE root_task_id = ?
     ))`,
    taskId,
    sessionId,
    taskId,
  );
  for (const row of rows.map(intact)) {
    const { rootTaskId } = row;
    const place = { sessionId: row.sessionId, ...(rootTaskId !== null && { rootTaskId }) };
    const conversation = conversationOf(database, place);
    database.run(
      "UPDATE posts SET conversation = ?, checksum = ? WHERE post_id = ?",
      conversation,
      checksumOfPost({ ...row, conversation }),
      row.postId,
    );
  }
}

/** Untaken rows in insertion order. */
export function listPosts(database: Database, query: PostQuery): readonly Post[] {
  const { sql, values } = postsQuery(query);
  const rows = database.all<PostRow & Checked>(sql, ...values);
  const read = (row: PostRow & Checked) => postOf(intact(row));
  return values.length > 0 ? rows.map(read) : onlyIntact(rows, read);
}

/** The statement that lists untaken rows. */
export function postsQuery({ conversation, sessionId, rootTaskId }: PostQuery): Query {
  let where = "taken = 0";
  const values: Value[] = [];
  for (const [column, value] of [
    ["conversation", conversation],
    ["session_id", sessionId],
    ["root_task_id", rootTaskId],
  ] as const) {
    if (value === undefined) continue;
    where += ` AND ${column} = ?`;
    values.push(value);
  }
  return { sql: `SELECT ${postColumns} FROM posts WHERE ${where} ORDER BY number`, values };
}
