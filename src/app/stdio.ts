import { randomBytes } from "node:crypto";
import { loadMcpStdio, type McpStreams } from "../adapters/index.ts";
import { taskRunner } from "../harness/index.ts";
import { type AppOptions, mcpServed, openApp } from "./app.ts";

/** Serves agents over MCP to the client that has started this process, until it leaves. */
export async function serveMcpStdio(
  { agents, store, mcp, limits = {} }: Pick<AppOptions, "agents" | "store" | "mcp" | "limits">,
  streams: McpStreams,
): Promise<void> {
  const { serveMcpStreams } = await loadMcpStdio();
  const token = randomBytes(32).toString("base64url"); // no request ever comes with it
  const options = { agents, limits, token, log: false } as const;
  const opened = openApp(store === undefined ? options : { ...options, store });
  const served = mcpServed(mcp === undefined ? { agents } : { agents, mcp });
  const runner = taskRunner({ agents: opened.agents });
  runner.start();
  try {
    await serveMcpStreams(opened.services, served, streams);
  } finally {
    await Promise.all([opened.close(), runner.shutDown()]);
  }
}
