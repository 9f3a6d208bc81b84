import type { Client, ClientConfig } from "pg";
import { RivuletError } from "../../base/error.ts";
import { ConnectionLost, failureOf, isPassing } from "./failure.ts";
import type { Settings } from "./options.ts";

/** A statement; its name identifies it on a connection that prepares statements. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A value of a statement. An array becomes an array of PostgreSQL. */
export type Value =
  | string
  | number
  | boolean
  | Uint8Array
  | null
  | undefined
  | readonly (string | number | boolean | null)[];

type Pg = typeof import("pg")["default"];

/** Loads the client; throws when it is not installed. */
async function loadPg(): Promise<Pg> {
  try {
    const module = await import("pg");
    return module.default;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (!/MODULE_NOT_FOUND/.test(code ?? "") || !/['"]pg['"]/.test(message)) throw cause;
    throw new RivuletError("postgres_not_installed", "The package pg is not installed.", {
      hint: "Run `npm i pg@8`.",
      cause,
    });
  }
}

const connectMs = 10_000;
const int8 = 20;

/** The options of a client. */
function configOf(pg: Pg, settings: Settings, url: string): ClientConfig {
  const { ca, cert, key } = settings;
  const ssl = ca !== undefined || cert !== undefined ? { ca, cert, key } : undefined;
  return {
    connectionString: ssl ? withoutSslMode(url) : url,
    ...(ssl && { ssl }),
    application_name: "rivulet",
    keepAlive: true,
    connectionTimeoutMillis: connectMs,
    types: {
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === int8 ? Number : pg.types.getTypeParser(oid, format as "text"),
    } as ClientConfig["types"] & object,
  };
}

/** The encryption options of the URL would replace the certificates. */
function withoutSslMode(url: string): string {
  const changed = new URL(url);
  changed.searchParams.delete("sslmode");
  changed.searchParams.delete("ssl");
  return changed.href;
}

/** Opens a connection. An idle one does not keep the process alive. */
export async function connect(settings: Settings, url = settings.url): Promise<Client> {
  const pg = await loadPg();
  const client = new pg.Client(configOf(pg, settings, url));
  // The client would take that of the URL first.
  const { password } = settings;
  if (password !== undefined) (client as unknown as Untyped).password = password;
  client.on("error", () => {}); // without a listener, a lost idle connection ends the process
  try {
    await client.connect();
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
  return client;
}

/** Runs one statement on a client; its rows are arrays. */
export async function runOn<Row extends readonly unknown[]>(
  client: Client,
  { name, text }: Statement,
  values: readonly Value[],
  isPrepared = false,
): Promise<readonly Row[]> {
  const sent = values.map((value) => (value instanceof Uint8Array ? asBuffer(value) : value));
  const query = { text, values: sent, rowMode: "array" as const, ...(isPrepared && { name }) };
  const { rows } = await client.query<unknown[]>(query);
  return rows as unknown as readonly Row[];
}

/** The client takes a Buffer for bytes, and any other array for a list. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** One connection that is opened when it is needed, and again after it was lost. */
export class Connection {
  readonly #open: () => Promise<Client>;
  readonly #timeoutMs: number;
  readonly #isPrepared: boolean;
  #client: Promise<Client> | undefined;
  #pending = 0;
  /** Settles when the last statement has its answer: a client takes one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(open: () => Promise<Client>, { timeoutMs, prepare = false }: Settings) {
    this.#open = open;
    this.#timeoutMs = timeoutMs;
    this.#isPrepared = prepare;
  }

  /** How many statements wait for their answers. */
  get pending(): number {
    return this.#pending;
  }

  /** Runs a statement once. After an error of the connection nobody knows whether it was executed. */
  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
  ): Promise<readonly Row[]> {
    this.#pending += 1;
    const running = this.#last.then(() => this.#run<Row>(statement, values));
    this.#last = running.catch(() => {});
    return running;
  }

  async #run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
  ): Promise<readonly Row[]> {
    let client: Client | undefined;
    try {
      this.#client ??= this.#connect();
      client = await this.#client;
      hold(client);
      return await this.#inTime(runOn<Row>(client, statement, values, this.#isPrepared), client);
    } catch (error) {
      const failure = failureOf(error);
      if (client === undefined || (isPassing(failure) && failure !== "again")) this.drop(client);
      throw error;
    } finally {
      this.#pending -= 1;
      if (client && this.#pending === 0) unref(client);
    }
  }

  async #connect(): Promise<Client> {
    const client = await this.#open();
    const opened = this.#client;
    client.once("end", () => {
      if (this.#client === opened) this.#client = undefined;
    });
    return client;
  }

  /** Gives up a connection that does not answer: the server may have stopped, or a firewall forgot the connection. */
  async #inTime<Result>(running: Promise<Result>, client: Client): Promise<Result> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new ConnectionLost(`No answer within ${this.#timeoutMs} ms`));
        this.drop(client);
      }, this.#timeoutMs);
    });
    try {
      return await Promise.race([running, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connection without waiting for answers; the next statement opens another. */
  drop(client?: Client): void {
    const dropped = this.#client;
    this.#client = undefined;
    if (client) destroy(client);
    else void dropped?.then(destroy, () => {});
  }

  /** Closes the connection after its last answer. */
  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    if (client === undefined) return;
    hold(client);
    await client.end().catch(() => {});
  }
}

/** The parts of a client that its types lack. */
interface Untyped {
  password: Settings["password"];
  ref(): void;
  unref(): void;
  readonly connection?: { readonly stream?: { destroy(): void } };
}

/** Keeps the process alive while an answer is due. */
function hold(client: Client): void {
  (client as unknown as Untyped).ref();
}

/** Lets the process end while a connection is idle. */
export function unref(client: Client): void {
  (client as unknown as Untyped).unref();
}

function destroy(client: Client): void {
  (client as unknown as Untyped).connection?.stream?.destroy();
  client.end().catch(() => {});
}
