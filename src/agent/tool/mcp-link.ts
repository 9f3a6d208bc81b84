import type {
  CallToolResult,
  RequestOptions,
  StreamableHTTPClientTransport,
  Tool,
  Transport,
  VersionNegotiationMode,
} from "@modelcontextprotocol/client";
import { systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import { longestTimer } from "../base/time.ts";
import type { ToolContext } from "./context.ts";
import { reasonOf } from "./result.ts";

/** An MCP server: a program to start, or a URL. */
export type McpServer = McpProgram | McpAddress;
/** A server that runs as a child process and talks over stdio; it inherits only harmless variables, and gets `env`. */
export interface McpProgram {
  readonly name: string;
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}
/** A server with streamable HTTP; the headers are sent to its origin only. */
export interface McpAddress {
  readonly name: string;
  readonly url: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
}

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
  ): Promise<CallToolResult>;
  /** Closes the connection and ends the server's process. Never throws. */
  close(): Promise<void>;
}

/** The options of a connection. */
export interface LinkOptions {
  /** The time limit of each step. */
  readonly timeout: number;
  readonly signal: AbortSignal;
  /** Called with the server's list of tools, at first and after each change. */
  onList(tools: readonly Tool[]): void;
}

const lastWordsLength = 2_000;
const relistMs = 50;
const terminateMs = 1_000;
const closeMs = 6_000; // the client asks a process to exit, terminates it after 2 s and kills it after 4 s

/** Connects and lists the tools. */
export async function openLink(server: McpServer, options: LinkOptions): Promise<Link> {
  if ("url" in server) return openOnce(server, "auto", options);
  try {
    // Negotiating the newest revision first would start the program twice.
    return await openOnce(server, "legacy", options);
  } catch (error) {
    const { UnsupportedProtocolVersionError } = await import("@modelcontextprotocol/client");
    if (!((error as Error).cause instanceof UnsupportedProtocolVersionError)) throw error;
    return openOnce(server, "auto", options);
  }
}

async function openOnce(
  server: McpServer,
  mode: VersionNegotiationMode,
  { timeout, signal, onList }: LinkOptions,
): Promise<Link> {
  const { Client } = await import("@modelcontextprotocol/client");
  let isAlive = true;
  const onLost = () => {
    isAlive = false;
  };
  const wire = await ("url" in server ? httpWire(server, onLost) : stdioWire(server, onLost));
  let isChanged = false;
  let listing: Promise<void> | undefined;
  const list = async (within: RequestOptions) =>
    onList((await client.listTools(undefined, within)).tools);
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
    { versionNegotiation: { mode }, listChanged: { tools } },
  );
  const close = async () => {
    isAlive = false;
    await wire.close();
    await client.close().catch(() => {});
  };
  try {
    await client.connect(wire.transport, { timeout, signal });
    await list({ timeout, signal });
  } catch (error) {
    await close();
    throw unavailable(server, error, wire.lastWords());
  }
  // On the newest revision, changes of the list have a stream of their own.
  client.autoOpenedSubscription?.closed.then(onLost);
  return {
    isAlive: () => isAlive,
    lastWords: wire.lastWords,
    async listed() {
      await listing;
      await listing; // the first may have started before the last change
    },
    close,
    async call(name, input, context) {
      try {
        return await client.callTool(
          { name, arguments: input },
          {
            signal: context.signal,
            onprogress: ({ progress, total, message }) =>
              context.progress({
                progress,
                ...(total !== undefined && { total }),
                ...(message !== undefined && { message }),
              }),
            timeout: longestTimer, // the tool has its own time limit
          },
        );
      } catch (error) {
        if (!context.signal.aborted && (await isDisconnect(error))) isAlive = false;
        throw error;
      }
    },
  };
}

interface Wire {
  readonly transport: Transport;
  lastWords(): string;
  /** Resolves when the server is gone or its time to exit is over. Never throws. */
  close(): Promise<void>;
}

async function httpWire({ url, headers }: McpAddress, onLost: () => void): Promise<Wire> {
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
  });
  transport.onclose = onLost;
  answerLostRequests(transport, onLost);
  return {
    transport,
    lastWords: () => "",
    async close() {
      await within(terminateMs, transport.terminateSession());
      await within(closeMs, transport.close());
    },
  };
}

async function stdioWire(program: McpProgram, onLost: () => void): Promise<Wire> {
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
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
async function isDisconnect(error: unknown): Promise<boolean> {
  const { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } = await import(
    "@modelcontextprotocol/client"
  );
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

function unavailable(server: McpServer, error: unknown, lastWords: string): RivuletError {
  const message = `The MCP server ${server.name} cannot be reached: ${reasonOf(error)}`;
  const advice =
    "url" in server
      ? `Check that a server is running at ${new URL(server.url).origin}.`
      : `Check that ${server.command} is installed.`;
  const hint = lastWords === "" ? advice : `Check the server's last output: ${lastWords}`;
  return new RivuletError("mcp_unavailable", message, { retryable: true, cause: error, hint });
}

async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const late = systemClock.sleep(ms, over.signal);
  await Promise.race([promise, late]).catch(() => {});
  over.abort();
  await late.catch(() => {});
}
