import { RivuletError } from "../../base/error.ts";
import type { Message } from "../../contract/index.ts";
import { approvalChanges, visibleFrom } from "../session-facts.ts";
import { checksumOf, checksumOfRow, onlyIntact, parseRow } from "./damage.ts";
import { type Database, inTransaction, type Value } from "./database.ts";
import { changeDue } from "./due.ts";

/** "Rivu", the application id of our databases. */
const applicationId = 0x52697675;

const schemaVersion = 8;
/** The oldest version that can be migrated. */
const oldestVersion = 3;

// Times are milliseconds since the epoch; REAL, because a clock may return fractions. No column has a default, so that a
// process with an older version fails instead of writing rows without it.
const tables = `
  -- A checksum in every row. A lease has its time to live and the epoch of its end, so that a process with another clock
  -- can wait for it; losses counts the owners in a row that did not release it. Rows stay, so that fences never repeat.
  CREATE TABLE IF NOT EXISTS leases (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    held INTEGER NOT NULL,
    until REAL NOT NULL,
    ttl REAL NOT NULL,
    epoch TEXT NOT NULL,
    losses INTEGER NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- session_id is the conversation that writes the log; a snapshot replaces the events up to trimmed_through.
  CREATE TABLE IF NOT EXISTS logs (
    number INTEGER PRIMARY KEY,
    log TEXT NOT NULL,
    session_id TEXT NOT NULL,
    trimmed_through INTEGER NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- The tasks of a trimmed log.
  CREATE TABLE IF NOT EXISTS snapshots (
    log INTEGER PRIMARY KEY,
    tasks TEXT NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- JSON arrays of events; "last" is the number of the last event. All logs append to the end of one table, so that a
  -- commit changes few pages.
  CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    last INTEGER NOT NULL,
    events TEXT NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- Numbers never repeat, so that a deleted session is not taken for its successor. visible_from: see SessionInfo. The
  -- columns from root_task_id on come from the session's first task.
  CREATE TABLE IF NOT EXISTS sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    messages INTEGER NOT NULL,
    visible_from INTEGER NOT NULL,
    title TEXT,
    root_task_id TEXT,
    parent_session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    checksum INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    message TEXT NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    root_task_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    parent_session_id TEXT,
    conversation TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- Taken rows stay, because the first row of an id wins. task_id is the task that a row is for.
  CREATE TABLE IF NOT EXISTS posts (
    number INTEGER PRIMARY KEY,
    post_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    root_task_id TEXT,
    task_id TEXT,
    conversation TEXT NOT NULL,
    kind TEXT NOT NULL,
    taken INTEGER NOT NULL,
    post TEXT NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;

  -- Each write adds a new row, so that versions never repeat, even after a delete.
  CREATE TABLE IF NOT EXISTS files (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified_at REAL NOT NULL,
    data BLOB NOT NULL,
    data_checksum INTEGER NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;
`;

// The words of the messages in listed sessions, with the user of each, by message number. The words are normalized before
// they are inserted, so the simplest tokenizer is enough. Messages are indexed in the background: "indexed" has the number
// of the last one that is, or was passed over. "changes" has the keys that each of the last transactions
// changed, as a JSON array, for the watchers of other connections.
const indexedTable = `
  CREATE TABLE indexed (through INTEGER NOT NULL) STRICT;
  INSERT INTO indexed (through) SELECT coalesce(max(number), 0) FROM messages;
`;
const derivedTables = `
  CREATE VIRTUAL TABLE message_words USING fts5(
    owner, words, content = '', contentless_delete = 1, tokenize = 'ascii'
  );
  ${indexedTable}
  CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    keys TEXT NOT NULL
  ) STRICT;
`;

// The processes that work on the store; "info" is what a process can run, as JSON.
const nodesTable = `
  CREATE TABLE IF NOT EXISTS nodes (
    number INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    seen REAL NOT NULL,
    ttl REAL NOT NULL,
    info TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS nodes_by_id ON nodes (node);
`;

/** A condition that a query must repeat word for word to use the index on unfinished tasks. */
export const unfinished = "status IN ('queued', 'in_progress', 'suspended')";
// Logs that have ended and have events, by their numbers, with the size of the events.
const endedTable = `
  CREATE TABLE IF NOT EXISTS ended (
    log INTEGER PRIMARY KEY,
    ended_at REAL NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS ended_by_time ON ended (ended_at, bytes);
`;

// Approvals that expire and have no answer, with the session that asks for them. The id is JSON, because it comes from
// messages, which may have characters that SQLite cannot store.
const dueTable = `
  CREATE TABLE IF NOT EXISTS due (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    approval TEXT NOT NULL,
    due_at REAL NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS due_by_session ON due (session_id, approval);
  CREATE INDEX IF NOT EXISTS due_by_time ON due (due_at, session_id);
`;

const indexes = `
  -- No UNIQUE in the tables: a named index can be rebuilt when its pages are damaged.
  CREATE UNIQUE INDEX IF NOT EXISTS leases_by_session ON leases (session_id);
  CREATE UNIQUE INDEX IF NOT EXISTS logs_by_name ON logs (log);
  CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_id ON sessions (session_id);
  CREATE UNIQUE INDEX IF NOT EXISTS tasks_by_id ON tasks (task_id);
  CREATE UNIQUE INDEX IF NOT EXISTS posts_by_id ON posts (post_id);
  CREATE UNIQUE INDEX IF NOT EXISTS files_by_path ON files (path);
  CREATE INDEX IF NOT EXISTS logs_by_session ON logs (session_id);
  CREATE UNIQUE INDEX IF NOT EXISTS batches_by_log ON batches (log, last);
  CREATE INDEX IF NOT EXISTS sessions_by_user ON sessions (user_id, number) WHERE parent_session_id IS NULL;
  CREATE UNIQUE INDEX IF NOT EXISTS messages_by_session ON messages (session, position);
  CREATE INDEX IF NOT EXISTS tasks_by_session ON tasks (session_id);
  CREATE INDEX IF NOT EXISTS unfinished_by_session ON tasks (session_id) WHERE ${unfinished};
  CREATE INDEX IF NOT EXISTS tasks_by_conversation ON tasks (conversation, status);
  CREATE INDEX IF NOT EXISTS tasks_by_parent_session ON tasks (parent_session_id);
  CREATE INDEX IF NOT EXISTS tasks_by_root ON tasks (root_task_id);
  CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status);
  CREATE INDEX IF NOT EXISTS posts_by_session ON posts (session_id, taken);
  CREATE INDEX IF NOT EXISTS posts_by_root ON posts (root_task_id, taken);
  CREATE INDEX IF NOT EXISTS posts_by_conversation ON posts (conversation) WHERE taken = 0;
`;

/** Columns that nothing uses yet: the place where a fork begins, a hash over the rows before, and one of the content. */
const roomColumns = [
  ["logs", "parent_log", "INTEGER"],
  ["logs", "parent_position", "INTEGER"],
  ["batches", "chain", "BLOB"],
  ["files", "hash", "BLOB"],
] as const;

function addRoom(database: Database): void {
  for (const [table, column, type] of roomColumns)
    database.script(`ALTER TABLE ${table} ADD COLUMN ${column} ${type}`);
}

/** Notes the logs that have ended; their time starts with the last change of their session. */
function noteEnded(database: Database): void {
  database.script(`${endedTable}
    INSERT INTO ended (log, ended_at, bytes)
      SELECT logs.number, sessions.updated_at,
        (SELECT coalesce(sum(octet_length(events)), 0) FROM batches WHERE log = logs.number)
      FROM logs
        JOIN tasks AS root ON root.task_id = logs.log
        JOIN sessions ON sessions.session_id = root.session_id
      WHERE NOT EXISTS (
        SELECT 1 FROM tasks
        WHERE root_task_id = logs.log AND ${unfinished}
      );
  `);
}

const changedSince: Readonly<Record<number, readonly string[]>> = {
  3: ["leases", "logs", "batches", "messages", "sessions", "tasks", "posts", "files"],
  4: ["leases", "sessions"],
  5: ["leases"],
};

/** Notes the approvals that expire, which earlier versions looked for in the transcripts. */
function noteDue(database: Database): void {
  database.script(dueTable);
  const sessions = database.all<{ session_id: string; number: number }>(
    `SELECT session_id, number FROM sessions
     WHERE session_id IN (SELECT session_id FROM tasks WHERE ${unfinished})`,
  );
  for (const { session_id, number } of sessions) {
    const rows = database.all<{ position: number; message: string }>(
      "SELECT position, message FROM messages WHERE session = ? ORDER BY position",
      number,
    );
    const messages = onlyIntact(rows, ({ position, message }) =>
      parseRow<Message>(message, () => `message ${position}`),
    );
    changeDue(database, session_id, approvalChanges(messages));
  }
}

/** Earlier versions index each message with its commit. The new name makes such a process fail. */
function keepIndex(database: Database): void {
  database.script(`ALTER TABLE search RENAME TO message_words; ${indexedTable}`);
}

/** Copies the tables that have changed since a version. */
function migrateFrom(database: Database, version: number): void {
  const changed = changedSince[version] ?? [];
  for (const table of changed) database.script(`ALTER TABLE ${table} RENAME TO old_${table}`);
  database.script(`${tables}
    INSERT INTO sqlite_sequence (name, seq)
      SELECT 'files', seq FROM sqlite_sequence WHERE name = 'old_files';
  `);
  for (const table of changed) copyRows(database, table, version);
  if (version === 3) copySnapshots(database);
  for (const table of changed) database.script(`DROP TABLE old_${table}`);
  database.script(`DROP INDEX IF EXISTS tasks_by_session; ${indexes}`);
}

/** Version 3 has them in the table of the logs. */
function copySnapshots(database: Database): void {
  const trimmed = database.all<{ number: number; trimmed_through: number; snapshots: string }>(
    "SELECT number, trimmed_through, snapshots FROM old_logs WHERE trimmed_through >= 0",
  );
  for (const { number, trimmed_through, snapshots } of trimmed) {
    database.run(
      "INSERT INTO snapshots (log, tasks, checksum) VALUES (?, ?, ?)",
      number,
      snapshots,
      checksumOf([number, trimmed_through], snapshots),
    );
  }
}

/** The columns to copy, where a version has other ones. No clock has the epoch "", so a lease ends once it was observed. */
function selectedColumns(table: string, version: number): string {
  if (table === "leases") {
    return `*, '' AS epoch, 0 AS losses${version === 3 ? ", 10000.0 AS ttl" : ""}`;
  }
  return version === 3 && table === "logs" ? "number, log, session_id, trimmed_through" : "*";
}

/** Copies the rows of a renamed table with their checksums, a page at a time. */
function copyRows(database: Database, table: string, version: number): void {
  const selected = selectedColumns(table, version);
  const key = { leases: "session_id", files: "version" }[table] ?? "number";
  let after: Value = table === "leases" ? "" : -1;
  for (;;) {
    const rows = database.all<Record<string, Value>>(
      `SELECT ${selected} FROM old_${table} WHERE ${key} > ? ORDER BY ${key} LIMIT 100`,
      after,
    );
    for (const row of rows) {
      if (table === "sessions") row.visible_from = visibleFromOf(database, row.number as number);
      if (table === "files") row.data_checksum = checksumOf([], row.data as Uint8Array);
      row.checksum = checksumOfRow(table, row);
      const names = Object.keys(row);
      database.run(
        `INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => "?").join()})`,
        ...Object.values(row),
      );
      after = row[key] as Value;
    }
    if (rows.length < 100) return;
  }
}

/** Finds the last compaction of a session that was written before its row told. */
function visibleFromOf(database: Database, session: number): number {
  const rows = database.all<{ position: number; message: string }>(
    `SELECT position, message FROM messages WHERE session = ? AND message LIKE '%"compaction"%'
     ORDER BY position DESC`,
    session,
  );
  const found = onlyIntact(rows, ({ position, message }) =>
    visibleFrom([parseRow<Message>(message, () => `message ${position}`)], position),
  );
  return found.find((index) => index !== undefined) ?? 0;
}

/** Whether a database is empty or has an older schema; throws when it is newer or belongs to another program. */
export function needsMigration(database: Database): boolean {
  return inTransaction(database, "BEGIN", () => versionOf(database)) < schemaVersion;
}

/** Migrates an empty or older database to the current schema. */
export function migrate(database: Database): void {
  inTransaction(database, "BEGIN IMMEDIATE", () => {
    // Read again under the lock, because another process may have migrated the database.
    const version = versionOf(database);
    if (version === 0) database.script(tables + derivedTables + indexes + endedTable + dueTable);
    else if (version < 7) {
      migrateFrom(database, version);
      if (version < 5) noteEnded(database);
      noteDue(database);
      keepIndex(database);
    }
    if (version < schemaVersion) {
      database.script(nodesTable);
      addRoom(database);
    }
    database.script(`PRAGMA application_id = ${applicationId}`);
    database.script(`PRAGMA user_version = ${schemaVersion}`);
  });
}

/** The schema version of a database; 0 when it is empty. */
function versionOf(database: Database): number {
  const version = pragma(database, "user_version");
  if (pragma(database, "application_id") !== applicationId) {
    const table = database.get("SELECT 1 FROM sqlite_schema LIMIT 1");
    if (table === undefined && version === 0) return 0;
    throw new RivuletError("not_a_store", "The database belongs to another program.", {
      hint: "Pass another path for the store.",
    });
  }
  if (version >= oldestVersion && version <= schemaVersion) return version;
  if (version < oldestVersion) {
    throw new RivuletError("store_too_old", `The database has schema version ${version}.`, {
      hint: "An unreleased version of Rivulet wrote it. Pass another path.",
    });
  }
  throw new RivuletError(
    "store_too_new",
    `The database has schema version ${version}; this version of Rivulet supports up to ${schemaVersion}.`,
    { hint: "A newer version of Rivulet wrote it. Update Rivulet, or pass another path." },
  );
}

function pragma(database: Database, name: string): number {
  return database.get<Record<string, number>>(`PRAGMA ${name}`)?.[name] ?? 0;
}
