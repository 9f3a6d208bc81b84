import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StatementSync } from "node:sqlite";
import { RivuletError } from "../../protocol/error.ts";

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
  /** Returns the number of changed rows. */
  run(sql: string, ...values: readonly Value[]): number;
  /** Runs statements without preparing them. */
  script(sql: string): void;
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

  function prepared(sql: string, values: readonly Value[]): StatementSync {
    for (const value of values) if (typeof value === "string") assertStorable(value);
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
    run: (sql, ...values) => Number(prepared(sql, values).run(...values).changes),
    script: (sql) => connection.exec(sql),
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

/** SQLite ends text at NUL and replaces lone surrogates, so two different ids could become equal. */
function assertStorable(text: string): void {
  if (text.isWellFormed() && !text.includes("\0")) return;
  throw new RivuletError("invalid_id", `${JSON.stringify(text)} is not a valid id or path.`, {
    hint: "Use well-formed Unicode without NUL.",
  });
}
