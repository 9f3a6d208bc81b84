import { type Execution, executionField, type ToolSource } from "../agent/index.ts";
import type { Clock } from "../base/clock.ts";
import { onMissing, RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Fields, ownerOf, readOptions } from "../base/options.ts";
import type { Awaitable } from "../base/time.ts";
import type { Tool } from "../contract/index.ts";

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
  /** How a person logs in, if the server wants OAuth. */
  readonly oauth?: McpOAuth;
}

/** Where tokens are kept, as one text. */
export interface McpTokenStore {
  load(): Awaitable<string | undefined>;
  save(text: string): Awaitable<void>;
}

/** The login of a person at a server, with the flow of the MCP SDK. */
export interface McpOAuth {
  /** Where the browser goes after the login. */
  readonly redirectUrl: string | URL;
  /** Sends a person to an address; resolves to the address that the browser is redirected to. */
  readonly authorize: (address: URL) => Awaitable<string | URL>;
  /** A file, which gets the mode 0600, or a store. */
  readonly tokens: string | McpTokenStore;
  /** A client that is registered already; absent: the client registers itself. */
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** The address of a document that describes this client, which authorization servers may read instead. */
  readonly clientMetadataUrl?: string;
  /** The scopes to ask for; absent: those that the server names. */
  readonly scope?: string;
}

/** The options of `connectMcp`. */
export interface McpOptions {
  /** Precedes the name of every tool; defaults to the name of the server and `_`. */
  readonly prefix?: string;
  /** The execution settings of its tools. */
  readonly execution?: Execution;
  readonly connectTimeoutMs?: number;
  /** True: believes the server about which tools only read, so that they run in plan mode. */
  readonly trustReadOnly?: boolean;
  /** Aborts the connection attempt; has no effect later. */
  readonly signal?: AbortSignal;
  /** How a call reconnects to a server that is gone. */
  readonly reconnect?: Execution;
  /** Called when the server changes a tool or exceeds a limit; defaults to a process warning. */
  readonly onWarning?: (message: string) => void;
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** A connection to a server; as one of `toolSources`, an agent has the tools that the server lists. */
export interface McpConnection extends ToolSource, AsyncDisposable {
  /** Waits until all announced changes are listed; returns at once when there are none. */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Calls the listener after each change of the list, until the returned function is called. */
  onChange(listener: (tools: readonly Tool[]) => void): () => void;
  /** Closes the connection and ends the server's process. An idle connection does not keep the process alive. */
  close(): Promise<void>;
}

/** The rules for the options of `connectMcp`. */
export const mcpFields: Fields<McpOptions> = {
  prefix: is.text,
  execution: executionField,
  connectTimeoutMs: is.duration,
  trustReadOnly: is.flag,
  signal: is.signal,
  reconnect: executionField,
  onWarning: is.callback,
  clock: is.clock,
  random: is.callback,
};
const oauthFields: Fields<McpOAuth> = {
  redirectUrl: is.required(
    is.or(is.name, "a URL", (value) => value instanceof URL),
    '"http://localhost:3000/callback"',
  ),
  authorize: is.required(is.callback),
  tokens: is.required(
    is.or(is.name, "a path or a store", is.withFunctions("load", "save").fits),
    '".rivulet/mcp-tokens.json"',
  ),
  clientId: is.name,
  clientSecret: is.name,
  clientMetadataUrl: is.name,
  scope: is.text,
};
/** The rules for a server. */
export const serverFields: Fields<McpProgram & McpAddress> = {
  name: is.required(is.name, '"wiki"'),
  command: is.text,
  args: is.listOf(is.text),
  env: is.recordOf(is.text),
  cwd: is.name,
  url: is.or(is.text, "a URL", (value) => value instanceof URL),
  headers: is.recordOf(is.text),
  oauth: is.options(oauthFields),
};

const clientPackage = "@modelcontextprotocol/client";

/** Connects to a server and lists its tools; a later call reconnects if the server is gone. */
export async function connectMcp(
  given: McpServer,
  settings: McpOptions = {},
): Promise<McpConnection> {
  const owner = ownerOf("The MCP server", given);
  const server = readOptions<McpServer>(owner, given, serverFields, `${owner}: `);
  checkServer(server);
  const options = readOptions("connectMcp()", settings, mcpFields);
  options.signal?.throwIfAborted();
  const { openConnection } = await import("./connection.ts").catch(
    onMissing("mcp_not_installed", "MCP servers require", clientPackage),
  );
  return openConnection(server, options);
}

/** Throws if a server does not have either a command or a valid URL. */
export function checkServer({ name, command, url }: Partial<McpProgram & McpAddress>): void {
  const hasCommand = typeof command === "string" && command !== "";
  const isInvalid = url !== undefined && !URL.canParse(String(url));
  if (!isInvalid && hasCommand !== (url !== undefined)) return;
  const problem = isInvalid ? "has an invalid `url`" : "requires either a command or a url";
  throw new RivuletError("invalid_mcp_server", `The MCP server ${name} ${problem}.`, {
    hint: 'Pass `command: "my-mcp-server"` or `url: "https://example.com/mcp"`.',
  });
}
