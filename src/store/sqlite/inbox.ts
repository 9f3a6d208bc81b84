import type { Post } from "../../protocol/store.ts";
import { conflict } from "../store-error.ts";
import type { Database, Value } from "./database.ts";
import { conversationOf } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** A post as it was given, and as it is kept. */
export interface EncodedPost {
  readonly post: Post;
  readonly text: string;
}

/** The row that won: the first of an id, also after it was taken. */
export function putPost(database: Database, { post, text }: EncodedPost, touch: Touch): Post {
  const added = database.run(
    `INSERT INTO posts (post_id, session_id, root_task_id, kind, post) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (post_id) DO NOTHING`,
    post.id,
    post.sessionId,
    post.rootTaskId ?? null,
    post.kind,
    text,
  );
  if (added === 1) touchPost(database, post, touch, true);
  return readPost(database, post.id) as Post;
}

/** Moves a row out of the inbox; throws when it is not in it. */
export function takePost(database: Database, id: string, touch: Touch): void {
  const taken = database.run("UPDATE posts SET taken = 1 WHERE post_id = ? AND taken = 0", id);
  const post = readPost(database, id);
  if (post === undefined) throw conflict(`Post ${id} is unknown.`);
  if (taken === 0) throw conflict(`Post ${id} is already taken.`);
  touchPost(database, post, touch, false);
}

/** Whoever waits on the session, on its conversation or on the root task wants to know; of a new row, also who waits for posts. */
function touchPost(database: Database, post: Post, touch: Touch, isNew: boolean): void {
  for (const id of [post.sessionId, conversationOf(database, post)]) {
    touch("session", id);
    if (isNew) touch("inbox", id);
  }
  if (post.rootTaskId !== undefined) touch("task", post.rootTaskId);
}

function readPost(database: Database, id: string): Post | undefined {
  const row = database.get<{ post: string }>("SELECT post FROM posts WHERE post_id = ?", id);
  return row && JSON.parse(row.post);
}

/** Rows that are not yet taken, in the order they were posted. */
export function listPosts(
  database: Database,
  query: { readonly sessionId?: string; readonly rootTaskId?: string },
): Post[] {
  let where = "taken = 0";
  const values: Value[] = [];
  if (query.sessionId !== undefined) {
    where += " AND session_id = ?";
    values.push(query.sessionId);
  }
  if (query.rootTaskId !== undefined) {
    where += " AND root_task_id = ?";
    values.push(query.rootTaskId);
  }
  return database
    .all<{ post: string }>(`SELECT post FROM posts WHERE ${where} ORDER BY number`, ...values)
    .map((row) => JSON.parse(row.post));
}
