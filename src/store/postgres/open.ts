import type { Client } from "pg";
import { RivuletError } from "../../base/error.ts";
import { type DatabaseError, failureOf, storeFailed } from "./failure.ts";
import { migrate } from "./migrate.ts";
import { isPlainRemote, type Settings } from "./options.ts";
import { runOn } from "./pg-connection.ts";

/** The identity of a server. */
export interface Identity {
  /** Created with the data of the server, and the same on its replicas. */
  readonly system: string;
  /** Grows when a replica becomes the primary, or when a backup is restored. */
  readonly timeline: number;
}

const oldestVersion = 150_000;

const facts = {
  name: "facts",
  text: `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
      current_setting('transaction_read_only') = 'on', current_setting('server_encoding'),
      current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
      (SELECT system_identifier::text FROM pg_control_system()),
      CASE WHEN pg_is_in_recovery() THEN 0
        ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END`,
};

type Facts = [
  version: number,
  isInRecovery: boolean,
  isReadOnly: boolean,
  encoding: string,
  fsync: string,
  fullPages: string,
  synchronousCommit: string,
  system: string,
  timeline: number,
];

/** Checks that a new connection leads to a server that keeps what it confirms, and returns which one it is. */
export async function checkServer(client: Client, { unsafe, place }: Settings): Promise<Identity> {
  const [row] = await runOn<Facts>(client, facts, []);
  const [version, isInRecovery, isReadOnly, encoding, fsync, fullPages, commits] = row as Facts;
  if (version < oldestVersion) {
    throw failed(`${place} is PostgreSQL ${Math.floor(version / 10_000)}.`, {
      hint: "Use PostgreSQL 15 or newer.",
    });
  }
  if (isInRecovery || isReadOnly) {
    throw failed(`${place} accepts no writes: it is a standby, or read-only.`, {
      hint: "Pass an address that leads to the primary.",
      retryable: true,
    });
  }
  if (encoding !== "UTF8") {
    throw failed(`The encoding of ${place} is ${encoding}.`, {
      hint: "Create the database with ENCODING 'UTF8' and TEMPLATE template0.",
    });
  }
  const settings = { fsync, full_page_writes: fullPages, synchronous_commit: commits };
  const off = Object.entries(settings).find(([, value]) => value === "off");
  if (off && !unsafe) {
    throw new RivuletError(
      "unsafe_store",
      `${place} may lose commits that it confirmed: ${off[0]} is off.`,
      { hint: `Turn ${off[0]} on, or pass \`unsafe: true\` for data that may be lost.` },
    );
  }
  const [, , , , , , , system, timeline] = row as Facts;
  return { system, timeline };
}

/** Checks a server, creates or checks the tables, and returns which server it is. */
export async function openDatabase(client: Client, settings: Settings): Promise<Identity> {
  const identity = await checkServer(client, settings);
  await migrate(client, settings);
  if (isPlainRemote(settings)) {
    settings.onProblem(
      new RivuletError("unsafe_store", `The connection to ${settings.place} is not encrypted.`, {
        hint: "Add `?sslmode=verify-full` to the URL.",
      }),
    );
  }
  return identity;
}

/** The error of an opening; names the server, never the password. */
export function cannotOpen(place: string, error: unknown): unknown {
  const converted = storeFailed(error);
  if (!(converted instanceof RivuletError) || converted === error) return converted;
  const { code, retryable, hint } = converted;
  const reason = converted.message.replace(/^The store failed: /, "");
  return new RivuletError(code, `The store at ${place} cannot be opened: ${reason}`, {
    retryable,
    ...(hint !== undefined && { hint }),
    cause: error,
  });
}

/** Whether an opening may succeed soon: the server starts, or its address is not served yet. */
export function mayOpenSoon(error: unknown): boolean {
  if (error instanceof RivuletError) return error.retryable;
  const failure = failureOf(error);
  return failure === "unknown" || failure === "again" || failure === "waiting";
}

/** Whether nobody answers at the address, which is more often wrong than late. */
export function isNoAddress(error: unknown): boolean {
  const { code } = error as DatabaseError;
  return ["ECONNREFUSED", "ENOTFOUND", "ENOENT", "EHOSTUNREACH", "ENETUNREACH"].includes(
    code ?? "",
  );
}

function failed(
  message: string,
  options: { readonly hint: string; readonly retryable?: boolean },
): RivuletError<"store_failed"> {
  return new RivuletError("store_failed", message, options);
}
