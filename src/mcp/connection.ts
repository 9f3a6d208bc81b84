import {
  type ElicitResult,
  isInputRequiredResult,
  type Tool as ServerTool,
} from "@modelcontextprotocol/client";
import { backoffMs, jsonSchema, type ToolContext, tool } from "../agent/index.ts";
import { type Clock, onAbort, systemClock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Block, Tool } from "../contract/index.ts";
import type { McpConnection, McpOptions, McpServer } from "./connect.ts";
import { answered, keyOf, refused, suspendWith, type Waiting, waitingFor } from "./elicitation.ts";
import { type CallStanding, isUnknownSession, type Link, openLink } from "./link.ts";
import {
  blocksOf,
  changesOf,
  inputOf,
  type ListedTool,
  readTools,
  resourceLines,
  safeText,
} from "./untrusted.ts";

type Fields = Readonly<Record<string, unknown>>;

const reconnectDefaults = { maxAttempts: 3, initialBackoffMs: 200, maxBackoffMs: 2_000 };

/** Opens the connection of `connectMcp`. */
export async function openConnection(
  server: McpServer,
  options: McpOptions,
): Promise<McpConnection> {
  const { signal } = options;
  const connection = new ServerConnection(server, options);
  const ignoreAbort = signal && onAbort(signal, () => void connection.close());
  try {
    await connection.open();
  } finally {
    ignoreAbort?.();
  }
  return connection;
}

class ServerConnection implements McpConnection {
  readonly #server: McpServer;
  readonly #options: McpOptions;
  readonly #clock: Clock;
  readonly #listeners = new Set<(tools: readonly Tool[]) => void>();
  readonly #closing = new AbortController();
  #link: Link | undefined;
  #reopening: Promise<Link> | undefined;
  #listed: readonly ListedTool[] | undefined;
  #tools: readonly Tool[] = [];

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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async open(): Promise<Link> {
    const { connectTimeoutMs: timeout = 30_000 } = this.#options;
    const link = await openLink(this.#server, {
      timeout,
      signal: this.#closing.signal,
      onList: (listed, hasResources) => this.#list(listed, hasResources),
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

  #list(sent: readonly ServerTool[], hasResources: boolean): void {
    const { prefix = `${this.#server.name}_`, onWarning = warnProcess } = this.#options;
    const warn = (problem: string) => onWarning(`The MCP server ${this.#server.name}: ${problem}.`);
    const before = this.#listed;
    this.#listed = readTools(this.#server, prefix, sent, before ? () => {} : warn);
    if (JSON.stringify(before) === JSON.stringify(this.#listed)) return;
    const listed = this.#listed.map((one) => this.#createTool(one));
    const names = new Set(listed.map(({ name }) => name));
    const documents = hasResources ? this.#resourceTools(prefix) : [];
    const own = documents.filter(({ name }) => !names.has(name));
    this.#tools = Object.freeze([...listed, ...own]);
    if (before === undefined) return;
    for (const change of changesOf(before, this.#listed)) warn(change);
    for (const listener of this.#listeners) {
      try {
        listener(this.#tools);
      } catch {
        // A listener must not break the connection.
      }
    }
  }

  #createTool(entry: ListedTool): Tool {
    const { name, description, document, ...hints } = entry;
    const { execution = {}, trustReadOnly = false } = this.#options;
    const marks = { idempotent: hints.isIdempotent, readOnly: trustReadOnly && hints.isReadOnly };
    const options = { name, description, input: inputOf(document), execution, ...marks };
    return tool({ ...options, execute: (input, context) => this.#call(entry, input, context) });
  }

  /** Two tools that read the documents of a server; a tool of the server with the same name hides ours. */
  #resourceTools(prefix: string): readonly Tool[] {
    const { execution = {}, trustReadOnly = false } = this.#options;
    const { name } = this.#server;
    const marks = { execution, idempotent: true, readOnly: trustReadOnly };
    const start = prefix.replaceAll(/[^A-Za-z0-9_-]/g, "_");
    return [
      tool({
        ...marks,
        name: `${start}list_resources`,
        description: `Lists the documents of the MCP server ${name}, with their URIs.`,
        execute: async (_, { signal }) => {
          const link = await orAborted(this.#reach(), signal);
          return resourceLines(await this.#reading(link.listResources(signal), signal));
        },
      }),
      tool({
        ...marks,
        name: `${start}read_resource`,
        description: `Reads a document of the MCP server ${name}.`,
        input: jsonSchema<{ uri: string }>({
          type: "object",
          properties: { uri: { type: "string", description: "The URI of the document." } },
          required: ["uri"],
        }),
        execute: async ({ uri }, { signal }) => {
          const link = await orAborted(this.#reach(), signal);
          const contents = await this.#reading(link.readResource(uri, signal), signal);
          const content = contents.map((resource) => ({ type: "resource" as const, resource }));
          return blocksOf(this.#server, { content });
        },
      }),
    ];
  }

  async #reading<T>(reading: Promise<T>, signal: AbortSignal): Promise<T> {
    return reading.catch((error: unknown) => {
      throw signal.aborted ? error : failed(this.#server, error);
    });
  }

  async #call(tool: ListedTool, input: Fields, context: ToolContext): Promise<readonly Block[]> {
    const server = this.#server;
    const given = context.resumed && answered(context.resumed);
    if (given?.problem !== undefined) {
      return suspendWith(server, context, given.waiting, given.problem);
    }
    let waiting = given?.waiting ?? noQuestions;
    if (waiting.asked.length > 0) return suspendWith(server, context, waiting);
    let standing = given?.result && waiting.isRunning && this.#continue(context, given.result);
    if (waiting.isRunning && !standing && !tool.isIdempotent) throw lostQuestion(server);
    // A call that is made again asks the same questions again.
    const known = new Map(standing ? [] : Object.entries(waiting.responses));
    standing ||= this.#start(tool.listed, input, context, waiting);
    for (let round = 0; round < maxRounds; round++) {
      const { question, result } = await standing;
      if (question) {
        const key = keyOf(question);
        const answer = waiting.isRunning && known.get(key);
        known.delete(key);
        standing = answer ? this.#continue(context, answer) : undefined;
        const { responses } = waiting;
        const asked = [{ ...question, key }];
        if (!standing) return suspendWith(server, context, { asked, responses, isRunning: true });
      } else if (isInputRequiredResult(result)) {
        waiting = waitingFor(server, result);
        if (waiting.asked.length > 0) return suspendWith(server, context, waiting);
        standing = this.#start(tool.listed, input, context, waiting);
      } else return blocksOf(server, result);
    }
    throw refused(server, "asks to be called again and again");
  }

  /** Calls a tool, with the answers that the server has asked for before. */
  async #start(
    name: string,
    input: Fields,
    context: ToolContext,
    { isRunning, responses: inputResponses, requestState }: Waiting,
  ): Promise<CallStanding> {
    const state = requestState !== undefined && { requestState };
    const isAgain = !isRunning && (state || Object.keys(inputResponses).length > 0);
    for (let isRetry = false; ; isRetry = true) {
      const link = await orAborted(this.#reach(), context.signal);
      try {
        return await link.call(
          name,
          input,
          context,
          isAgain ? { inputResponses, ...state } : undefined,
        );
      } catch (error) {
        if (context.signal.aborted) throw error;
        if (link.isAlive()) throw failed(this.#server, error);
        // A server that does not know the session has not run the call.
        if (isRetry || !isUnknownSession(error)) throw disconnected(this.#server, error, link);
      }
    }
  }

  /** Answers a call that runs; undefined if it runs no more. */
  #continue(context: ToolContext, answer: ElicitResult): Promise<CallStanding> | undefined {
    const link = this.#link;
    return link?.continue(context, answer)?.catch((error: unknown) => {
      if (context.signal.aborted) throw error;
      throw link.isAlive() ? failed(this.#server, error) : disconnected(this.#server, error, link);
    });
  }
}

/** How often a server may have a call made again without asking a question. */
const maxRounds = 20;
const noQuestions: Waiting = { asked: [], responses: {} };

function lostQuestion({ name }: McpServer): RivuletError {
  const message = `The call that asked this question ended with the connection to the MCP server ${name}, and its effect is unknown.`;
  return new RivuletError("mcp_disconnected", message, {
    hint: "Call the tool again; it asks its question again.",
  });
}

function disconnected(server: McpServer, error: unknown, link: Link): RivuletError {
  const message = `The MCP server ${server.name} was lost during the call, whose effect is unknown: ${safeText(server, error)}`;
  const hint = link.lastWords();
  return new RivuletError("mcp_disconnected", message, {
    retryable: true,
    ...(hint !== "" && { hint: `Check the server's last output: ${hint}` }),
  });
}

function warnProcess(message: string): void {
  process.emitWarning(message, "RivuletWarning");
}

/** Without the cause, which may contain secrets. */
function failed(server: McpServer, error: unknown): unknown {
  if (error instanceof RivuletError) return error;
  return new RivuletError("mcp_tool_error", safeText(server, error));
}

function closed({ name }: McpServer): RivuletError {
  return new RivuletError("mcp_closed", `The connection to the MCP server ${name} was closed.`, {
    hint: "Connect again with connectMcp().",
  });
}

/** Waits for a promise, or rejects when the signal aborts first. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const ignoreAbort = onAbort(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    ignoreAbort();
  }
}
