import type { Post, PostQuery, TaskRecord } from "../../protocol/store.ts";
import { conflict } from "../store-error.ts";
import { targetOf } from "../task-queue.ts";
import type { Database, Query, Value } from "./database.ts";
import { conversationOf } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** A post and its JSON text. */
export interface EncodedPost {
  readonly post: Post;
  readonly text: string;
}

interface PostPlace {
  readonly session_id: string;
  readonly root_task_id: string | null;
  readonly conversation: string;
}

/** Adds a row unless its id exists; returns the stored row, even if it was taken. */
export function putPost(database: Database, { post, text }: EncodedPost, touch: Touch): Post {
  const added = database.get<PostPlace>(
    `INSERT INTO posts (post_id, session_id, root_task_id, task_id, conversation, kind, post)
     VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (post_id) DO NOTHING
     RETURNING session_id, root_task_id, conversation`,
    post.id,
    post.sessionId,
    post.rootTaskId ?? null,
    targetOf(post) ?? null,
    conversationOf(database, post),
    post.kind,
    text,
  );
  if (added) touchPost(added, touch, true);
  const stored = added
    ? text
    : database.get<{ post: string }>("SELECT post FROM posts WHERE post_id = ?", post.id)?.post;
  return JSON.parse(stored as string);
}

/** Marks a row as taken; throws when it is not in the inbox. */
export function takePost(database: Database, id: string, touch: Touch): void {
  const taken = database.get<PostPlace>(
    `UPDATE posts SET taken = 1 WHERE post_id = ? AND taken = 0
     RETURNING session_id, root_task_id, conversation`,
    id,
  );
  if (taken === undefined) {
    const exists = database.get("SELECT 1 FROM posts WHERE post_id = ?", id);
    throw conflict(`Post ${id} ${exists ? "is already taken" : "does not exist"}.`);
  }
  touchPost(taken, touch, false);
}

/** Wakes the watchers of the session, the conversation and the root task; of their inboxes only for a new row. */
function touchPost(place: PostPlace, touch: Touch, isNew: boolean): void {
  for (const id of [place.session_id, place.conversation]) {
    touch("session", id);
    if (isNew) touch("inbox", id);
  }
  if (place.root_task_id !== null) touch("task", place.root_task_id);
}

/** Assigns the untaken rows of a new task to its conversation, with `bySession` also those of its tree's sessions. */
export function reassignPosts(
  database: Database,
  { taskId, rootTaskId, sessionId }: TaskRecord,
  bySession: boolean,
): void {
  const update = `UPDATE posts SET conversation = coalesce(
    (SELECT session_id FROM tasks WHERE task_id = coalesce(
      posts.root_task_id,
      (SELECT root_task_id FROM sessions WHERE session_id = posts.session_id)
    )),
    posts.session_id
  ) WHERE taken = 0`;
  if (rootTaskId === taskId) database.run(`${update} AND root_task_id = ?`, taskId);
  if (!bySession) return;
  database.run(
    `${update} AND session_id IN (SELECT ? UNION SELECT session_id FROM tasks WHERE root_task_id = ?)`,
    sessionId,
    taskId,
  );
}

/** Untaken rows in insertion order. */
export function listPosts(database: Database, query: PostQuery): Post[] {
  const { sql, values } = postsQuery(query);
  return database.all<{ post: string }>(sql, ...values).map((row) => JSON.parse(row.post));
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
  return { sql: `SELECT post FROM posts WHERE ${where} ORDER BY number`, values };
}
