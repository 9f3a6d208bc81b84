import type { Readable, Writable } from "node:stream";
import type { ServerContext } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { Names, type Services } from "../../server/index.ts";
import type { McpServed } from "./offer.ts";
import type { McpCall } from "./runs.ts";
import { createMcpServer } from "./server.ts";

/** The streams of a client that has started this process. */
export interface McpStreams {
  readonly input: Readable;
  readonly output: Writable;
  /** Ends the connection from this side. */
  readonly signal?: AbortSignal;
}

/** Serves the client behind two streams as the operator of this machine; resolves when the connection has ended. */
export async function serveMcpStreams(
  services: Services,
  offer: McpServed,
  { input, output, signal }: McpStreams,
): Promise<void> {
  const left = new AbortController();
  const end = () => left.abort();
  const callOf = ({ mcpReq }: ServerContext): McpCall => ({
    services,
    caller: { scopes: ["read", "write"] },
    names: new Names(services.store, undefined),
    request: { signal: left.signal },
    signal: AbortSignal.any([mcpReq.signal, left.signal]),
    // A task outlives the connection, and not a request that the client cancels.
    cancels: () => !left.signal.aborted,
    addressOf: (url) => url,
  });
  for (const event of ["end", "close"]) input.once(event, end);
  output.once("error", end); // the client does not read any more
  signal?.addEventListener("abort", end, { once: true });
  const transport = new StdioServerTransport(input, output);
  const create = () => createMcpServer(services.agents.values(), offer, callOf);
  const connection = serveStdio(create, { transport });
  if (!left.signal.aborted)
    await new Promise<void>((resolve) => left.signal.addEventListener("abort", () => resolve()));
  await connection.close();
}
