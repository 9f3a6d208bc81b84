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

/** How many of the newest matches are ranked: to rank a message it has to be read. */
const mostRanked = 200;
const page = 100;

/** Lets a message be found from now on; `number` is that of its row. */
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

/** Lets the messages of a session be found as those of its user, or not at all when it is a child's. */
export function indexSession(database: Database, session: number): void {
  forgetSession(database, session);
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

/** Lets nothing of a session be found any more; before its messages are deleted. */
export function forgetSession(database: Database, session: number): void {
  database.run(
    "DELETE FROM search WHERE rowid IN (SELECT number FROM messages WHERE session = ?)",
    session,
  );
}

/** Messages that have all the words, the best first. */
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
       ORDER BY search.rowid DESC LIMIT ${mostRanked}
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

/** The query in the words of the index. The user goes along, so that what others wrote costs nothing. */
function matchOf(phrases: readonly Phrase[], userId: string | undefined): string {
  const words = phrases.map(
    (phrase) => `"${phrase.join(" ")}"${isBeginning(phrase.at(-1) ?? "") ? " *" : ""}`,
  );
  const owner = userId === undefined ? "" : `owner : "${ownerWord(userId)}" AND `;
  return `${owner}words : (${words.join(" AND ")})`;
}

/** A user id as one word, whatever is in it. */
function ownerWord(userId: string): string {
  return `u${Buffer.from(userId).toString("hex")}`;
}
