import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StatementSync } from "node:sqlite";
import { RivuletError } from "../../base/error.ts";

/** A parameter of a statement. */
export type Value = string | number | null | Uint8Array;

/** A statement with its values. */
export interface Query {
  readonly sql: string;
  readonly values: readonly Value[];
}

/**
 * One connection. It prepares each statement once, by its text. Parameters must be plain `?`: Node 22 does not bind
 * numbered parameters by position.
 */
export interface Database {
  get<Row>(sql: string, ...values: readonly Value[]): Row | undefined;
  all<Row>(sql: string, ...values: readonly Value[]): Row[];
  /** Iterates over rows; the loop must end before the next write. */
  each<Row>(sql: string, ...values: readonly Value[]): Iterable<Row>;
  /** Like `each`, with rows as arrays: twice as fast, for the tables with the most rows. */
  tuples<Tuple>(sql: string, ...values: readonly Value[]): Iterable<Tuple>;
  /** Inserts one row and returns its number; RETURNING takes three times as long. */
  insert(sql: string, ...values: readonly Value[]): number;
  /** Returns the number of changed rows. */
  run(sql: string, ...values: readonly Value[]): number;
  /** Runs statements without preparing them. */
  script(sql: string): void;
  /** Runs statements that may change the schema table. */
  scriptOnSchema(sql: string): void;
  /** How many characters all statements have been given so far. */
  readonly given: number;
  /** Throws when the file was deleted or replaced: SQLite then writes to a file that no other process finds. */
  assertOnDisk(): void;
  /** False after an error that rolled the whole transaction back. */
  readonly isInTransaction: boolean;
  close(): void;
}

/** Opens a database file; creates it and its folder if they do not exist. */
export function openDatabase(path: string, lockTimeoutMs: number): Database {
  // An absolute path is never parsed as a URI and does not depend on the working directory.
  const file = resolve(path);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const { DatabaseSync } = sqlite();
  const connection = new DatabaseSync(file, { timeout: lockTimeoutMs });
  const statements = new Map<string, StatementSync>();
  const inodes = new Map<string, number>();
  let given = 0;

  function prepared(sql: string, values: readonly Value[]): StatementSync {
    for (const value of values) {
      if (typeof value !== "string") continue;
      assertStorable(value);
      given += value.length;
    }
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = connection.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  }

  return {
    get: <Row>(sql: string, ...values: readonly Value[]) =>
      prepared(sql, values).get(...values) as Row | undefined,
    all: <Row>(sql: string, ...values: readonly Value[]) =>
      prepared(sql, values).all(...values) as Row[],
    each: <Row>(sql: string, ...values: readonly Value[]) =>
      prepared(sql, values).iterate(...values) as Iterable<Row>,
    tuples<Tuple>(sql: string, ...values: readonly Value[]) {
      const statement = prepared(sql, values);
      statement.setReturnArrays(true);
      return statement.iterate(...values) as Iterable<Tuple>;
    },
    insert: (sql, ...values) => Number(prepared(sql, values).run(...values).lastInsertRowid),
    run: (sql, ...values) => Number(prepared(sql, values).run(...values).changes),
    script: (sql) => connection.exec(sql),
    scriptOnSchema(sql) {
      connection.enableDefensive?.(false); // Node 22 has neither the method nor the protection.
      try {
        connection.exec(`PRAGMA writable_schema = ON; ${sql}`);
      } finally {
        connection.exec("PRAGMA writable_schema = RESET");
        connection.enableDefensive?.(true);
      }
    },
    get given() {
      return given;
    },
    assertOnDisk() {
      for (const name of [file, `${file}-wal`]) {
        const inode = statSync(name, { throwIfNoEntry: false })?.ino;
        // After a disk error SQLite may write without a write-ahead log.
        const first = inodes.get(name) ?? inode;
        if (inode !== first || (inode === undefined && name === file)) throw removed(name);
        if (inode !== undefined) inodes.set(name, inode);
      }
    },
    get isInTransaction() {
      return connection.isTransaction;
    },
    close: () => connection.close(),
  };
}

/** Runs `work` in one transaction; rolls it back if `work` throws. */
export function inTransaction<Result>(
  database: Database,
  begin: "BEGIN" | "BEGIN IMMEDIATE",
  work: () => Result,
): Result {
  database.run(begin);
  try {
    const result = work();
    database.run("COMMIT");
    return result;
  } catch (error) {
    if (database.isInTransaction) database.run("ROLLBACK");
    throw error;
  }
}

/**
 * Loads `node:sqlite` on first use: not every build of Node has it, and Node 22 prints an ExperimentalWarning when it is
 * loaded (`--disable-warning=ExperimentalWarning` hides it).
 */
function sqlite(): typeof import("node:sqlite") {
  const module = process.getBuiltinModule("node:sqlite");
  if (module !== undefined) return module;
  throw new RivuletError("sqlite_unavailable", "This build of Node.js has no node:sqlite.", {
    hint: "Use Node.js 22.18 or later, or another store.",
  });
}

function removed(file: string): RivuletError {
  return new RivuletError("store_failed", `The file ${file} was deleted or replaced.`, {
    hint: "Nothing more is written to it. Restore the database from a backup and restart the process.",
  });
}

/** SQLite ends text at NUL and replaces lone surrogates, so two different ids could become equal. */
function assertStorable(text: string): void {
  if (text.isWellFormed() && !text.includes("\0")) return;
  throw new RivuletError("invalid_id", `${JSON.stringify(text)} is not a valid id or path.`, {
    hint: "Use well-formed Unicode without NUL.",
  });
}
