import { RivuletError } from "../../protocol/error.ts";

/** An error of `node:sqlite`; `errcode` is the extended result code. */
interface SqliteError extends Error {
  readonly errcode: number;
}

const busy = 5;
const readonly = 8;
const inputOutput = 10;
const corrupt = 11;
const full = 13;
const unreachable = 14;
const tooBig = 18;
const notADatabase = 26;

const hints: Readonly<Record<number, string>> = {
  [busy]:
    "Another process holds the database lock. Find and end a process that is stopped or stuck.",
  [readonly]: "Give the process write permission for the database file and its folder.",
  [inputOutput]: "The disk failed and nothing was written. Check the system log.",
  [corrupt]: "The database file is damaged. Restore it and its -wal file from a backup.",
  [full]: "Nothing was written. Free disk space and try again.",
  [unreachable]: "Give the process write permission for the file and its folder.",
  [tooBig]: "Store large data in files and refer to it.",
  [notADatabase]: "The file is not a database. Pass another path.",
};

/** Codes of errors that a retry may solve. */
const retryableCodes = new Set([busy, inputOutput, full]);

/** Converts an error of SQLite to `store_failed`; returns other errors unchanged. */
export function storeFailed(error: unknown): unknown {
  if (!isSqliteError(error)) return error;
  const code = primaryCode(error);
  return new RivuletError("store_failed", `The store failed: ${error.message}.`, {
    retryable: retryableCodes.has(code),
    hint: hints[code] ?? "See the cause of this error.",
    cause: error,
  });
}

/** Converts an error during opening to `store_failed` with the path. */
export function cannotOpen(path: string, error: unknown): unknown {
  if (error instanceof RivuletError) return error;
  const { message } = error as Error;
  return new RivuletError("store_failed", `The store at ${path} cannot be opened: ${message}.`, {
    retryable: isSqliteError(error) && retryableCodes.has(primaryCode(error)),
    hint: (isSqliteError(error) && hints[primaryCode(error)]) || hints[unreachable],
    cause: error,
  });
}

/** Whether another connection holds the lock. */
export function isBusy(error: unknown): boolean {
  return isSqliteError(error) && primaryCode(error) === busy;
}

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number";
}

function primaryCode(error: SqliteError): number {
  return error.errcode & 0xff;
}
