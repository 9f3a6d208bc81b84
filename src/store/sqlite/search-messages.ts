import type { SearchMatch, SearchQuery } from "../../contract/index.ts";
import {
  bestMatches,
  isBeginning,
  type Phrase,
  phrasesOf,
  type SearchCandidate,
} from "../search.ts";
import { assertIntact, type Checked, checksumAt, onlyIntact, parseRow } from "./damage.ts";
import type { Database, Value } from "./database.ts";
import { ownerWord } from "./search-index.ts";
import { readRow } from "./sessions.ts";

/** How many of the newest matches are ranked, because ranking reads the whole message. */
const maxRanked = 200;

interface FoundRow {
  readonly session: number;
  readonly sessionId: string;
  readonly position: number;
  readonly message: string;
}

/** Messages that contain all the words, best match first. */
export function searchMessages(database: Database, query: SearchQuery): SearchMatch[] {
  const { text, userId, limit } = query;
  const phrases = phrasesOf(text);
  if (phrases.length === 0) return [];
  const values: Value[] = [matchOf(phrases, userId)];
  if (userId !== undefined) values.push(userId);
  const rows = database.all<FoundRow & Checked>(
    `SELECT session, sessionId, position, message, checksum FROM (
       SELECT message.session, session.session_id AS sessionId, message.position, message.message,
         message.checksum
       FROM message_words
       JOIN messages AS message ON message.number = message_words.rowid
       JOIN sessions AS session ON session.number = message.session
       WHERE message_words MATCH ? ${userId === undefined ? "" : "AND session.user_id IS ?"}
       ORDER BY message_words.rowid DESC LIMIT ${maxRanked}
     )
     ORDER BY session DESC, position DESC`,
    ...values,
  );
  const candidates = onlyIntact(rows, (row): SearchCandidate => {
    const { session, sessionId, position, message } = row;
    const name = () => `message ${position} of session ${sessionId}`;
    assertIntact(row, checksumAt(session, position, message), name);
    return { sessionId, index: position, message: parseRow(message, name) };
  });
  // A damaged row may name another user's session.
  const isOfUser = ({ sessionId }: SearchMatch) =>
    onlyIntact([sessionId], (id) => readRow(database, id)).some(
      (row) => row !== undefined && (userId === undefined || row.userId === userId),
    );
  return bestMatches(candidates, phrases, limit).filter(isOfUser);
}

/** The FTS5 query. It includes the user, so that messages of other users cost nothing. */
function matchOf(phrases: readonly Phrase[], userId: string | null | undefined): string {
  const words = phrases.map(
    (phrase) => `"${phrase.join(" ")}"${isBeginning(phrase.at(-1) ?? "") ? " *" : ""}`,
  );
  const owner = typeof userId !== "string" ? "" : `owner : "${ownerWord(userId)}" AND `;
  return `${owner}words : (${words.join(" AND ")})`;
}
