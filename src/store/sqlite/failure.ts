import { RivuletError } from "../../base/error.ts";
import { isDamage, storeCorrupt } from "./damage.ts";

/** An error of `node:sqlite`; `errcode` is the extended result code. */
interface SqliteError extends Error {
  readonly errcode: number;
}

const busy = 5;
const readonly = 8;
const inputOutput = 10;
const full = 13;
const unreachable = 14;
const tooBig = 18;
const notADatabase = 26;

const hints: Readonly<Record<number, string>> = {
  [busy]:
    "Another process holds the database lock. Find and end a process that is stopped or stuck.",
  [readonly]: "Give the process write permission for the database file and its folder.",
  [inputOutput]:
    "Nothing was written. Free disk space; if the disk is not full, check the system log.",
  [full]: "Nothing was written. Free disk space and try again.",
  [unreachable]: "Give the process write permission for the file and its folder.",
  [tooBig]: "Store large data in files and refer to it.",
  [notADatabase]: "Restore the file from a backup, move it away, or pass another path.",
};

/** Codes of errors that a retry may solve. */
const retryableCodes = new Set([busy, inputOutput, full]);

/** How long one attempt blocks the event loop while another process holds the lock. */
export const lockMs = 20;
const retryMs = 10;
/** How long attempts are repeated before they fail. */
const maxWaitMs = 10_000;

/** Retries while another process holds the lock. Converts errors of SQLite. */
export async function whenUnlocked<Result>(attempt: () => Result): Promise<Result> {
  const start = performance.now();
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() - start >= maxWaitMs) throw storeFailed(error);
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

/** Converts an error of SQLite to `store_failed` or `store_corrupt`; returns other errors unchanged. */
export function storeFailed(error: unknown): unknown {
  if (isDamage(error)) return storeCorrupt(`${(error as Error).message}.`, error);
  if (!isSqliteError(error)) return error;
  const code = primaryCode(error);
  return new RivuletError("store_failed", `The store failed: ${error.message}.`, {
    retryable: retryableCodes.has(code),
    hint: hints[code] ?? "See the cause of this error.",
    cause: error,
  });
}

/** Converts an error during opening; the message has the path. */
export function cannotOpen(path: string, error: unknown): unknown {
  if (error instanceof RivuletError)
    return new RivuletError(error.code, `${path}: ${error.message}`, {
      ...(error.hint !== undefined && { hint: error.hint }),
      cause: error,
    });
  if (isDamage(error)) return storeCorrupt(`${path}: ${(error as Error).message}.`, error);
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
