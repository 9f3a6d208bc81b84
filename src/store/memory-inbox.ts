import type { Post, PostQuery, TaskRecord } from "../contract/index.ts";
import { createRows } from "./rows.ts";

/** An inbox row with the root session whose owner reads it. */
export interface StoredPost {
  readonly number: number;
  readonly post: Post;
  readonly conversation: string;
}

/** Inbox rows in memory. */
export interface MemoryInbox {
  /** The first row of an id, also after it was taken. */
  get(id: string): Post | undefined;
  /** The row of an id that has not been taken. */
  untaken(id: string): StoredPost | undefined;
  add(post: Post): StoredPost;
  take(id: string): void;
  /** Untaken rows in insertion order. */
  match(query: PostQuery): StoredPost[];
  /** Assigns the untaken rows of a new task, of its session and of its tree to their conversation. */
  reassign(record: TaskRecord, listTree: () => readonly TaskRecord[]): void;
  /** Deletes the rows of sessions and trees, taken ones too. */
  forget(sessionIds: ReadonlySet<string>, rootTaskIds: { has(id: string): boolean }): void;
}

/** An empty inbox; `conversationOf` returns the root session of a row. */
export function memoryInbox(conversationOf: (post: Post) => string): MemoryInbox {
  const posts = new Map<string, Post>();
  const rows = createRows<StoredPost, keyof PostQuery>({
    conversation: ({ conversation }) => conversation,
    sessionId: ({ post }) => post.sessionId,
    rootTaskId: ({ post }) => post.rootTaskId,
  });
  let inserted = 0;

  return {
    get: (id) => posts.get(id),
    untaken: rows.get,
    add(post) {
      const row = { number: ++inserted, post, conversation: conversationOf(post) };
      posts.set(post.id, post);
      rows.set(post.id, row);
      return row;
    },
    take: rows.delete,
    match: rows.match,
    reassign({ taskId, sessionId }, listTree) {
      if (rows.size === 0) return;
      const sessionIds = new Set([sessionId, ...listTree().map((record) => record.sessionId)]);
      const affected = [...sessionIds].flatMap((id) => rows.match({ sessionId: id }));
      for (const row of [...affected, ...rows.match({ rootTaskId: taskId })]) {
        rows.set(row.post.id, { ...row, conversation: conversationOf(row.post) });
      }
    },
    forget(sessionIds, rootTaskIds) {
      for (const { id, sessionId, rootTaskId } of posts.values()) {
        if (!sessionIds.has(sessionId) && !rootTaskIds.has(rootTaskId ?? "")) continue;
        posts.delete(id);
        rows.delete(id);
      }
    },
  };
}
