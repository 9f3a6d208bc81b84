import { conflict } from "../store-error.ts";
import type { Database } from "./database.ts";
import { isOwned, voidLeases } from "./leases.ts";
import { deleteLogs } from "./logs.ts";
import { unindexSession } from "./search.ts";
import { conversationOf } from "./tasks.ts";
import type { Touch } from "./write-queue.ts";

/** Deletes a conversation with all its descendants; returns false when it does not exist. */
export function deleteSession(
  database: Database,
  sessionId: string,
  now: number,
  touch: Touch,
): boolean {
  const conversation = conversationOf(database, { sessionId });
  if (conversation !== sessionId) {
    throw conflict(`Session ${sessionId} is part of conversation ${conversation}.`);
  }
  if (isOwned(database, sessionId, now)) throw conflict(`Session ${sessionId} has a live owner.`);
  voidLeases(database, sessionId, now);

  const tasks = database.all<{ task_id: string; session_id: string }>(
    `SELECT task_id, session_id FROM tasks
     WHERE session_id = ? OR root_task_id IN (SELECT task_id FROM tasks WHERE session_id = ?)`,
    sessionId,
    sessionId,
  );
  for (const { task_id } of tasks) {
    database.run("DELETE FROM tasks WHERE task_id = ?", task_id);
    database.run("DELETE FROM posts WHERE root_task_id = ?", task_id);
    touch("task", task_id);
  }
  const sessions = new Set([sessionId, ...tasks.map((task) => task.session_id)]);
  let found = false;
  for (const id of sessions) {
    found = deleteTranscript(database, id) || found;
    database.run("DELETE FROM posts WHERE session_id = ?", id);
    touch("session", id);
  }
  for (const log of deleteLogs(database, sessionId)) touch("log", log);
  return found;
}

function deleteTranscript(database: Database, sessionId: string): boolean {
  const session = database.get<{ number: number }>(
    "DELETE FROM sessions WHERE session_id = ? RETURNING number",
    sessionId,
  );
  if (session === undefined) return false;
  unindexSession(database, session.number);
  database.run("DELETE FROM messages WHERE session = ?", session.number);
  return true;
}
