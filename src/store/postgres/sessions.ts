import type {
  Message,
  SearchMatch,
  SearchQuery,
  SessionInfo,
  SessionQuery,
} from "../../contract/index.ts";
import { bestMatches, phrasesOf } from "../search.ts";
import { invalidCursor } from "../store-error.ts";
import type { Database } from "./database.ts";
import { assertStorable } from "./ids.ts";
import { liveOwner } from "./leases.ts";
import type { Connection, Value } from "./pg-connection.ts";
import { atMost, type Query, statementOf } from "./records.ts";
import { wordsQuery } from "./search-words.ts";

/** How many of the newest matches are ranked, because ranking reads the whole message. */
const maxRanked = 200;

const messagesStatement = {
  name: "messages",
  text: `SELECT m.message FROM rivulet.sessions s JOIN rivulet.messages m ON m.session = s.no
    WHERE s.session_id = $1 AND m.position >= $2 AND m.position < $3 ORDER BY m.position`,
};
const deleteStatement = {
  name: "delete",
  text: "SELECT existed, touched FROM rivulet.delete_1($1, $2)",
};
const lastPosition = 2_147_483_647;

/** The messages of a session from index `from` on. */
export async function readSession(
  database: Database,
  sessionId: string,
  from: number,
  limit: number | undefined,
): Promise<readonly Message[]> {
  assertStorable(sessionId);
  const first = Math.min(Math.max(0, Math.trunc(from)), lastPosition);
  const end = Math.min(first + (atMost(limit) ?? lastPosition), lastPosition);
  const rows = await database.read<[string]>(messagesStatement, [sessionId, first, end]);
  return rows.map(([message]) => JSON.parse(message));
}

type SessionRow = [
  sessionId: string,
  userId: string | null,
  agentId: string | null,
  title: string | null,
  messages: number,
  visibleFrom: number,
  createdAt: number,
  updatedAt: number,
];

/** Newest first; a child's session is listed only by its id. */
export async function listSessions(
  database: Database,
  query: SessionQuery,
): Promise<readonly SessionInfo[]> {
  const { before, ...listed } = query;
  let below: number | undefined;
  if (before !== undefined) {
    assertStorable(before);
    const { statement, values } = sessionsQuery({ ...listed, limit: 1 }, { sessionId: before });
    const [row] = await database.read<[...SessionRow, number]>(statement, values);
    if (row === undefined) throw invalidCursor(before);
    [, , , , , , , , below] = row;
  }
  const { statement, values } = sessionsQuery(listed, below === undefined ? {} : { below });
  const rows = await database.read<SessionRow>(statement, values);
  return rows.map(infoOf);
}

/** The statement that lists sessions, with their numbers as the last column. */
function sessionsQuery(
  { userId, sessionId, limit }: SessionQuery,
  also: { readonly sessionId?: string; readonly below?: number } = {},
): Query {
  const values: Value[] = [];
  const value = (one: Value) => `$${values.push(one)}`;
  const where = [];
  assertStorable(userId ?? undefined, sessionId);
  if (sessionId === undefined) where.push("parent_session_id IS NULL");
  else where.push(`session_id = ${value(sessionId)}`);
  if (userId === null) where.push("user_id IS NULL");
  else if (userId !== undefined) where.push(`user_id = ${value(userId)}`);
  if (also.sessionId !== undefined) where.push(`session_id = ${value(also.sessionId)}`);
  if (also.below !== undefined) where.push(`no < ${value(also.below)}`);
  const text = `SELECT session_id, user_id, agent_id, title, messages, visible_from, created_at, updated_at, no
    FROM rivulet.sessions WHERE ${where.join(" AND ")} ORDER BY no DESC LIMIT ${value(atMost(limit))}`;
  return { statement: statementOf("sessions", text), values };
}

function infoOf(row: SessionRow): SessionInfo {
  const [sessionId, userId, agentId, title, messages, visibleFrom, createdAt, updatedAt] = row;
  return {
    sessionId,
    ...(userId !== null && { userId }),
    ...(agentId !== null && { agentId }),
    ...(title !== null && { title }),
    messages,
    ...(visibleFrom > 0 && { visibleFrom }),
    createdAt,
    updatedAt,
  };
}

/** Messages that contain all the words, best match first. */
export async function searchMessages(
  database: Database,
  query: SearchQuery,
): Promise<readonly SearchMatch[]> {
  const { text, userId, limit } = query;
  assertStorable(userId ?? undefined);
  const phrases = phrasesOf(text);
  if (phrases.length === 0) return [];
  const { statement, values } = searchQuery(wordsQuery(phrases, userId), userId);
  const rows = await database.read<[string, number, string]>(statement, values);
  const candidates = rows.map(([sessionId, index, message]) => {
    return { sessionId, index, message: JSON.parse(message) as Message };
  });
  return bestMatches(candidates, phrases, limit);
}

/** The statement that finds the newest messages with some words. */
function searchQuery(words: string, userId: string | null | undefined): Query {
  const isOfUser = typeof userId === "string" ? "AND s.user_id = $2" : "AND s.user_id IS NULL";
  const text = `SELECT f.session_id, f.position,
      (SELECT message FROM rivulet.messages WHERE session = f.no AND position = f.position)
    FROM (
      SELECT s.no, s.session_id, w.position FROM rivulet.search w JOIN rivulet.sessions s ON s.no = w.session
      WHERE w.words @@ $1::tsquery ${userId === undefined ? "" : isOfUser}
      ORDER BY s.no DESC, w.position DESC LIMIT ${maxRanked}
    ) f ORDER BY f.no DESC, f.position DESC`;
  const values = typeof userId === "string" ? [words, userId] : [words];
  return { statement: statementOf("search", text), values };
}

/** Deletes a conversation with all its descendants; returns whether it existed, and the keys to wake. */
export async function deleteConversation(
  database: Database,
  connection: Connection,
  sessionId: string,
): Promise<{ readonly existed: boolean; readonly touched: readonly string[] }> {
  assertStorable(sessionId);
  // A refusal undoes the change of a lease from before the clock was set back, so that comes first.
  await liveOwner(database, sessionId);
  const [row] = await database.repeat(async ({ mayBeDone }) => {
    const values = [sessionId, database.given];
    const rows = await connection.run<[boolean, readonly string[]]>(
      database.named(deleteStatement),
      values,
    );
    return rows.map(([existed, touched]) => [existed || mayBeDone, touched] as const);
  });
  const [existed = false, touched = []] = row ?? [];
  return { existed, touched };
}
