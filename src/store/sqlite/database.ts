import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StatementSync } from "node:sqlite";
import { RivuletError } from "../../protocol/error.ts";

/** What a statement may be given. */
export type Value = string | number | null | Uint8Array;

/**
 * One connection. A statement is prepared when it is first used and kept by its text. Its parameters are plain `?`:
 * Node 22 does not bind numbered ones by their place.
 */
export interface Database {
  get<Row>(sql: string, ...values: readonly Value[]): Row | undefined;
  all<Row>(sql: string, ...values: readonly Value[]): Row[];
  /** Row by row, as far as the caller goes; must be left before the next write. */
  each<Row>(sql: string, ...values: readonly Value[]): Iterable<Row>;
  /** How many rows it changed. */
  run(sql: string, ...values: readonly Value[]): number;
  /** Statements that are run once. */
  script(sql: string): void;
  /** False after a failure that has undone the whole transaction. */
  readonly isInTransaction: boolean;
  close(): void;
}

/** Opens a database file, which is created together with its folder. */
export function openDatabase(path: string, lockTimeoutMs: number): Database {
  // Absolute, so that no path is taken for a URI and a change of folder changes nothing.
  const file = resolve(path);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const { DatabaseSync } = sqlite();
  const connection = new DatabaseSync(file, { timeout: lockTimeoutMs });
  const statements = new Map<string, StatementSync>();

  function prepared(sql: string, values: readonly Value[]): StatementSync {
    for (const value of values) if (typeof value === "string") assertKeepable(value);
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

/** Runs `work` in one transaction: its reads see one moment, its writes happen together or not at all. */
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
 * Loaded only when it is needed: it is not in every build of Node, and Node 22 prints an ExperimentalWarning as soon
 * as it is loaded, which only the process as a whole can switch off (`--disable-warning=ExperimentalWarning`).
 */
function sqlite(): typeof import("node:sqlite") {
  const module = process.getBuiltinModule("node:sqlite");
  if (module !== undefined) return module;
  throw new RivuletError("sqlite_unavailable", "This Node has no node:sqlite.", {
    hint: "Use Node 22.18 or later, or another store.",
  });
}

/** The database would read NUL as an end and make all half surrogates one letter: two ids could become the same. */
function assertKeepable(text: string): void {
  if (text.isWellFormed() && !text.includes("\0")) return;
  throw new RivuletError("invalid_id", `${JSON.stringify(text)} cannot be an id or a path.`, {
    hint: "Ids and paths are well-formed Unicode without NUL.",
  });
}
