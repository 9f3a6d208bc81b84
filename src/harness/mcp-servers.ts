import type { Hook } from "../agent/hook.ts";
import { connectMcp, type McpConnection, type McpOptions } from "../agent/tool/mcp.ts";
import type { McpAddress, McpProgram } from "../agent/tool/mcp-link.ts";
import { matchesGlob } from "../agent/tool/permission.ts";
import { reasonOf } from "../agent/tool/result.ts";
import type { ToolSource } from "../agent/tool/toolkit.ts";
import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { ToolsFile } from "./tools-file.ts";

/** An MCP server, and how it is used. Its tools get `<its name>_` before their names, unless `prefix` says otherwise. */
export type McpServerOptions = (Omit<McpProgram, "name"> | Omit<McpAddress, "name">) &
  Pick<McpOptions, "prefix" | "execution" | "connectTimeoutMs">;
/** MCP servers by name. */
export type McpServersByName = Readonly<Record<string, McpServerOptions>>;

/** The MCP servers of an agent as a source of tools. */
export interface McpServers extends ToolSource {
  /** What the model should know of servers that cannot be reached. */
  readonly hook: Hook;
  /** Ends all connections and programs; they are started again when they are needed. */
  close(): Promise<void>;
}

/** What they are made of. */
export interface McpServersOptions {
  readonly servers: McpServersByName;
  /** What `tools.json` says right now; undefined when there is none. */
  readonly readFile: () => Promise<ToolsFile | undefined>;
  /** False: the servers of the file are not used, only its `allow` and `deny`. */
  readonly useFileServers: boolean;
  readonly clock: Clock;
}

interface Server {
  /** Its settings as text, to see whether they have changed. */
  readonly settings: string;
  connecting: Promise<void>;
  connection?: McpConnection;
  problem?: string;
  failedAt: number;
  /** Aborts when it is not wanted any more. */
  readonly end: AbortController;
}

const connectTimeoutMs = 10_000;
const retryMs = 30_000;

/** Connects to the servers when a task first needs them; one that cannot be reached is tried again later. */
export function mcpServers(options: McpServersOptions): McpServers {
  const { clock, readFile, useFileServers } = options;
  const running = new Map<string, Server>();
  let file: ToolsFile | undefined;

  function connect(
    name: string,
    { prefix = `${name}_`, ...rest }: McpServerOptions,
    server: Server,
  ) {
    const { execution, connectTimeoutMs: timeout = connectTimeoutMs, ...place } = rest;
    const { signal } = server.end;
    const limits = { connectTimeoutMs: timeout, signal, ...(execution && { execution }) };
    server.connecting = connectMcp({ name, ...place }, { prefix, clock, ...limits }).then(
      async (connection) => {
        if (signal.aborted) return connection.close();
        delete server.problem;
        server.connection = connection;
      },
      (error: unknown) => {
        server.problem = reasonOf(error);
        server.failedAt = clock.now();
      },
    );
  }

  function start(name: string, wanted: McpServerOptions, settings: string): Promise<void> {
    const server: Server = {
      settings,
      connecting: Promise.resolve(),
      failedAt: 0,
      end: new AbortController(),
    };
    running.set(name, server);
    connect(name, wanted, server);
    return server.connecting;
  }

  async function stop(name: string, server: Server): Promise<void> {
    running.delete(name);
    server.end.abort();
    await server.connecting;
    await server.connection?.close();
  }

  async function refresh(signal: AbortSignal): Promise<void> {
    file = await readFile();
    const wanted = { ...options.servers, ...(useFileServers && unlessInCode(file)) };
    for (const [name, server] of running) {
      if (JSON.stringify(wanted[name]) !== server.settings) void stop(name, server);
    }
    const waited: Promise<void>[] = [];
    for (const [name, one] of Object.entries(wanted)) {
      const server = running.get(name);
      if (!server) {
        waited.push(start(name, one, JSON.stringify(one)));
      } else if (!server.problem) {
        waited.push(server.connecting);
      } else if (clock.now() - server.failedAt > retryMs) {
        // Nobody waits for it a second time: its tools are there when it is.
        server.failedAt = Number.POSITIVE_INFINITY;
        connect(name, one, server);
      }
    }
    await untilAborted(Promise.all(waited), signal);
  }

  function unlessInCode(read: ToolsFile | undefined): McpServersByName {
    const twice = Object.keys(read?.servers ?? {}).filter((name) =>
      Object.hasOwn(options.servers, name),
    );
    if (twice.length === 0) return read?.servers ?? {};
    throw new RivuletError(
      "invalid_tools_file",
      `tools.json: mcpServers.${twice[0]} is there in code as well.`,
      { hint: "Rename it, or leave it out in one of the two." },
    );
  }

  return {
    refresh,
    tools: () => [...running.values()].flatMap(({ connection }) => connection?.tools() ?? []),
    allows(name) {
      if (file?.deny.some((glob) => matchesGlob(glob, name))) return false;
      return file?.allow?.some((glob) => matchesGlob(glob, name)) ?? true;
    },
    hook: {
      name: "mcp-servers",
      preReasoning(_, call) {
        const problems = [...running.values()].flatMap(({ problem }) => problem ?? []);
        if (problems.length === 0) return;
        const notices = problems.map((problem) => `[${problem} (its tools are not on offer)]`);
        call.system = [call.system, ...notices].filter(Boolean).join("\n\n");
      },
    },
    async close() {
      await Promise.all([...running].map(([name, server]) => stop(name, server)));
    },
  };
}

/** The promise, or nothing once the signal aborts. */
async function untilAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const over = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { signal: over.signal });
  });
  await Promise.race([promise, aborted]);
  over.abort();
}
