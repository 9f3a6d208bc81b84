import { RivuletError } from "../../protocol/error.ts";
import { type Database, inTransaction } from "./database.ts";
import { indexSession } from "./search.ts";

/** "Rivu": tells our databases from those of other programs. */
const applicationId = 0x52697675;

/** The step at index n brings version n to version n + 1. What is released is never changed, only followed. */
const migrations: readonly ((database: Database) => void)[] = [
  (database) =>
    database.script(`
  -- Times are milliseconds since the epoch, and REAL because a clock may have fractions of them.

  -- Who may write a conversation; a row outlives its leases, so that fences never repeat.
  CREATE TABLE leases (
    session_id TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,
    held INTEGER NOT NULL,
    until REAL NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- session_id is the conversation that writes the log; snapshots stand for the events up to trimmed_through.
  CREATE TABLE logs (
    number INTEGER PRIMARY KEY,
    log TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    trimmed_through INTEGER NOT NULL DEFAULT -1,
    snapshots TEXT NOT NULL DEFAULT '[]'
  ) STRICT;
  CREATE INDEX logs_by_session ON logs (session_id);

  -- A JSON array of events, of which the last has the number "last". Rows are added at the end of the table whatever
  -- their log: with many live logs a commit changes few pages.
  CREATE TABLE batches (
    number INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    last INTEGER NOT NULL,
    events TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX batches_by_log ON batches (log, last);

  -- The columns from root_task_id on are those of the session's first task.
  CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    title TEXT,
    root_task_id TEXT,
    parent_session_id TEXT,
    user_id TEXT,
    agent_id TEXT
  ) STRICT;
  CREATE INDEX sessions_by_user ON sessions (user_id, number) WHERE parent_session_id IS NULL;

  CREATE TABLE messages (
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    message TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX messages_by_session ON messages (session, position);

  CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL UNIQUE,
    root_task_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    parent_session_id TEXT,
    status TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX tasks_by_session ON tasks (session_id);
  CREATE INDEX tasks_by_parent_session ON tasks (parent_session_id);
  CREATE INDEX tasks_by_root ON tasks (root_task_id);
  CREATE INDEX tasks_by_status ON tasks (status);

  -- Taken rows stay: the first of an id wins for ever.
  CREATE TABLE posts (
    number INTEGER PRIMARY KEY,
    post_id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    root_task_id TEXT,
    kind TEXT NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0,
    post TEXT NOT NULL
  ) STRICT;
  CREATE INDEX posts_by_session ON posts (session_id, taken);
  CREATE INDEX posts_by_root ON posts (root_task_id, taken);
  CREATE INDEX posts_waiting ON posts (number) WHERE taken = 0;

  -- A new row for each write, so that a version never comes again, not even after a delete.
  CREATE TABLE files (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    modified_at REAL NOT NULL,
    data BLOB NOT NULL
  ) STRICT;
  `),
  (database) => {
    database.script(`
  -- Messages with a number of their own, which stays when the database is rebuilt.
  DROP INDEX messages_by_session;
  ALTER TABLE messages RENAME TO unnumbered_messages;
  CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    message TEXT NOT NULL
  ) STRICT;
  INSERT INTO messages (session, position, message)
    SELECT session, position, message FROM unnumbered_messages ORDER BY rowid;
  DROP TABLE unnumbered_messages;
  CREATE UNIQUE INDEX messages_by_session ON messages (session, position);

  -- The words of the messages in listed sessions, and whose they are, by the message's number. The texts are in the
  -- messages, and the words come as they shall be found: a tokenizer that only takes them apart is right.
  CREATE VIRTUAL TABLE search USING fts5(
    owner, words, content = '', contentless_delete = 1, tokenize = 'ascii'
  );
  `);
    const sessions = database.all<{ number: number }>("SELECT number FROM sessions");
    for (const { number } of sessions) indexSession(database, number);
  },
];

const schemaVersion = migrations.length;

/** Whether a database is empty or older than this code; throws when it is newer or another program's. */
export function needsMigration(database: Database): boolean {
  return inTransaction(database, "BEGIN", () => versionOf(database)) < schemaVersion;
}

/** Brings an empty or an older database to the present schema. */
export function migrate(database: Database): void {
  inTransaction(database, "BEGIN IMMEDIATE", () => {
    // The version again, now under the lock: another process may have been faster.
    for (const migration of migrations.slice(versionOf(database))) migration(database);
    database.script(`PRAGMA application_id = ${applicationId}`);
    database.script(`PRAGMA user_version = ${schemaVersion}`);
  });
}

/** The version of a database that is ours; 0 when it is empty. */
function versionOf(database: Database): number {
  const version = pragma(database, "user_version");
  if (pragma(database, "application_id") !== applicationId) {
    const table = database.get("SELECT 1 FROM sqlite_schema LIMIT 1");
    if (table === undefined && version === 0) return 0;
    throw new RivuletError("not_a_store", "The database belongs to another program.", {
      hint: "Choose a path of its own for the store.",
    });
  }
  if (version <= schemaVersion) return version;
  throw new RivuletError(
    "store_too_new",
    `The database has schema version ${version}; this version of Rivulet knows ${schemaVersion}.`,
    { hint: "It was written by a later version of Rivulet: use that one, or another path." },
  );
}

function pragma(database: Database, name: string): number {
  return database.get<Record<string, number>>(`PRAGMA ${name}`)?.[name] ?? 0;
}
