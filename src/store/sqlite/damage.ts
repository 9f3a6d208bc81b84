import { RivuletError } from "../../base/error.ts";
import type { Database, Value } from "./database.ts";

/** Loads the module with the first row, because it delays the start of every program. */
const crc32: typeof import("node:zlib").crc32 = (data, value) =>
  process.getBuiltinModule("node:zlib").crc32(data, value);

/** SQLite's codes of errors that only damage causes; a constraint fails when an index contradicts its table. */
const damageCodes = new Set([11, 19]);

/** Whether SQLite found damage, or an integer that no row of the store has. */
export function isDamage(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ("errcode" in error) return damageCodes.has(Number(error.errcode) & 0xff);
  return "code" in error && error.code === "ERR_OUT_OF_RANGE";
}

/** Updates a derived table, such as the search index; its damage must not stop all conversations. */
export function ignoreDamage(update: () => void): void {
  try {
    update();
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
}

/** A row with the checksum of its other columns. */
export interface Checked {
  readonly checksum: number;
}

/** The checksum of a row: of its short columns, and of the text or bytes that it holds. */
export function checksumOf(columns: readonly Value[], content: string | Uint8Array = ""): number {
  const isContent = typeof content === "string" || content instanceof Uint8Array;
  return isContent ? crc32(content, crc32(JSON.stringify(columns))) : -1;
}

/** The checksum of a text at a place: cheaper than `checksumOf`, for the tables with the most rows. */
export function checksumAt(parent: number, position: number, text: string): number {
  return typeof text === "string" ? crc32(text, (Math.imul(parent, 31) + position) >>> 0) : -1;
}

/** Throws `store_corrupt` unless a row has the checksum. */
export function assertIntact(row: Checked, checksum: number, name: () => string): void {
  if (row.checksum !== checksum) throw storeCorrupt(`${name()} is damaged.`);
}

/** Parses the text of an intact row. */
export function parseRow<Parsed>(text: string, name: () => string): Parsed {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw storeCorrupt(`${name()} is damaged.`, cause); // It was damaged before it got its checksum.
  }
}

/** The rows that `read` finds intact: one damaged conversation must not hide the others. */
export function onlyIntact<Row, Result>(
  rows: readonly Row[],
  read: (row: Row) => Result,
): readonly Result[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (error) {
      if (error instanceof RivuletError && error.code === "store_corrupt") return [];
      throw error;
    }
  });
}

/** A part of the database is damaged. */
export function storeCorrupt(message: string, cause?: unknown): RivuletError<"store_corrupt"> {
  return new RivuletError("store_corrupt", `The database is damaged: ${message}`, {
    hint: "Restore the database and its -wal file from a backup, or delete the session with store.deleteSession(id).",
    ...(cause !== undefined && { cause }),
  });
}

/** The columns of each table that its checksums cover, and the column with the content. */
const checkedColumns: Readonly<
  Record<string, { readonly columns: string; readonly content?: string }>
> = {
  leases: { columns: "session_id fence held until ttl epoch losses" },
  logs: { columns: "log session_id trimmed_through" },
  batches: { columns: "log last", content: "events" },
  sessions: {
    columns:
      "session_id created_at updated_at messages visible_from title root_task_id parent_session_id user_id agent_id",
  },
  messages: { columns: "session position", content: "message" },
  tasks: {
    columns: "task_id root_task_id session_id parent_session_id conversation status",
    content: "record",
  },
  posts: {
    columns: "post_id session_id root_task_id task_id conversation kind taken",
    content: "post",
  },
  files: { columns: "path size modified_at data_checksum" },
};

/** The checksum of a row with all its columns. */
export function checksumOfRow(table: string, row: Readonly<Record<string, Value>>): number {
  const { columns = "", content } = checkedColumns[table] ?? {};
  const values = columns.split(" ").map((name) => row[name] as Value);
  const text = content === undefined ? "" : (row[content] as string);
  if (table !== "batches" && table !== "messages") return checksumOf(values, text);
  return checksumAt(values[0] as number, values[1] as number, text);
}

/**
 * Rebuilds damaged indexes from their tables, whose rows they would hide. Leaves the indexes of a damaged table alone,
 * because its damaged rows are found through the intact entries.
 */
export function repairIndexes(database: Database): void {
  for (const table of Object.keys(checkedColumns)) {
    const tree = database.get<{ rootpage: number }>(
      "SELECT rootpage FROM sqlite_schema WHERE name = ?",
      table,
    );
    if (tree === undefined) throw storeCorrupt(`table ${table} is missing.`);
    const problems = problemsOf(database, table);
    if (problems === "ok" || problems?.includes(`Tree ${tree.rootpage} `)) continue;
    if (!isTableIntact(database, table)) continue;
    rebuildIndexes(database, table);
  }
}

/** Creates the indexes of a table again without a look at the old ones, of which REINDEX would have to free the pages. */
function rebuildIndexes(database: Database, table: string): void {
  const indexes = database.all<{ sql: string }>(
    "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
    table,
  );
  database.scriptOnSchema(`
    BEGIN IMMEDIATE;
    DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = '${table}' AND sql IS NOT NULL;
    PRAGMA writable_schema = RESET;
    ${indexes.map(({ sql }) => sql).join(";\n")};
    COMMIT;
  `);
}

/** The problems of a table and its indexes; undefined when SQLite cannot finish the check. */
function problemsOf(database: Database, table: string): string | undefined {
  try {
    return database.all<object>(`PRAGMA integrity_check(${table})`).map(Object.values).join();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return undefined;
  }
}

function isTableIntact(database: Database, table: string): boolean {
  try {
    // The order is that of the table, so that no index is read.
    for (const row of database.each<Record<string, Value>>(
      `SELECT * FROM ${table} ORDER BY rowid`,
    )) {
      if (row.checksum !== checksumOfRow(table, row)) return false;
    }
    return true;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
}
