import {
  type AuthInfo,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Call } from "../../server/index.ts";

interface Session {
  readonly userId: string | undefined;
  readonly mcp: McpServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  usedAt: number;
}

const maxIdleMs = 30 * 60_000;
const maxPerUser = 50;

/**
 * The sessions of clients that speak 2025-11-25, in the memory of this process: the protocol asks the client while a call
 * is open, and its answer comes with another request. A lost session loses no task.
 */
export class McpSessions {
  readonly #create: () => McpServer;
  readonly #sessions = new Map<string, Session>();

  constructor(create: () => McpServer) {
    this.#create = create;
  }

  /** Opens a session with the request that initializes it. */
  async open(call: Call, request: Request, parsedBody: unknown, authInfo: AuthInfo) {
    const { userId } = call.caller;
    const now = this.#now(call);
    await this.#prune(userId, now);
    const mcp = this.#create();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      keepAliveMs: 0,
      onsessioninitialized: (id: string) => {
        this.#sessions.set(id, { userId, mcp, transport, usedAt: now });
      },
      onsessionclosed: (id: string) => {
        this.#sessions.delete(id);
      },
    });
    await mcp.connect(transport);
    return transport.handleRequest(request, { parsedBody, authInfo });
  }

  /** Answers a request of a session; undefined if the caller has no such session. */
  async answer(
    call: Call,
    id: string,
    request: Request,
    parsedBody: unknown,
    authInfo: AuthInfo,
  ): Promise<Response | undefined> {
    const session = this.#sessions.get(id);
    if (session === undefined || session.userId !== call.caller.userId) return undefined;
    session.usedAt = this.#now(call);
    const options = parsedBody === undefined ? { authInfo } : { parsedBody, authInfo };
    return session.transport.handleRequest(request, options);
  }

  #now({ services }: Call): number {
    return services.streams.settings.clock.now();
  }

  async #prune(userId: string | undefined, now: number): Promise<void> {
    const own = [...this.#sessions].filter(([, session]) => session.userId === userId);
    const byUse = own.sort(([, one], [, other]) => one.usedAt - other.usedAt);
    const tooMany = new Set(byUse.slice(0, Math.max(0, own.length + 1 - maxPerUser)));
    for (const entry of [...this.#sessions].filter(
      ([id, { usedAt }]) => now - usedAt > maxIdleMs || [...tooMany].some(([old]) => old === id),
    )) {
      const [id, { mcp }] = entry;
      this.#sessions.delete(id);
      await mcp.close();
    }
  }
}
