import { RivuletError } from "../../protocol/error.ts";

/** What SQLite throws through Node; `errcode` is the extended result code. */
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
  [busy]: "Another process holds the database. Look for one that is stopped or stuck.",
  [readonly]: "The process needs to write to the database file and to its folder.",
  [inputOutput]: "The disk failed. Nothing of this write is stored; look at the system's log.",
  [corrupt]: "The database file is damaged. Restore it, with its -wal file, from a copy.",
  [full]: "Nothing of this write is stored. Free some space; the store then goes on by itself.",
  [unreachable]: "The process must be allowed to write to the file and in its folder.",
  [tooBig]: "Keep large data in files and refer to it.",
  [notADatabase]: "The path names a file that is something else. Choose another one.",
};

/** What may work when it is tried again a little later. */
const passing = new Set([busy, inputOutput, full]);

/** Turns an error of the database into one that says what to do; leaves any other as it is. */
export function storeFailed(error: unknown): unknown {
  if (!isSqliteError(error)) return error;
  const code = primaryCode(error);
  return new RivuletError("store_failed", `The store failed: ${error.message}.`, {
    retryable: passing.has(code),
    hint: hints[code] ?? "The cause says more.",
    cause: error,
  });
}

/** The same for an error on the way to the database: it names the path. */
export function cannotOpen(path: string, error: unknown): unknown {
  if (error instanceof RivuletError) return error;
  const { message } = error as Error;
  return new RivuletError("store_failed", `The store at ${path} cannot be opened: ${message}.`, {
    retryable: isSqliteError(error) && passing.has(primaryCode(error)),
    hint: (isSqliteError(error) && hints[primaryCode(error)]) || hints[unreachable],
    cause: error,
  });
}

/** Whether another connection held the lock for too long. */
export function isBusy(error: unknown): boolean {
  return isSqliteError(error) && primaryCode(error) === busy;
}

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number";
}

function primaryCode(error: SqliteError): number {
  return error.errcode & 0xff;
}
