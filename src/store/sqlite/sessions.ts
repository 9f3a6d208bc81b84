import type { Message } from "../../protocol/message.ts";
import type { SessionInfo, SessionQuery, TaskRecord } from "../../protocol/store.ts";
import { searchWords } from "../search.ts";
import { sessionTitle } from "../session-title.ts";
import { conflict, invalidCursor } from "../store-error.ts";
import type { Database, Value } from "./database.ts";
import { indexMessage, indexSession } from "./search.ts";

/** An append with encoded messages. */
export interface EncodedAppend {
  readonly sessionId: string;
  readonly at: number;
  readonly messages: readonly { readonly text: string; readonly words: string }[];
  /** The title of the session, unless it has one already. */
  readonly title: string | undefined;
}

interface SessionRow {
  readonly session_id: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly messages: number;
  readonly title: string | null;
  readonly user_id: string | null;
  readonly agent_id: string | null;
}

/** Encodes the messages of an append. */
export function encodeAppend(append: {
  readonly sessionId: string;
  readonly at: number;
  readonly messages: readonly Message[];
}): EncodedAppend {
  const { sessionId, at, messages } = append;
  const encoded = messages.map((message) => ({
    text: JSON.stringify(message),
    words: searchWords(message),
  }));
  return { sessionId, at, messages: encoded, title: sessionTitle(messages) };
}

/** Appends messages to a session; throws unless it has `at` messages. */
export function appendMessages(database: Database, append: EncodedAppend, now: number): void {
  const { sessionId, at, messages, title } = append;
  const session = touchSession(database, sessionId, now);
  if (at !== session.messages) {
    throw conflict(`Session ${sessionId} has ${session.messages} messages, not ${at}.`);
  }
  if (messages.length === 0) return;
  for (const [index, { text, words }] of messages.entries()) {
    const { number } = database.get(
      "INSERT INTO messages (session, position, message) VALUES (?, ?, ?) RETURNING number",
      session.number,
      at + index,
      text,
    ) as { number: number };
    if (session.parent_session_id !== null) continue;
    indexMessage(database, number, { userId: session.user_id, words });
  }
  database.run(
    "UPDATE sessions SET messages = ?, title = coalesce(title, ?) WHERE number = ?",
    at + messages.length,
    title ?? null,
    session.number,
  );
}

/** Assigns a session to its first task; returns true for that task. */
export function assignSession(database: Database, record: TaskRecord, now: number): boolean {
  const { number, messages, root_task_id } = touchSession(database, record.sessionId, now);
  if (root_task_id !== null) return false;
  database.run(
    `UPDATE sessions SET root_task_id = ?, parent_session_id = ?, user_id = ?, agent_id = ?
     WHERE number = ?`,
    record.rootTaskId,
    record.parentSessionId ?? null,
    record.userId ?? null,
    record.agentId,
    number,
  );
  // The search index needs the user, who is unknown before the first task.
  if (messages > 0) indexSession(database, number);
  return true;
}

/** The user of a session's first task; undefined while the session has no task. */
export function userOf(
  database: Database,
  sessionId: string,
): { readonly userId?: string } | undefined {
  const session = database.get<{ user_id: string | null }>(
    "SELECT user_id FROM sessions WHERE session_id = ? AND root_task_id IS NOT NULL",
    sessionId,
  );
  return session && (session.user_id === null ? {} : { userId: session.user_id });
}

interface TouchedSession {
  readonly number: number;
  readonly messages: number;
  readonly root_task_id: string | null;
  readonly user_id: string | null;
  readonly parent_session_id: string | null;
}

function touchSession(database: Database, sessionId: string, now: number): TouchedSession {
  return database.get(
    `INSERT INTO sessions (session_id, created_at, updated_at) VALUES (?, ?, ?)
     ON CONFLICT (session_id) DO UPDATE SET updated_at = excluded.updated_at
     RETURNING number, messages, root_task_id, user_id, parent_session_id`,
    sessionId,
    now,
    now,
  ) as TouchedSession;
}

/** The messages of a session from index `from` on; a limit of -1 means all. */
export function readSession(
  database: Database,
  sessionId: string,
  from: number,
  limit: number,
): Message[] {
  const rows = database.all<{ message: string }>(
    `SELECT message FROM messages
     WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND position >= ?
     ORDER BY position LIMIT ?`,
    sessionId,
    from,
    limit,
  );
  return rows.map((row) => JSON.parse(row.message));
}

/** Newest first; a child's session is listed only by its id. */
export function listSessions(database: Database, query: SessionQuery): SessionInfo[] {
  const { userId, sessionId, before, limit } = query;
  let listed = "FROM sessions WHERE parent_session_id IS NULL";
  const values: Value[] = [];
  if (sessionId !== undefined) {
    listed = "FROM sessions WHERE session_id = ?";
    values.push(sessionId);
  }
  if (userId !== undefined) {
    listed += " AND user_id = ?";
    values.push(userId);
  }
  if (before !== undefined) {
    const cursor = database.get<{ number: number }>(
      `SELECT number ${listed} AND session_id = ?`,
      ...values,
      before,
    );
    if (cursor === undefined) throw invalidCursor(before);
    listed += " AND number < ?";
    values.push(cursor.number);
  }
  return database
    .all<SessionRow>(
      `SELECT session_id, created_at, updated_at, messages, title, user_id, agent_id ${listed}
       ORDER BY number DESC LIMIT ?`,
      ...values,
      limit,
    )
    .map(infoOf);
}

function infoOf(row: SessionRow): SessionInfo {
  return {
    sessionId: row.session_id,
    ...(row.user_id !== null && { userId: row.user_id }),
    ...(row.agent_id !== null && { agentId: row.agent_id }),
    ...(row.title !== null && { title: row.title }),
    messages: row.messages,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
