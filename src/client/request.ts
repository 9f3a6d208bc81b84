import { type Clock, systemClock } from "../base/clock.ts";
import { type ErrorShape, RivuletError, rivuletErrorOf } from "../base/error.ts";
import * as is from "../base/options.ts";
import { readArgument, readOptions } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import { headerSecrets, hideSecrets, secretsIn, urlSecrets } from "../base/secrets.ts";
import type { Awaitable } from "../base/time.ts";

/** How to reach a server. */
export interface ConnectOptions {
  /** A bearer token, or a function that returns one for each request. A page with the server's cookie needs none. */
  readonly token?: string | (() => Awaitable<string>);
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Defaults to the global `fetch`. */
  readonly fetch?: typeof fetch;
  readonly clock?: Clock;
  /** Returns a number from 0 to 1; spreads the reconnects of many clients. */
  readonly random?: () => number;
}

const fields: is.Fields<ConnectOptions> = {
  token: is.or(is.name, "a function", (value) => typeof value === "function"),
  headers: is.recordOf(is.text),
  fetch: is.callback,
  clock: is.clock,
  random: is.callback,
};

/** The longest delay between two attempts, in milliseconds. */
const maxDelayMs = 30_000;
const maxAttempts = 5;

/** The delay before attempt `attempt + 1`: doubles from `firstMs`, minus a random half of it. */
export function backoffMs(attempt: number, firstMs: number, random: () => number): number {
  const delay = Math.min(maxDelayMs, firstMs * 2 ** Math.min(attempt - 1, 20));
  return Math.round(delay * (1 - random() / 2));
}

/** Sends requests to one server. */
export class Server {
  readonly clock: Clock;
  readonly random: () => number;
  /** The address without a slash at its end. */
  readonly base: string;
  readonly #token: ConnectOptions["token"];
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;
  /** The secrets that were sent, in all spellings; no answer may show them. */
  readonly #sent = new Set<string>();
  #secrets: readonly string[] | undefined;

  constructor(url: string, options: ConnectOptions) {
    const read = readOptions("connect()", options, fields);
    this.base = baseOf(url);
    this.#token = read.token;
    this.#headers = read.headers ?? {};
    for (const secret of [...urlSecrets(this.base), ...headerSecrets(this.#headers)])
      this.#sent.add(secret);
    // A browser's fetch must not be called as a method.
    this.#fetch = read.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.clock = read.clock ?? systemClock;
    this.random = read.random ?? Math.random;
  }

  /** The credentials of this connection in all spellings; a server may echo them. */
  get secrets(): readonly string[] {
    this.#secrets ??= secretsIn(this.#sent);
    return this.#secrets;
  }

  /** The address without secrets. */
  get shownBase(): string {
    return hideSecrets(this.secrets, this.base);
  }

  /** Sends one request; throws `unreachable` without a response, and the server's error for a status of 400 or more. */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    if (token !== undefined && !this.#sent.has(token)) {
      this.#sent.add(token);
      this.#secrets = undefined;
    }
    const headers = {
      ...this.#headers,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(init.body != null && { "content-type": "application/json" }),
      ...(init.headers as Record<string, string> | undefined),
    };
    let response: Response;
    try {
      // A redirect could take the credentials to another server.
      response = await this.#fetch(this.base + path, { ...init, headers, redirect: "manual" });
    } catch (cause) {
      if (init.signal?.aborted) throw init.signal.reason;
      throw cause instanceof RivuletError ? cause : unreachable(this, cause);
    }
    const { status, type } = response;
    if (type === "opaqueredirect" || (status >= 300 && status < 400 && status !== 304)) {
      await response.body?.cancel();
      throw new RivuletError("redirected", `${this.shownBase}${path} answers with a redirect.`, {
        hint: "Connect to the address that the server redirects to.",
      });
    }
    if (status >= 400) throw await errorOf(response, this.secrets);
    return response;
  }

  /**
   * Sends a request that has the same effect when it is repeated and returns the JSON of its response. It is tried again
   * after errors that may pass.
   */
  async json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.once<T>(method, path, body, signal);
      } catch (error) {
        if (signal?.aborted || attempt === maxAttempts || !mayHeal(error)) throw error;
        const delay = retryAfterOf(error) ?? backoffMs(attempt, 250, this.random);
        await this.clock.sleep(delay, signal);
      }
    }
  }

  /** Sends a request once and returns the JSON of its response; undefined if the response has no body. */
  async once<T>(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const response = await this.send(path, {
      ...{ method, headers },
      ...(body !== undefined && { body: bodyOf(body) }),
      ...(signal && { signal }),
    });
    try {
      const text = await response.text();
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      throw cause instanceof RivuletError ? cause : unreachable(this, cause);
    }
  }

  /** Reads the bytes of a response, at most `maxBytes`. */
  async bytes(path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const { body } = await this.send(path, { signal });
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      // Leaving the loop early ends the connection.
      for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
        size += chunk.length;
        if (size > maxBytes) break;
        chunks.push(chunk);
      }
    } catch (cause) {
      if (signal.aborted) throw signal.reason;
      throw cause instanceof RivuletError ? cause : unreachable(this, cause);
    }
    if (size <= maxBytes) return joined(chunks, size);
    const message = `${this.shownBase}${path} has more than ${maxBytes} bytes.`;
    throw new RivuletError("invalid_response", message);
  }
}

/** Whether an id in an answer is that of what the request has named: a server may add to the names of its users. */
export function isNamed(id: string, name: string): boolean {
  return id === name || id.startsWith(`${name}~`);
}

/** Query parameters as text that begins with `?`; undefined values are left out. */
export function queryOf(values: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? "" : `?${query}`;
}

/** Whether the same request may succeed later. */
export function mayHeal(error: unknown): boolean {
  const { status } = httpOf(error) ?? {};
  if (status === undefined) return error instanceof RivuletError && error.code === "unreachable";
  return status >= 500 || status === 408 || status === 425 || status === 429;
}

/** How long the server asks to wait before the next request. */
export function retryAfterOf(error: unknown): number | undefined {
  return httpOf(error)?.retryAfterMs;
}

/** The error that the status line and the headers describe. */
class HttpCause {
  readonly status: number;
  readonly retryAfterMs: number | undefined;

  constructor({ status, headers }: Response) {
    this.status = status;
    const value = headers.get("retry-after");
    const seconds = value === null || value === "" ? Number.NaN : Number(value);
    const ms = Number.isNaN(seconds) ? Date.parse(value ?? "") - Date.now() : seconds * 1_000;
    this.retryAfterMs = Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), 10 * maxDelayMs);
  }
}

function httpOf(error: unknown): HttpCause | undefined {
  const { cause } = error instanceof RivuletError ? error : {};
  return cause instanceof HttpCause ? cause : undefined;
}

/** The error in the body of a response: the server's own, or one made of the status. */
async function errorOf(response: Response, secrets: readonly string[]): Promise<RivuletError> {
  const { status, statusText } = response;
  const cause = new HttpCause(response);
  const text = hideSecrets(secrets, await response.text().catch(() => ""));
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined; // the page of a proxy
  }
  const shape = isObject(body) && isObject(body.error) ? body.error : body;
  if (isObject(shape) && typeof shape.code === "string" && typeof shape.message === "string") {
    const { code, message, ...more } = shape as unknown as ErrorShape;
    return new RivuletError(code, message, { ...more, cause });
  }
  return new RivuletError(
    "http_error",
    `The server answers ${status} ${hideSecrets(secrets, statusText)}.`.trim(),
    {
      retryable: status >= 500,
      hint: "Check the address, the token, and the proxies before the server.",
      cause,
    },
  );
}

function unreachable({ base, secrets }: Server, cause: unknown): RivuletError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = hideSecrets(secrets, `${base} does not answer: ${reason}`);
  return new RivuletError("unreachable", message, {
    retryable: true,
    hint: "Check that the server runs and that its address is right.",
    cause,
  });
}

function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function bodyOf(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (cause) {
    throw rivuletErrorOf(cause, "invalid_input");
  }
}

/** The address without a slash at its end; credentials in it would end up in logs. */
function baseOf(url: string): string {
  readArgument("url", url, is.required(is.text, '"http://localhost:8080"'));
  const page = (globalThis as { location?: { href?: string } }).location?.href;
  const parse = (address: string) =>
    URL.canParse(address, page) ? new URL(address, page) : undefined;
  const parsed = parse(url);
  const problem = !/^https?:$/.test(parsed?.protocol ?? "")
    ? "must be an http or https address"
    : parsed?.username || parsed?.password || parsed?.search
      ? "must not contain credentials or a query"
      : undefined;
  if (parsed && problem === undefined)
    return `${parsed.origin}${parsed.pathname}`.replace(/\/+$/, "");
  // "localhost:8080" has the scheme "localhost:" and no host.
  const { protocol, host, pathname } = (parsed?.host ? parsed : parse(`http://${url}`)) ?? {};
  const shown = host ? `${parsed?.host ? `${protocol}//` : ""}${host}${pathname}` : "…";
  const guess = `http://${host || "localhost:8080"}`;
  throw new RivuletError("invalid_argument", `\`url\` ${problem}, got "${shown}".`, {
    hint: `Pass an address such as "${guess}", and a token as \`token\`.`,
  });
}
