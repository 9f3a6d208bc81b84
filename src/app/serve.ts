import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { loadA2a, loadMcp } from "../adapters/index.ts";
import { processOf, settingsBehind } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Fields, invalid, readOptions } from "../base/options.ts";
import type { Agent, Store } from "../contract/index.ts";
import { startHeartbeat, taskRunner } from "../harness/index.ts";
import { loopback } from "../server/index.ts";
import { type AdapterName, type AppOptions, appFields, type OpenApp, openApp } from "./app.ts";
import { startWatchdog } from "./watchdog.ts";

/** Options of `serve`. */
export interface ServeOptions extends AppOptions {
  /** Defaults to 8080; 0: any free port. */
  readonly port?: number;
  /** The address to listen on; defaults to 127.0.0.1. Another one needs `auth`. */
  readonly host?: string;
  /** False: serves, starts, answers and cancels, and leaves the running to other processes on the store. */
  readonly run?: boolean;
  /** Whether tasks of a lost process resume (default) or fail. */
  readonly lostTasks?: "resume" | "fail";
  /** How long `close` waits for requests and tasks; defaults to 10 seconds. */
  readonly shutdownMs?: number;
  /** Whether a thread ends this process when its event loop is blocked for longer than its leases; defaults to false. */
  readonly watchdog?: boolean;
}

/** A server that runs. */
export interface Serving {
  readonly url: string;
  /** The token of the operator; "" with `auth`. */
  readonly token: string;
  /** The address of the page for the operator, with the token behind `#`, which no server and no log sees. */
  readonly pageUrl?: string;
  /**
   * Stops accepting, ends the streams, stops the tasks at their last step and releases them to other processes. Steps that
   * run may take `graceMs` to end (default 0), within `shutdownMs`.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** The rules for the options of `serve`. */
export const serveFields: Fields<ServeOptions> = {
  ...appFields,
  port: is.integer(0, 65_535),
  host: is.name,
  run: is.flag,
  lostTasks: is.oneOf("resume", "fail"),
  shutdownMs: is.duration,
  watchdog: is.flag,
};

const closeFields: Fields<{ readonly graceMs?: number }> = { graceMs: is.integer(0) };

/** Serves agents over HTTP on Node, and takes up the tasks of processes that have died. */
export async function serve(given: ServeOptions): Promise<Serving> {
  const options = readOptions("serve()", given, serveFields);
  const { port = 8080, host = "127.0.0.1", lostTasks = "resume", shutdownMs = 10_000 } = options;
  assertLocal(host, options.auth !== undefined);
  const {
    port: _,
    host: __,
    run = true,
    lostTasks: ___,
    shutdownMs: ____,
    watchdog = false,
    ...appOptions
  } = options;
  const { token = options.auth ? "" : randomBytes(32).toString("base64url") } = options;
  await loadAdapters(options.adapters);
  const opened = openApp(token === "" ? appOptions : { ...appOptions, token });
  if (!run) leaveRunning(opened.store);
  const runner = taskRunner({ agents: opened.agents, lostTasks });
  const server = createServer(opened.app.fetch);
  const connections = new Connections(server);
  try {
    await once(server.listen(port, host), "listening");
  } catch (error) {
    if (typeof options.store === "string") await opened.store.close();
    throw cannotListen(error, host, port);
  }
  if (run) runner.start();
  const leave = run ? undefined : startHeartbeat(opened.store, []);
  const stopWatchdog = watchdog ? startWatchdog(longestLease(opened.agents)) : undefined;
  const { port: bound } = server.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  async function close(given: { readonly graceMs?: number } = {}): Promise<void> {
    const { graceMs = 0 } = readOptions("close()", given, closeFields);
    const cut = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      server.closeAllConnections();
      cut.resolve();
    }, shutdownMs);
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    connections.close();
    await Promise.race([
      cut.promise,
      Promise.all([
        closed,
        opened.close(),
        runner.shutDown({ graceMs: Math.min(graceMs, shutdownMs * 0.8) }),
      ]),
    ]);
    clearTimeout(timer);
    await leave?.();
    stopWatchdog?.();
    if (typeof options.store === "string") await opened.store.close();
  }
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${bound}`;
  return {
    ...{ url, token },
    ...(options.page && { pageUrl: token === "" ? `${url}/` : `${url}/#token=${token}` }),
    close: (given) => (closing ??= close(given)),
  };
}

/** Throws if a server without `auth` would listen for other machines. */
function assertLocal(host: string, hasAuth: boolean): void {
  if (hasAuth || host === "::1" || loopback.includes(host)) return;
  throw invalid(
    `\`host\` ${host} is open to other machines.`,
    "Pass `auth`, or listen on 127.0.0.1.",
  );
}

/** Loads the packages of adapters, so that a missing one is reported now and not with the first request. */
async function loadAdapters(names: readonly AdapterName[] = []): Promise<void> {
  if (names.includes("a2a")) await loadA2a();
  if (names.includes("mcp")) await loadMcp();
}

function createServer(fetch: OpenApp["app"]["fetch"]): Server {
  return createAdaptorServer({
    fetch,
    overrideGlobalObjects: false,
    serverOptions: {
      // A client that sends slowly does not keep a connection.
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      connectionsCheckingInterval: 2_000,
      maxHeaderSize: 16_384,
    },
  }) as Server;
}

/** Leaves the tasks of a store to other processes. */
function leaveRunning(store: Store): void {
  if (store.memory)
    throw invalid(
      "`run: false` needs a store that other processes share.",
      "Pass a store on SQLite or PostgreSQL, and start `rivulet worker`.",
    );
  processOf(store).runNothing();
}

/** The time after which a blocked process owns nothing any more. */
function longestLease(agents: readonly Agent[]): number {
  return Math.max(...agents.map((agent) => settingsBehind(agent)?.leaseMs ?? 0));
}

/** The connections of a server. Node alone keeps those without a request, and those that become idle after `close`. */
class Connections {
  /** How many responses each connection has under way. */
  readonly #responses = new Map<Socket, number>();
  #isClosing = false;

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => {
      this.#responses.set(socket, 0);
      socket.once("close", () => this.#responses.delete(socket));
    });
    server.prependListener("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#add(socket, 1);
      if (this.#isClosing) response.shouldKeepAlive = false;
      response.once("close", () => this.#add(socket, -1));
    });
  }

  /** Ends each connection: now, or after its last response. */
  close(): void {
    this.#isClosing = true;
    for (const socket of this.#responses.keys()) this.#add(socket, 0);
  }

  #add(socket: Socket, change: number): void {
    const count = (this.#responses.get(socket) ?? 0) + change;
    if (this.#responses.has(socket)) this.#responses.set(socket, count);
    if (this.#isClosing && count === 0) socket.destroySoon();
  }
}

const reasons: Readonly<Record<string, readonly [reason: string, hint: string]>> = {
  EADDRINUSE: ["the port is in use", "Stop the other server, or pass another `port` (0: any)."],
  EACCES: ["permission denied", "Pass a `port` above 1023."],
  EADDRNOTAVAIL: ["this machine does not have the address", 'Pass `host: "127.0.0.1"`.'],
};

function cannotListen(cause: unknown, host: string, port: number): RivuletError {
  const { code = "" } = cause as NodeJS.ErrnoException;
  const [reason, hint] = reasons[code] ?? ["the host is unknown", "Pass an address as `host`."];
  const place = `${host.slice(0, 100)}:${port}`;
  return new RivuletError("cannot_listen", `The server cannot listen on ${place}: ${reason}.`, {
    ...{ hint, cause },
  });
}
