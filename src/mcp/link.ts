import type { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import {
  type CallToolResult,
  Client,
  type ElicitResult,
  type InputRequiredResult,
  type Progress,
  ProtocolError,
  type ReadResourceResult,
  type RequestOptions,
  type Resource,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Tool,
  type Transport,
  UnauthorizedError,
  UnsupportedProtocolVersionError,
  type VersionNegotiationMode,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { ToolContext } from "../agent/index.ts";
import { systemClock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import { longestTimer } from "../base/time.ts";
import type { McpAddress, McpProgram, McpServer } from "./connect.ts";
import { type OAuthLogin, openLogin } from "./oauth.ts";
import { OpenCalls, type Standing } from "./open-calls.ts";
import { progressOf, questionOf, safeText } from "./untrusted.ts";

/** One connection to a server. */
export interface Link {
  isAlive(): boolean;
  /** The latest output of the server to stderr. */
  lastWords(): string;
  /** Resolves when every announced change is listed. Never throws. */
  listed(): Promise<void>;
  call(
    name: string,
    input: Readonly<Record<string, unknown>>,
    context: ToolContext,
    answers?: CallAnswers,
  ): Promise<CallStanding>;
  /** Answers the question of a call that runs; undefined if the connection does not have this call. */
  continue(context: ToolContext, answer: ElicitResult): Promise<CallStanding> | undefined;
  /** The first page of the server's documents. */
  listResources(signal: AbortSignal): Promise<readonly Resource[]>;
  /** The contents of a document. */
  readResource(uri: string, signal: AbortSignal): Promise<ReadResourceResult["contents"]>;
  /** Closes the connection and ends the server's process. Never throws. */
  close(): Promise<void>;
}

/** The part of a call that is made again because the server has asked. */
export interface CallAnswers {
  readonly inputResponses: Readonly<Record<string, ElicitResult>>;
  readonly requestState?: string;
}
/** How far a call has come. */
export type CallStanding = Standing<CallToolResult | InputRequiredResult>;

/** The options of a connection. */
export interface LinkOptions {
  /** The time limit of each step. */
  readonly timeout: number;
  readonly signal: AbortSignal;
  /** Called with the server's list of tools, at first and after each change. */
  onList(tools: readonly Tool[], hasResources: boolean): void;
}

const lastWordsLength = 2_000;
const relistMs = 50;
const maxLogins = 2; // the first login, and one for more scopes
const terminateMs = 1_000;
const closeMs = 6_000; // the client asks a process to exit, terminates it after 2 s and kills it after 4 s

/** Connects and lists the tools. */
export async function openLink(server: McpServer, options: LinkOptions): Promise<Link> {
  if ("url" in server) return openAddress(server, options);
  try {
    // Negotiating the newest revision first would start the program twice.
    return await openOnce(server, "legacy", options);
  } catch (error) {
    if ((error as RivuletError).code !== "mcp_unsupported_version") throw error;
    return openOnce(server, "auto", options);
  }
}

/** Opens a connection; a server that wants a login gets one, and then is connected to again. */
async function openAddress(server: McpAddress, options: LinkOptions): Promise<Link> {
  const login = server.oauth && openLogin(server, server.oauth);
  for (let logins = 0; ; logins++) {
    const wire = { isRefused: false };
    try {
      return await openOnce(server, "auto", options, login, wire);
    } catch (error) {
      if (!login || !wire.isRefused || logins >= maxLogins) throw error;
    }
  }
}

async function openOnce(
  server: McpServer,
  mode: VersionNegotiationMode,
  { timeout, signal, onList }: LinkOptions,
  login?: OAuthLogin,
  attempt = { isRefused: false },
): Promise<Link> {
  let isAlive = true;
  const onLost = () => {
    isAlive = false;
  };
  const wire = "url" in server ? httpWire(server, onLost, login) : stdioWire(server, onLost);
  let isChanged = false;
  let listing: Promise<void> | undefined;
  let listed: readonly Tool[] = [];
  const list = async (within: RequestOptions) => {
    listed = (await client.listTools(undefined, within)).tools;
    onList(listed, hasResources());
  };
  /** The client refuses a question in place of a result that the tool has a schema for, so it gets none. */
  const definitionOf = (name: string) => {
    const { outputSchema, ...definition } = listed.find((tool) => tool.name === name) ?? {};
    return outputSchema && { toolDefinition: definition as Tool };
  };
  const hasResources = () => client.getServerCapabilities()?.resources !== undefined;
  const listAgain = async () => {
    isChanged = false;
    await list({ timeout }).catch(() => {}); // keeps the old list; the next call notices a lost server
    // Limits the requests to a server that changes its list all the time.
    listing = isChanged ? systemClock.sleep(relistMs).then(listAgain) : undefined;
  };
  const onChanged = () => {
    isChanged = true;
    listing ??= listAgain();
  };
  // Without the debounce of the client, `listed` knows at once that a new list is on its way.
  const tools = { autoRefresh: false, debounceMs: 0, onChanged };
  const client = new Client(
    { name: "rivulet", version: "1" },
    {
      versionNegotiation: { mode },
      listChanged: { tools },
      capabilities: { elicitation: { form: {}, url: {} } },
      inputRequired: { autoFulfill: false },
      // A schema of the server can take exponential time on a result of the server.
      jsonSchemaValidator: { getValidator: () => acceptAnything },
    },
  );
  const calls = new OpenCalls<CallToolResult | InputRequiredResult>();
  client.setRequestHandler("elicitation/create", async ({ params }) =>
    calls.ask(questionOf(server, params)),
  );
  /** A call that waits for a person does not keep the process alive. */
  const untilItAsks = async (
    { signal }: ToolContext,
    next: () => Promise<CallStanding>,
  ): Promise<CallStanding> => {
    try {
      const standing = await whileAlive(next);
      if (standing.question) unrefTimers(client);
      return standing;
    } catch (error) {
      if (!signal.aborted && isDisconnect(error)) isAlive = false;
      throw error;
    }
  };
  const close = async () => {
    isAlive = false;
    await wire.close();
    await client.close().catch(() => {});
  };
  const lastWords = () => safeText(server, wire.lastWords());
  try {
    await whileAlive(async () => {
      await client.connect(wire.transport, { timeout, signal });
      await list({ timeout, signal });
    });
  } catch (error) {
    if (isUnauthorized(error) && wire.logIn) {
      attempt.isRefused = true;
      await wire.logIn().catch(async (failure: unknown) => {
        await close();
        throw loginFailed(server, failure);
      });
    }
    await close();
    throw unavailable(server, error, lastWords());
  }
  // On the newest revision, changes of the list have a stream of their own.
  client.autoOpenedSubscription?.closed.then(onLost);
  return {
    isAlive: () => isAlive,
    lastWords,
    async listed() {
      if (listing === undefined) return;
      await whileAlive(async () => {
        await listing;
        await listing; // the first may have started before the last change
      });
    },
    close,
    async listResources(signal) {
      const { resources } = await whileAlive(() => client.listResources(undefined, { signal }));
      return resources;
    },
    async readResource(uri, signal) {
      const { contents } = await whileAlive(() => client.readResource({ uri }, { signal }));
      return contents;
    },
    call(name, input, context, answers) {
      return untilItAsks(context, () =>
        calls.start(context, async (running) => {
          const options = {
            signal: running.signal,
            onprogress: (report: Progress) => running.context.progress(progressOf(report)),
            timeout: longestTimer, // the tool has its own time limit
            allowInputRequired: true,
            ...definitionOf(name),
          };
          const params = { name, arguments: input, ...answers };
          const run = () => client.callTool(params, options);
          return await run().catch(async (error: unknown) => {
            if (!isUnauthorized(error) || !wire.logIn) throw error;
            await wire.logIn(); // for another scope, or because the tokens are valid no more
            return run();
          });
        }),
      );
    },
    continue(context, answer) {
      const next = calls.continue(context, answer);
      return next && untilItAsks(context, () => next);
    },
  };
}

/** Lets the process exit while requests are open. */
function unrefTimers(client: Client): void {
  const timers = Reflect.get(client, "_timeoutInfo") as
    | ReadonlyMap<unknown, { readonly timeoutId?: NodeJS.Timeout }>
    | undefined;
  for (const { timeoutId } of timers?.values() ?? []) timeoutId?.unref();
}

/** Keeps the process alive during some work, because an idle connection does not. */
async function whileAlive<T>(work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, longestTimer);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}

/** Whether a person has been asked to log in. */
function isUnauthorized(error: unknown): boolean {
  if (error instanceof UnauthorizedError) return true;
  const { cause } = (error ?? {}) as { readonly cause?: unknown };
  return cause !== undefined && cause !== error && isUnauthorized(cause);
}

function loginFailed(server: McpServer, error: unknown): RivuletError {
  if (error instanceof RivuletError) return error;
  const message = `The login at the MCP server ${server.name} failed: ${safeText(server, error)}`;
  return new RivuletError("mcp_unauthorized", message, { hint: "Log in again." });
}

function acceptAnything(data: unknown) {
  return { valid: true as const, data: data as never, errorMessage: undefined };
}

interface Wire {
  readonly transport: Transport;
  lastWords(): string;
  /** Redeems the login that the flow has just asked a person for. */
  logIn?(): Promise<void>;
  /** Resolves when the server is gone or its time to exit is over. Never throws. */
  close(): Promise<void>;
}

function httpWire(
  { url, headers }: McpAddress,
  onLost: () => void,
  login: OAuthLogin | undefined,
): Wire {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    ...(login && { authProvider: login.provider }),
  });
  transport.onclose = onLost;
  answerLostRequests(transport, onLost);
  const ref = unrefSockets(new URL(url).origin);
  return {
    transport,
    lastWords: () => "",
    ...(login && { logIn: () => login.redeem((params) => transport.finishAuth(params)) }),
    async close() {
      ref();
      await within(terminateMs, transport.terminateSession());
      await within(closeMs, transport.close());
    },
  };
}

function stdioWire(program: McpProgram, onLost: () => void): Wire {
  const { command, args = [], env, cwd } = program;
  const transport = new StdioClientTransport({
    command,
    args: [...args],
    stderr: "pipe",
    ...(env && { env: { ...env } }),
    ...(cwd !== undefined && { cwd }),
  });
  let words = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    words = (words + chunk.toString()).slice(-lastWordsLength);
  });
  answerLast(transport);
  let ended = Promise.resolve();
  const start = transport.start.bind(transport);
  transport.start = async () => {
    await start();
    const child = Reflect.get(transport, "_process") as ChildProcess | undefined;
    child?.unref();
    // With pipes, these are sockets.
    for (const pipe of child?.stdio ?? []) (pipe as Partial<Socket> | null)?.unref?.();
    ended = new Promise((resolve) => {
      const onclose = transport.onclose;
      transport.onclose = () => {
        onLost();
        resolve();
        onclose?.();
      };
    });
  };
  return {
    transport,
    lastWords: () => words.trim(),
    async close() {
      const closing = transport.close().then(() => ended);
      await within(closeMs, closing);
    },
  };
}

/** Lets the process exit while a stream of the server is open; the returned function stops this. */
function unrefSockets(origin: string): () => void {
  const channel = "undici:client:sendHeaders"; // the platform's `fetch` has no other access to a socket
  const onSend = (message: unknown) => {
    const { request, headers, socket } = message as {
      readonly request: { readonly origin: string };
      readonly headers: string;
      readonly socket: Socket;
    };
    if (request.origin === origin && /^mcp-/im.test(headers)) socket.unref();
  };
  subscribe(channel, onSend);
  return () => unsubscribe(channel, onSend);
}

/** Answers a request whose stream broke off with an error, because the client would wait forever. */
function answerLostRequests(transport: StreamableHTTPClientTransport, onLost: () => void): void {
  const waiting = new Set<unknown>();
  const send = transport.send.bind(transport);
  answerLast(transport, (id) => waiting.delete(id));
  transport.send = (message, options = {}) => {
    if (Array.isArray(message) || !("method" in message) || options.onRequestStreamEnd) {
      return send(message, options);
    }
    if (message.method === "notifications/cancelled") waiting.delete(message.params?.requestId);
    if (!("id" in message)) return send(message, options);
    const { id } = message;
    waiting.add(id);
    const onRequestStreamEnd = () => {
      if (!waiting.delete(id)) return;
      onLost();
      const error = { code: -32_000, message: "the connection was lost" };
      transport.onmessage?.({ jsonrpc: "2.0", id, error });
    };
    return send(message, { ...options, onRequestStreamEnd });
  };
}

/** Delays answers behind earlier notifications, because the client drops progress that it handles after the answer. */
function answerLast(transport: Transport, onAnswer?: (id: unknown) => void): void {
  let deliver: Transport["onmessage"];
  Object.defineProperty(transport, "onmessage", {
    get: () => deliver,
    set(handler: Transport["onmessage"]) {
      deliver =
        handler &&
        ((message, extra) => {
          if ("method" in message) return handler(message, extra);
          onAnswer?.(message.id);
          setImmediate(() => handler(message, extra));
        });
    },
  });
}

/** Whether an error means that the server, or our session with it, is gone. */
function isDisconnect(error: unknown): boolean {
  if (error instanceof SdkHttpError) return isUnknownSession(error);
  if (!(error instanceof SdkError)) return !(error instanceof ProtocolError);
  const { ConnectionClosed, NotConnected, SendFailed } = SdkErrorCode;
  return [ConnectionClosed, NotConnected, SendFailed].includes(error.code);
}

/** Whether the server does not know our session, in which case it has not run the call. */
export function isUnknownSession(error: unknown): boolean {
  const { status, message } = error as { status?: unknown; message?: unknown };
  return status === 404 || (status === 400 && /session/i.test(String(message)));
}

/** Without the cause, which may contain secrets. */
function unavailable(server: McpServer, error: unknown, lastWords: string): RivuletError {
  const isOld = error instanceof UnsupportedProtocolVersionError;
  const message = `The MCP server ${server.name} cannot be reached: ${safeText(server, error)}`;
  const advice =
    "url" in server
      ? `Check that a server is running at ${new URL(server.url).origin}.`
      : `Check that ${server.command} is installed.`;
  const hint = lastWords === "" ? advice : `Check the server's last output: ${lastWords}`;
  const code = isOld ? "mcp_unsupported_version" : "mcp_unavailable";
  return new RivuletError(code, message, { retryable: true, hint });
}

async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const late = systemClock.sleep(ms, over.signal);
  await Promise.race([promise, late]).catch(() => {});
  over.abort();
  await late.catch(() => {});
}
