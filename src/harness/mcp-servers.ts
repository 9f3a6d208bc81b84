import type { ToolSource } from "../agent/index.ts";
import { type Clock, onAbort } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import { matchesGlob } from "../base/glob.ts";
import type { Awaitable } from "../base/time.ts";
import { whenDone } from "../base/time.ts";
import type { Hook, Tool } from "../contract/index.ts";
import {
  connectMcp,
  type McpAddress,
  type McpConnection,
  type McpOptions,
  type McpProgram,
} from "../mcp/index.ts";
import type { FileContent } from "./filesystem/filesystem.ts";
import { steering } from "./filesystem/steering.ts";
import { notes } from "./prompts.ts";

/** An MCP server. Its tools are named `<server>_<tool>` unless `prefix` is set. */
export type McpServerOptions = (Omit<McpProgram, "name"> | Omit<McpAddress, "name">) &
  Pick<McpOptions, "prefix" | "execution" | "connectTimeoutMs" | "trustReadOnly">;
/** MCP servers by name. */
export type McpServersByName = Readonly<Record<string, McpServerOptions>>;

/** The MCP servers of an agent as a source of tools. */
export interface McpServers extends ToolSource {
  /** Names unreachable servers to the model. */
  readonly hook: Hook;
  /** Closes all connections and programs; the next task starts them again. */
  close(): Promise<void>;
}

interface Server {
  /** The options as JSON, to detect changes. */
  readonly settings: string;
  readonly prefix: string;
  connecting: Promise<void>;
  connection?: McpConnection;
  /** When the last attempt failed; undefined while none has. */
  failedAt: number | undefined;
  readonly end: AbortController;
}

const defaultConnectTimeoutMs = 10_000;
const retryMs = 30_000;
const maxWarnings = 1_000;

/**
 * Connects to the servers when a task first needs them, and retries failed ones later. Of `tools.json` it always applies
 * `allow` and `deny`, but ignores its servers if `servers` is false.
 */
export function mcpServers(
  servers: McpServersByName | false,
  readFile: () => Awaitable<ToolsFile | undefined>,
  clock: Clock,
  onWarning: (message: string) => void,
): McpServers {
  const running = new Map<string, Server>();
  const warned = new Set<string>();
  let file: ToolsFile | undefined;
  /** The servers of the code and of `file`; undefined before they are known. */
  let wanted: McpServersByName | undefined;

  function warnOnce(message: string): void {
    if (warned.size < maxWarnings && !warned.has(message)) onWarning(message);
    warned.add(message);
  }

  function connect(name: string, server: Server, wanted: McpServerOptions): Promise<void> {
    const { prefix: _, execution, connectTimeoutMs = defaultConnectTimeoutMs, ...rest } = wanted;
    const { trustReadOnly = false, ...place } = rest;
    const { signal } = server.end;
    const limits = { connectTimeoutMs, trustReadOnly, signal, ...(execution && { execution }) };
    const options = { prefix: server.prefix, clock, onWarning, ...limits };
    server.connecting = connectMcp({ name, ...place }, options).then(
      async (connection) => {
        if (signal.aborted) return connection.close();
        server.failedAt = undefined;
        server.connection = connection;
      },
      (error: RivuletError) => {
        server.failedAt = clock.now();
        const message = error.message.replace(/\.?$/, ".");
        if (!signal.aborted) warnOnce(error.hint ? `${message} ${error.hint}` : message);
      },
    );
    return server.connecting;
  }

  /** A name belongs to the server with the longest matching prefix, so that no server can take a name of another. */
  function owns(name: string, { prefix }: Server): boolean {
    const others = [...running.values()].map((server) => server.prefix);
    return !others.some((other) => other.length > prefix.length && name.startsWith(other));
  }

  function tools(): readonly Tool[] {
    const found = new Map<string, Tool>();
    for (const [serverName, server] of running) {
      for (const tool of server.connection?.tools() ?? []) {
        const { name } = tool;
        if (owns(name, server) && !found.has(name)) found.set(name, tool);
        else {
          warnOnce(
            `The tool ${name} of the MCP server ${serverName} is left out, because another server has that name. Give the server another \`prefix\`.`,
          );
        }
      }
    }
    return [...found.values()];
  }

  async function stop(name: string, server: Server): Promise<void> {
    running.delete(name);
    server.end.abort();
    await server.connecting;
    await server.connection?.close();
  }

  function refresh(signal: AbortSignal): Awaitable<void> {
    return whenDone(readFile(), (read) => {
      if (file !== read) wanted = undefined;
      file = read;
      wanted ??= servers ? { ...servers, ...serversIn(file, servers) } : {};
      const pending = update(wanted, signal);
      return pending.length > 0 ? untilAborted(Promise.all(pending), signal) : undefined;
    });
  }

  /** Stops servers that are not wanted and starts those that do not run. Returns the connections to wait for. */
  function update(wanted: McpServersByName, signal: AbortSignal): readonly Promise<void>[] {
    for (const [name, server] of running) {
      if (JSON.stringify(wanted[name]) !== server.settings) void stop(name, server);
    }
    const pending: Promise<void>[] = [];
    for (const [name, serverOptions] of Object.entries(wanted)) {
      const server = running.get(name);
      if (!server) {
        const settings = JSON.stringify(serverOptions);
        const prefix = (serverOptions.prefix ?? `${name}_`).replaceAll(/[^A-Za-z0-9_-]/g, "_");
        const created: Server = {
          ...{ settings, prefix, end: new AbortController() },
          ...{ connecting: Promise.resolve(), failedAt: undefined },
        };
        running.set(name, created);
        pending.push(connect(name, created, serverOptions));
      } else if (server.failedAt === undefined) {
        pending.push(server.connecting.then(() => server.connection?.refresh(signal)));
      } else if (clock.now() - server.failedAt > retryMs) {
        // A retry does not delay the task: the tools appear when the server is connected.
        server.failedAt = Number.POSITIVE_INFINITY;
        void connect(name, server, serverOptions);
      }
    }
    return pending;
  }

  return {
    refresh,
    tools,
    get allows() {
      const { allow, deny = [] } = file ?? {};
      if (!allow && deny.length === 0) return undefined;
      const isIn = (globs: readonly string[], name: string) =>
        globs.some((glob) => matchesGlob(glob, name));
      return (name: string) => !isIn(deny, name) && (!allow || isIn(allow, name));
    },
    hook: {
      name: "mcp-servers",
      preReasoning(_, call) {
        // The name only: the text of an error comes from the server, and the system prompt is trusted.
        if (running.size === 0) return;
        const missing = [...running].filter(([, { failedAt }]) => failedAt !== undefined);
        if (missing.length === 0) return;
        const sections = [call.systemPrompt, ...missing.map(([name]) => notes.unreachable(name))];
        call.systemPrompt = sections.filter(Boolean).join("\n\n");
      },
    },
    async close() {
      await Promise.all([...running].map(([name, server]) => stop(name, server)));
    },
  };
}

function serversIn(file: ToolsFile | undefined, inCode: McpServersByName): McpServersByName {
  const { servers = {} } = file ?? {};
  const duplicate = Object.keys(servers).find((name) => Object.hasOwn(inCode, name));
  if (duplicate === undefined) return servers;
  const problem = `mcpServers.${duplicate} is also defined in code`;
  throw invalidFile(problem, "Rename or remove one of the two.");
}

async function untilAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  const ignoreAbort = onAbort(signal, aborted.resolve);
  await Promise.race([promise, aborted.promise]);
  ignoreAbort();
}

/** The file of a workspace that adds MCP servers and restricts tools. */
export const toolsFileName: string = steering.toolsFile;

/** Options for `tools.json`. */
export interface ToolsFileOptions {
  /** Values of `${NAME}` in `env` and `headers`; the file has no other access to secrets. */
  readonly variables?: Readonly<Record<string, string | undefined>>;
}

/** The content of `tools.json`. */
export interface ToolsFile {
  readonly servers: McpServersByName;
  /** Globs of tool names; absent: all tools are allowed. */
  readonly allow?: readonly string[];
  readonly deny: readonly string[];
}

function toolsFileSchema({ z }: typeof import("zod")) {
  const texts = z.record(z.string(), z.string());
  const pattern = z.string().min(1);
  const prefix = z.string().optional();
  const program = z.strictObject({
    command: z.string().min(1),
    args: z.array(z.string()).optional(),
    env: texts.optional(),
    prefix,
  });
  const address = z.strictObject({ url: z.url(), headers: texts.optional(), prefix });
  const server = z.looseObject({}).transform((value, context) => {
    const parsed = ("url" in value ? address : program).safeParse(value);
    if (parsed.success) return parsed.data;
    for (const issue of parsed.error.issues) context.addIssue({ ...issue } as never);
    return z.NEVER;
  });
  return z.strictObject({
    mcpServers: z.record(z.string(), server).default({}),
    allow: z.array(pattern).optional(),
    deny: z.array(pattern).default([]),
  });
}

/** Parses `tools.json`; throws `invalid_tools_file` with the place of the problem. */
export async function readToolsFile(
  { data }: FileContent,
  options: ToolsFileOptions,
): Promise<ToolsFile> {
  const file = parseJson(new TextDecoder().decode(data));
  const parsed = toolsFileSchema(await import("zod")).safeParse(file);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      ({ path, message }) => `${path.join(".") || "the file"}: ${message}`,
    );
    throw invalidFile(problems.join("; "));
  }
  const { mcpServers, allow, deny } = parsed.data;
  const servers = Object.entries(mcpServers).map(([name, entry]) => {
    const [field, values] = "url" in entry ? ["headers", entry.headers] : ["env", entry.env];
    const where = `mcpServers.${name}.${field}`;
    return [name, { ...entry, ...(values && { [field]: fillVariables(values, where, options) }) }];
  });
  return { servers: Object.fromEntries(servers), deny, ...(allow && { allow }) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalidFile((error as Error).message);
  }
}

/** Throws for an unknown variable: a server must not receive its name instead of its value. */
function fillVariables(
  values: Readonly<Record<string, string>>,
  where: string,
  { variables = {} }: ToolsFileOptions,
): Readonly<Record<string, string>> {
  const entries = Object.entries(values).map(([key, text]) => [
    key,
    text.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
      const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
      if (value !== undefined) return value;
      const hint = `Pass it to the agent: toolsFile: { variables: { ${name}: … } }.`;
      throw invalidFile(`${where}.${key}: there is no variable ${name}`, hint);
    }),
  ]);
  return Object.fromEntries(entries);
}

const shape = '{ "mcpServers": { … }, "allow": [ … ], "deny": [ … ] }';

function invalidFile(problem: string, hint = `Use this form, all fields optional: ${shape}.`) {
  return new RivuletError("invalid_tools_file", `${toolsFileName}: ${problem}.`, { hint });
}
