import { notFound, RivuletError } from "../../base/error.ts";
import type { TaskStatus } from "../../protocol/index.ts";
import { conflict, fenced } from "../store-error.ts";
import { agentBusy, assertIdle } from "../task-queue.ts";

/** The meaning of an error of the database or its connection for the statement. */
export type Failure =
  /** A rule of the store refused the write. */
  | "refused"
  /** Nothing was written: the statement may be repeated at once. */
  | "again"
  /** A number of a log or an id exists. */
  | "exists"
  /** The connection is lost, and nobody knows whether the statement was executed. */
  | "unknown"
  /** The server takes no statements for a while; nothing was written. */
  | "waiting"
  /** The server has become a standby. */
  | "standby"
  /** The tables are those of another version. */
  | "skew"
  /** A value that the database cannot store. */
  | "invalid"
  | "damaged"
  /** The database refuses the login, or the role has no rights. */
  | "login"
  | "other";

/** An error of PostgreSQL, or of the connection to it. */
export interface DatabaseError extends Error {
  readonly code?: string;
  readonly detail?: string;
  readonly table?: string;
}

/** A connection did not answer in time. */
export class ConnectionLost extends Error {}

const byCode: Readonly<Record<string, Failure>> = {
  "40001": "again",
  "40P01": "again",
  "55P03": "again",
  "57014": "again",
  "23505": "exists",
  "57P01": "unknown",
  "57P02": "unknown",
  "57P05": "unknown",
  "25P03": "unknown",
  "57P03": "waiting",
  "53300": "waiting",
  "53100": "waiting",
  "53200": "waiting",
  "58030": "waiting",
  "25006": "standby",
  "42P01": "skew",
  "42883": "skew",
  "42703": "skew",
  "3F000": "skew",
  "22021": "invalid",
  "22P05": "invalid",
  "54000": "invalid",
  XX001: "damaged",
  XX002: "damaged",
  "3D000": "login",
  "42501": "login",
  ECONNREFUSED: "waiting",
  EHOSTUNREACH: "waiting",
  ENETUNREACH: "waiting",
  EAI_AGAIN: "waiting",
  ENOTFOUND: "waiting",
  ENOENT: "waiting",
  ETIMEDOUT: "unknown",
  ECONNRESET: "unknown",
  EPIPE: "unknown",
};
const byClass: Readonly<Record<string, Failure>> = {
  "08": "unknown",
  "28": "login",
  RV: "refused",
};

/** Classifies an error. */
export function failureOf(error: unknown): Failure {
  if (error instanceof ConnectionLost) return "unknown";
  // A new connection led to a server that accepts no writes yet.
  if (error instanceof RivuletError) return error.retryable ? "waiting" : "other";
  const { code, message } = error as DatabaseError;
  if (typeof code === "string") return byCode[code] ?? byClass[code.slice(0, 2)] ?? "other";
  // The client has no codes for these.
  if (message.startsWith("SASL")) return "login";
  return /^(Connection terminated|Client (has encountered|was closed)|timeout)/.test(message)
    ? "unknown"
    : "other";
}

/** Whether a statement may be sent again after an error, if it has the same effect twice as once. */
export function isPassing(failure: Failure): boolean {
  return ["again", "unknown", "waiting", "standby"].includes(failure);
}

/** The details of a refusal by a function of the schema. */
export interface Refusal {
  /** The places of all commits whose lease no longer holds. */
  readonly late?: readonly number[];
  /** The place of the refused commit. */
  readonly at?: number;
  readonly session?: string;
  readonly task?: string;
  readonly status?: TaskStatus;
}

/** The detail of a refusal. */
export function refusalOf(error: unknown): Refusal {
  return JSON.parse((error as DatabaseError).detail ?? "{}");
}

/** The error for the caller of a refused write; `conversation` is the one that it wrote. */
function refused(error: unknown, conversation: string): unknown {
  const { code, message } = error as DatabaseError;
  if (code === "RV001") return fenced(conversation);
  if (code === "RV002") return conflict(message);
  if (code === "RV004") return notFound("session", message);
  const { session = "", task: taskId = "", status = "queued" } = refusalOf(error);
  if (code === "RV003") return agentBusy(session, `task ${taskId} is ${status}`);
  try {
    assertIdle(session, [{ taskId, sessionId: session, status }]);
  } catch (suspended) {
    return suspended;
  }
  return error;
}

const hints: Readonly<Record<string, string>> = {
  "28P01": "Check the user and the password of the URL.",
  "28000": "Check the user of the URL, and the server's pg_hba.conf.",
  "3D000": "Create the database, or name another one in the URL.",
  "42501":
    "Give the role the right to create the schema, or create it with another role and pass `migrate: false`.",
  ECONNREFUSED: "Start PostgreSQL, or correct the host and the port of the URL.",
  ENOTFOUND: "Correct the host of the URL.",
  "53300": "Raise max_connections, put PgBouncer in front, or lower `pool`.",
  "53100": "Free disk space on the server.",
  "57014": "A statement timed out. Look for long transactions and locks in pg_stat_activity.",
  "55P03": "A lock was not free in time. Look for long transactions in pg_stat_activity.",
};

/** Converts an error of the database for the caller; returns other errors unchanged. Never includes the URL. */
export function storeFailed(error: unknown, conversation = ""): unknown {
  if (error instanceof RivuletError) return error;
  const failure = failureOf(error);
  const { code = failure === "login" ? "28P01" : "", message } = error as DatabaseError;
  switch (failure) {
    case "refused":
      return refused(error, conversation);
    case "damaged":
      return new RivuletError("store_corrupt", `The database is damaged: ${message}.`, {
        hint: "Restore the database from a backup.",
        cause: error,
      });
    case "invalid":
      return new RivuletError("invalid_argument", `PostgreSQL cannot store a value: ${message}.`, {
        hint: "Pass texts without NUL, and store large data in files.",
        cause: error,
      });
    case "skew":
      return new RivuletError(
        "store_too_old",
        `The tables are not those of this version: ${message}.`,
        {
          hint: "Run the migrations, or restore the schema.",
          cause: error,
        },
      );
    default:
      return new RivuletError("store_failed", `The store failed: ${describe(error)}.`, {
        retryable: isPassing(failure),
        hint: hints[code] ?? "See the cause of this error, and the log of PostgreSQL.",
        cause: error,
      });
  }
}

/** A connection to several addresses fails with one error for all of them. */
function describe(error: unknown): string {
  const { message, code, errors } = error as AggregateError & DatabaseError;
  const all = [message, ...(errors ?? []).map((one: Error) => one.message)].filter(Boolean);
  return all.join("; ").replace(/\.$/, "") || String(code);
}
