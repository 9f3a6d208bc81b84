import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { Agent } from "../../../src/index.ts";
import { createApp } from "../../../src/server.ts";
import { unlimited } from "../../support/unlimited.ts";

/** The address of a server whose agents are changed by each test. */
export interface Front extends AsyncDisposable {
  readonly url: string;
  /** Replaces the agents. */
  serve(agents: readonly Agent[], token: string): void;
}

/** Listens on a free port of this process. */
export async function openFront(): Promise<Front> {
  let app: ReturnType<typeof createApp> | undefined;
  const server = createAdaptorServer({
    fetch: (request, bindings) =>
      app?.fetch(request, bindings) ?? new Response(null, { status: 503 }),
    overrideGlobalObjects: false,
  }) as Server;
  // A request on a connection that the server closes is repeated after a delay, and the clock of a tree stands still.
  server.keepAliveTimeout = 0;
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    serve(agents, token) {
      const limits = unlimited;
      app = createApp({ agents, token, log: false, limits });
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
