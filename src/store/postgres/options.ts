import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import type { FlushMs } from "../../contract/index.ts";
import { flushMsField } from "../arguments.ts";
import { type Retention, retentionField } from "../retention.ts";
import { defaultSchema } from "./schema.ts";

/** The options of a store on PostgreSQL. */
export interface PostgresStoreOptions {
  /** The address of the database: `postgres://user:password@host:5432/database?sslmode=verify-full`. */
  readonly url: string;
  /** The password, or a function that returns one for each connection; instead of that in the URL. */
  readonly password?: string | (() => string | Promise<string>);
  /** The certificate of the authority that signed the server's certificate, as PEM text. */
  readonly ca?: string;
  /** The certificate of this client, as PEM text. */
  readonly cert?: string;
  /** The private key of this client, as PEM text. */
  readonly key?: string;
  /** The schema of the tables; defaults to `rivulet`. */
  readonly schema?: string;
  /** The address for wake-ups, if the URL is that of a pooler: the database itself. */
  readonly listenUrl?: string;
  /**
   * How many connections write, and how many read, renew leases and wake other processes; defaults to 4 and 2. One more
   * is for notifications.
   */
  readonly pool?: { readonly writers?: number; readonly readers?: number };
  /** How long calls wait while the database is not available, in milliseconds; defaults to 30,000. */
  readonly patienceMs?: number;
  /** How long a statement may take before its connection is given up, in milliseconds; defaults to 15,000. */
  readonly timeoutMs?: number;
  /** How long ended logs keep their events; defaults to seven days. */
  readonly retention?: Retention;
  /** How long events wait to be written together; without it 20 ms, and none are merged. */
  readonly flushMs?: FlushMs;
  /** False: the tables must exist, for a role without the right to create them. */
  readonly migrate?: boolean;
  /** True: uses named statements, which a pooler in transaction mode may refuse. */
  readonly prepare?: boolean;
  /** True: opens a database that may lose commits in a crash. */
  readonly unsafe?: boolean;
  /** Called with problems that stop nothing; defaults to a warning of the process. */
  readonly onProblem?: (problem: RivuletError) => void;
  /** The clock for leases and dates; defaults to that of the database. */
  readonly clock?: Pick<Clock, "now">;
}

/** The options of a store, complete. */
export interface Settings extends PostgresStoreOptions {
  readonly schema: string;
  readonly pool: { readonly writers: number; readonly readers: number };
  readonly patienceMs: number;
  readonly timeoutMs: number;
  readonly onProblem: (problem: RivuletError) => void;
  /** The server and the database, without user and password. */
  readonly place: string;
}

const poolFields: is.Fields<NonNullable<PostgresStoreOptions["pool"]>> = {
  writers: is.integer(1, 64),
  readers: is.integer(1, 64),
};
const fields: is.Fields<PostgresStoreOptions> = {
  url: is.required(is.text, '"postgres://user:password@localhost:5432/app"'),
  password: is.or(is.text, "a function", (value) => typeof value === "function"),
  ca: is.text,
  cert: is.text,
  key: is.text,
  schema: {
    fits: (value) => typeof value === "string" && /^[a-z_][a-z0-9_]{0,39}$/.test(value),
    expected: "a name of at most 40 lower-case letters, digits and underscores",
    example: '"rivulet"',
  },
  listenUrl: is.text,
  pool: is.options(poolFields),
  patienceMs: is.amount,
  timeoutMs: is.duration,
  retention: retentionField,
  flushMs: flushMsField,
  migrate: is.flag,
  prepare: is.flag,
  unsafe: is.flag,
  onProblem: is.callback,
  clock: is.wallClock,
};

/** Reads the options, or the URL alone; throws before anything is opened. */
export function readSettings(given: string | PostgresStoreOptions): Settings {
  const options = typeof given === "string" ? { url: given } : given;
  const read = is.readOptions("postgresStore()", options, fields);
  const { writers = 4, readers = 2 } = read.pool ?? {};
  const place = placeOf(read.url);
  if (read.listenUrl !== undefined) placeOf(read.listenUrl);
  return {
    schema: defaultSchema,
    patienceMs: 30_000,
    timeoutMs: 15_000,
    onProblem: ({ message, hint }) =>
      process.emitWarning(`${message} ${hint ?? ""}`.trim(), "RivuletWarning"),
    ...read,
    pool: { writers, readers },
    place,
  };
}

/** Whether a URL is that of a PostgreSQL database. */
function isPostgresUrl(name: string): boolean {
  return /^postgres(ql)?:\/\//.test(name);
}

/** The server and the database of a URL, for messages: they never include the password. */
function placeOf(url: string): string {
  const parsed = isPostgresUrl(url) ? URL.parse(url) : null;
  if (parsed === null) {
    // The URL itself is not in the message, because it may have a password.
    throw new RivuletError("invalid_settings", "The URL of the database is not valid.", {
      hint: "Pass `postgres://user:password@localhost:5432/app`. Encode special characters of the password with encodeURIComponent().",
    });
  }
  const host = parsed.searchParams.get("host") ?? parsed.host;
  return `${host || "localhost"}${parsed.pathname}`;
}

/** Whether the traffic to a server leaves this machine without encryption. */
export function isPlainRemote({ url, ca, cert }: PostgresStoreOptions): boolean {
  const { hostname, searchParams } = new URL(url);
  const host = searchParams.get("host") ?? hostname;
  const isLocal = host === "" || host.startsWith("/") || /^(localhost|127\.|\[?::1)/.test(host);
  const mode = searchParams.get("sslmode") ?? searchParams.get("ssl") ?? "disable";
  const isEncrypted = ca !== undefined || cert !== undefined || !/^(disable|false|0)$/.test(mode);
  return !isLocal && !isEncrypted;
}
