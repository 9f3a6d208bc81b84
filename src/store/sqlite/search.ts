import type { Message } from "../../protocol/message.ts";
import type { SearchMatch, SearchQuery } from "../../protocol/store.ts";
import {
  bestMatches,
  isBeginning,
  type Phrase,
  phrasesOf,
  type SearchCandidate,
  searchWords,
} from "../search.ts";
import type { Database, Value } from "./database.ts";

interface MessageRow {
  readonly number: number;
  readonly message: string;
}

/** How many of the newest matches are ranked, because ranking reads the whole message. */
const maxRanked = 200;
const page = 100;

/** Adds a message to the search index; `number` is that of its row. */
export function indexMessage(
  database: Database,
  number: number,
  { userId, words }: { readonly userId: string | null; readonly words: string },
): void {
  if (words === "") return;
  database.run(
    "INSERT INTO search (rowid, owner, words) VALUES (?, ?, ?)",
    number,
    userId === null ? "" : ownerWord(userId),
    words,
  );
}

/** Indexes the messages of a session for its user; removes them when the session is a child's. */
export function indexSession(database: Database, session: number): void {
  unindexSession(database, session);
  const owner = database.get<{ user_id: string | null }>(
    "SELECT user_id FROM sessions WHERE number = ? AND parent_session_id IS NULL",
    session,
  );
  if (owner === undefined) return;
  const { user_id: userId } = owner;
  for (let after = -1; ; ) {
    const rows = database.all<MessageRow>(
      `SELECT number, message FROM messages
       WHERE session = ? AND position > ? ORDER BY position LIMIT ${page}`,
      session,
      after,
    );
    for (const { number, message } of rows) {
      indexMessage(database, number, { userId, words: searchWords(JSON.parse(message)) });
    }
    after += rows.length;
    if (rows.length < page) return;
  }
}

/** Removes a session from the index; must run before its messages are deleted. */
export function unindexSession(database: Database, session: number): void {
  database.run(
    "DELETE FROM search WHERE rowid IN (SELECT number FROM messages WHERE session = ?)",
    session,
  );
}

/** Messages that contain all the words, best match first. */
export function searchMessages(database: Database, query: SearchQuery): SearchMatch[] {
  const { text, userId, limit } = query;
  const phrases = phrasesOf(text);
  if (phrases.length === 0) return [];
  const values: Value[] = [matchOf(phrases, userId)];
  if (userId !== undefined) values.push(userId);
  const rows = database.all<{ session_id: string; position: number; message: string }>(
    `SELECT session_id, position, message FROM (
       SELECT session.number, session.session_id, message.position, message.message
       FROM search
       JOIN messages AS message ON message.number = search.rowid
       JOIN sessions AS session ON session.number = message.session
       WHERE search MATCH ? ${userId === undefined ? "" : "AND session.user_id = ?"}
       ORDER BY search.rowid DESC LIMIT ${maxRanked}
     )
     ORDER BY number DESC, position DESC`,
    ...values,
  );
  const candidates = rows.map(
    (row): SearchCandidate => ({
      sessionId: row.session_id,
      index: row.position,
      message: JSON.parse(row.message) as Message,
    }),
  );
  return bestMatches(candidates, phrases, limit);
}

/** The FTS5 query. It includes the user, so that messages of other users cost nothing. */
function matchOf(phrases: readonly Phrase[], userId: string | undefined): string {
  const words = phrases.map(
    (phrase) => `"${phrase.join(" ")}"${isBeginning(phrase.at(-1) ?? "") ? " *" : ""}`,
  );
  const owner = userId === undefined ? "" : `owner : "${ownerWord(userId)}" AND `;
  return `${owner}words : (${words.join(" AND ")})`;
}

/** Encodes a user id as one word. */
function ownerWord(userId: string): string {
  return `u${Buffer.from(userId).toString("hex")}`;
}
