import type { Message } from "../../contract/index.ts";
import { searchWords } from "../search.ts";
import { ignoreDamage, onlyIntact, parseRow } from "./damage.ts";
import type { Database } from "./database.ts";

/** How much one transaction indexes, because it blocks the event loop and other writers. */
const maxMessages = 500;
const maxCharacters = 256 * 1024;
/** How long new messages wait, so that many of them are indexed together and not beside the writes of their steps. */
const waitMs = 500;

interface NewMessage {
  readonly number: number;
  readonly message: string;
  readonly userId: string | null;
  /** 1 if the session is listed: those of children are not searched. */
  readonly isListed: number | null;
}

/** Whether there are messages that the index does not have. */
export function hasUnindexed(database: Database): boolean {
  const found = database.get(
    "SELECT 1 FROM messages WHERE number > (SELECT through FROM indexed) LIMIT 1",
  );
  return found !== undefined;
}

/** Indexes the next messages; returns whether there may be more. */
export function indexNext(database: Database): boolean {
  const { through = 0 } = database.get<{ through: number }>("SELECT through FROM indexed") ?? {};
  const rows = database.each<NewMessage>(
    `SELECT message.number, message, user_id AS userId, parent_session_id IS NULL AS isListed
     FROM messages AS message LEFT JOIN sessions AS session ON session.number = message.session
     WHERE message.number > ? ORDER BY message.number LIMIT ${maxMessages}`,
    through,
  );
  const added: NewMessage[] = [];
  let characters = 0;
  for (const row of rows) {
    added.push(row);
    characters += row.message.length;
    if (characters > maxCharacters) break;
  }
  for (const { isListed, ...row } of added) if (isListed) indexMessage(database, row);
  const last = added.at(-1)?.number;
  if (last === undefined) return false;
  database.run("UPDATE indexed SET through = ?", last);
  return added.length === maxMessages || characters > maxCharacters;
}

function indexMessage(
  database: Database,
  { number, message, userId }: Pick<NewMessage, "number" | "message" | "userId">,
): void {
  const parse = () => parseRow<Message>(message, () => `message ${number}`);
  for (const intact of onlyIntact([0], parse)) {
    const words = searchWords(intact);
    if (words === "") continue;
    ignoreDamage(() =>
      database.run(
        "INSERT OR REPLACE INTO message_words (rowid, owner, words) VALUES (?, ?, ?)",
        number,
        userId === null ? "" : ownerWord(userId),
        words,
      ),
    );
  }
}

/** Indexes the messages of a session again, because its first task tells the user, or that it is a child's. */
export function indexAgain(database: Database, session: number): void {
  removeWords(database, session);
  const rows = database.all<NewMessage>(
    `SELECT message.number, message, user_id AS userId, parent_session_id IS NULL AS isListed
     FROM messages AS message JOIN sessions AS session ON session.number = message.session
     WHERE session = ? AND message.number <= (SELECT through FROM indexed)`,
    session,
  );
  for (const { isListed, ...row } of rows) if (isListed) indexMessage(database, row);
}

/** Deletes the messages of a session, and their words. */
export function deleteMessages(database: Database, session: number): void {
  removeWords(database, session);
  database.run("DELETE FROM messages WHERE session = ?", session);
  // New messages may get the numbers of the deleted ones.
  database.run(
    "UPDATE indexed SET through = min(through, (SELECT coalesce(max(number), 0) FROM messages))",
  );
}

function removeWords(database: Database, session: number): void {
  const sql =
    "DELETE FROM message_words WHERE rowid IN (SELECT number FROM messages WHERE session = ?)";
  ignoreDamage(() => database.run(sql, session));
}

/** Encodes a user id as one word. */
export function ownerWord(userId: string): string {
  return `u${Buffer.from(userId).toString("hex")}`;
}

/** Indexes new messages in the background. */
export interface Indexer {
  /** Called after a commit with messages. */
  wake(): void;
  stop(): void;
}

/** An indexer; `index` indexes the next messages and resolves to whether there may be more. */
export function createIndexer(index: () => Promise<boolean>): Indexer {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  /** A search finishes what fails here, and tells the reason. */
  async function run(): Promise<void> {
    const hasMore = await index().catch(() => false);
    timer = undefined;
    if (hasMore) schedule(0);
  }

  function schedule(ms: number): void {
    if (isStopped || timer !== undefined) return;
    timer = setTimeout(run, ms);
    timer.unref();
  }

  return {
    wake: () => schedule(waitMs),
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
