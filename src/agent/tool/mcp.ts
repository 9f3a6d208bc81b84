import type {
  CallToolResult,
  ContentBlock,
  Tool as ServerTool,
} from "@modelcontextprotocol/client";
import type { StandardSchema } from "../../protocol/agent.ts";
import { type Clock, systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import { type Block, textOf } from "../../protocol/message.ts";
import { backoffMs, type Execution } from "../base/execution.ts";
import { toolErrors } from "../base/prompts.ts";
import type { ToolContext } from "./context.ts";
import {
  isUnknownSession,
  type Link,
  type McpAddress,
  type McpProgram,
  type McpServer,
  openLink,
} from "./mcp-link.ts";
import { reasonOf } from "./result.ts";
import { jsonSchema } from "./schema.ts";
import { type Tool, tool } from "./tool.ts";
import type { ToolSource } from "./toolkit.ts";

/** The options of `connectMcp`. */
export interface McpOptions {
  /** Precedes the name of every tool. */
  readonly prefix?: string;
  /** The execution settings of its tools. */
  readonly execution?: Execution;
  readonly connectTimeoutMs?: number;
  /** Aborts the connection attempt; has no effect later. */
  readonly signal?: AbortSignal;
  /** How a call reconnects to a server that is gone. */
  readonly reconnect?: Execution;
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** A connection to a server; as one of `toolSources`, an agent has the tools that the server lists. */
export interface McpConnection extends ToolSource {
  /** Waits until all announced changes are listed; returns at once when there are none. */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Calls the listener after each change of the list, until the returned function is called. */
  onChange(listener: (tools: readonly Tool[]) => void): () => void;
  /** Closes the connection and ends the server's process. */
  close(): Promise<void>;
}

type Fields = Readonly<Record<string, unknown>>;

const reconnectDefaults = { maxAttempts: 3, initialBackoffMs: 200, maxBackoffMs: 2_000 };

/** Connects to a server and lists its tools; a later call reconnects if the server is gone. */
export async function connectMcp(
  server: McpServer,
  options: McpOptions = {},
): Promise<McpConnection> {
  checkServer(server);
  const { signal } = options;
  signal?.throwIfAborted();
  const connection = new ServerConnection(server, options);
  const onAbort = () => void connection.close();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    await connection.open();
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
  return connection;
}

/** Throws if a server does not have either a command or a valid URL. */
export function checkServer({ name, command, url }: Partial<McpProgram & McpAddress>): void {
  const hasCommand = typeof command === "string" && command !== "";
  const isInvalid = url !== undefined && !URL.canParse(String(url));
  if (!isInvalid && hasCommand !== (url !== undefined)) return;
  const problem = isInvalid ? `has an invalid url: ${url}` : "requires either a command or a url";
  throw new RivuletError("invalid_mcp_server", `The MCP server ${name} ${problem}.`, {
    hint: 'Pass `command: "my-mcp-server"` or `url: "https://example.com/mcp"`.',
  });
}

class ServerConnection implements McpConnection {
  readonly #server: McpServer;
  readonly #options: McpOptions;
  readonly #clock: Clock;
  readonly #listeners = new Set<(tools: readonly Tool[]) => void>();
  readonly #closing = new AbortController();
  #link: Link | undefined;
  #reopening: Promise<Link> | undefined;
  #tools: readonly Tool[] = [];
  #listed = "";

  constructor(server: McpServer, options: McpOptions) {
    this.#server = server;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  tools(): readonly Tool[] {
    return this.#tools;
  }

  async refresh(signal?: AbortSignal): Promise<void> {
    if (!this.#link?.isAlive()) return;
    const listed = this.#link.listed();
    await (signal ? orAborted(listed, signal).catch(() => {}) : listed);
  }

  onChange(listener: (tools: readonly Tool[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#reopening?.catch(() => {});
    await this.#link?.close();
  }

  async open(): Promise<Link> {
    const { connectTimeoutMs: timeout = 30_000 } = this.#options;
    const link = await openLink(this.#server, {
      timeout,
      signal: this.#closing.signal,
      onList: (listed) => this.#list(listed),
    });
    this.#link = link;
    return link;
  }

  /** The live connection, reopened if it is gone; concurrent callers share the attempts. */
  async #reach(): Promise<Link> {
    if (this.#closing.signal.aborted) throw closed(this.#server);
    if (this.#link?.isAlive()) return this.#link;
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = undefined;
    });
    return this.#reopening.catch((error) => {
      throw this.#closing.signal.aborted ? closed(this.#server) : error;
    });
  }

  async #reopen(): Promise<Link> {
    const { reconnect, random = Math.random } = this.#options;
    const execution = { ...reconnectDefaults, ...reconnect };
    await this.#link?.close();
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.open();
      } catch (error) {
        if (!(attempt < execution.maxAttempts) || this.#closing.signal.aborted) throw error;
      }
      await this.#clock.sleep(backoffMs(execution, attempt, random), this.#closing.signal);
    }
  }

  #list(listed: readonly ServerTool[]): void {
    const text = JSON.stringify(listed);
    if (text === this.#listed) return;
    const isFirst = this.#listed === "";
    this.#listed = text;
    const names = new Set<string>();
    this.#tools = Object.freeze(
      listed.map((tool) =>
        this.#createTool(tool, nameFor(tool.name, names, this.#options.prefix ?? "")),
      ),
    );
    if (isFirst) return;
    for (const listener of this.#listeners) {
      try {
        listener(this.#tools);
      } catch {
        // A listener must not break the connection.
      }
    }
  }

  #createTool(listed: ServerTool, name: string): Tool {
    const { description, title, annotations = {}, inputSchema } = listed;
    const { execution = {} } = this.#options;
    return tool({
      name,
      description: description?.trim() || title?.trim() || `${listed.name} of ${this.#server.name}`,
      input: inputOf(inputSchema),
      idempotent: annotations.idempotentHint === true || annotations.readOnlyHint === true,
      execution,
      execute: (input, context) => this.#call(listed.name, input, context),
    });
  }

  async #call(name: string, input: Fields, context: ToolContext): Promise<readonly Block[]> {
    for (let isRetry = false; ; isRetry = true) {
      const link = await orAborted(this.#reach(), context.signal);
      try {
        return blocksOf(await link.call(name, input, context));
      } catch (error) {
        if (context.signal.aborted || link.isAlive()) throw error;
        // A server that does not know the session has not run the call.
        if (isRetry || !isUnknownSession(error)) throw disconnected(this.#server, error, link);
      }
    }
  }
}

/** Falls back to any object for a schema that we cannot use; the server validates as well. */
function inputOf(schema: ServerTool["inputSchema"]): StandardSchema<Fields> {
  try {
    return jsonSchema({ ...schema, type: "object" });
  } catch {
    return jsonSchema({ type: "object" });
  }
}

function nameFor(listed: string, taken: Set<string>, prefix: string): string {
  const plain = `${prefix}${listed}`
    .replaceAll(/[^A-Za-z0-9_-]/g, "_")
    .replace(/^(?=[^A-Za-z_])/, "_");
  let name = plain.slice(0, 64);
  for (let n = 2; taken.has(name); n++) name = `${plain.slice(0, 60)}_${n}`;
  taken.add(name);
  return name;
}

/** The blocks for the model; throws the error of a failed call, so that it becomes an error result. */
function blocksOf({ content, structuredContent, isError }: CallToolResult): readonly Block[] {
  const blocks = content.map(blockOf);
  if (blocks.length === 0 && structuredContent !== undefined) {
    blocks.push({ type: "text", text: JSON.stringify(structuredContent) });
  }
  if (!isError) return blocks;
  throw new RivuletError("mcp_tool_error", textOf(blocks) || toolErrors.silentMcpServer);
}

function blockOf(content: ContentBlock): Block {
  switch (content.type) {
    case "text":
      return { type: "text", text: content.text };
    case "image":
    case "audio": {
      const { type, data, mimeType } = content;
      return { type, source: { data, mimeType } };
    }
    case "resource": {
      const { resource } = content;
      if ("text" in resource) return { type: "text", text: resource.text };
      const mimeType = resource.mimeType ?? "application/octet-stream";
      const type = mimeType.startsWith("image/") ? "image" : "file";
      return { type, source: { data: resource.blob, mimeType } };
    }
    default:
      return { type: "text", text: `${content.title ?? content.name}: ${content.uri}` };
  }
}

function disconnected({ name }: McpServer, error: unknown, link: Link): RivuletError {
  const message = `The MCP server ${name} was lost during the call, whose effect is unknown: ${reasonOf(error)}`;
  const hint = link.lastWords();
  return new RivuletError("mcp_disconnected", message, {
    retryable: true,
    cause: error,
    ...(hint !== "" && { hint: `Check the server's last output: ${hint}` }),
  });
}

function closed({ name }: McpServer): RivuletError {
  return new RivuletError("mcp_closed", `The connection to the MCP server ${name} was closed.`, {
    hint: "Connect again with connectMcp().",
  });
}

/** Waits for a promise, or rejects when the signal aborts first. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const over = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { signal: over.signal });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    over.abort();
  }
}
