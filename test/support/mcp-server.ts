// A real MCP server for tests: `node mcp-server.ts stdio`, or `http PORT`, or `http-2026 PORT` (the stateless revision).

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Server as Listener } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type CallToolResult,
  createMcpHandler,
  type ElicitRequestFormParams,
  type ElicitRequestURLParams,
  type ElicitResult,
  isInputRequiredResult,
  Server,
  type ServerContext,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

type Arguments = Record<string, unknown>;
type ServedTool = Omit<Tool, "name"> & {
  call(input: Arguments, context: ServerContext): CallToolResult | Promise<CallToolResult>;
};

const [mode, port = "0", asks] = process.argv.slice(2);
const anything = { type: "object" } as const;
let cancelled = 0;
let announce = () => {};
let asked = 0;

const tools: Record<string, ServedTool> = {
  echo: {
    description: "Says what it is told.",
    inputSchema: { ...anything, properties: { text: { type: "string" } }, required: ["text"] },
    annotations: { readOnlyHint: true },
    call: ({ text }) => say(String(text)),
  },
  count: {
    description: "Counts with progress, and does not come to an end before it is cancelled.",
    inputSchema: { ...anything, properties: { forever: { type: "boolean" } } },
    call: count,
  },
  cancelled: {
    description: "How many counts were cancelled.",
    inputSchema: anything,
    call: () => say(String(cancelled)),
  },
  session: {
    description: "Which session this is.",
    inputSchema: anything,
    call: (_, { sessionId = "none" }) => say(sessionId),
  },
  pid: { inputSchema: anything, call: () => say(String(process.pid)) },
  fail: {
    description: "Fails.",
    inputSchema: anything,
    call: () => ({ ...say("the disk is full"), isError: true }),
  },
  "odd.name/1": { description: "Has a name.", inputSchema: anything, call: () => say("odd") },
  measure: {
    description: "Answers with data only.",
    inputSchema: anything,
    outputSchema: { ...anything, properties: { metres: { type: "number" } } },
    call: () => ({ content: [], structuredContent: { metres: 3 } }),
  },
  show: {
    description: "Answers with every kind of content.",
    inputSchema: anything,
    call: () => ({
      content: [
        { type: "text", text: "here" },
        { type: "image", data: "aW1hZ2U=", mimeType: "image/png" },
        { type: "audio", data: "c291bmQ=", mimeType: "audio/wav" },
        { type: "resource", resource: { uri: "file:///a.txt", text: "inside" } },
        {
          type: "resource",
          resource: { uri: "file:///a.pdf", blob: "cGRm", mimeType: "application/pdf" },
        },
        {
          type: "resource",
          resource: { uri: "file:///a.png", blob: "cG5n", mimeType: "image/png" },
        },
        { type: "resource_link", uri: "https://example.com/a", name: "a page" },
      ],
    }),
  },
  crash: {
    description: "Ends the server.",
    inputSchema: anything,
    call: () => {
      console.error("about to crash");
      process.kill(process.pid, "SIGKILL");
      return sleep(60_000, say("unreachable"));
    },
  },
  grow: {
    description: "Adds a tool, or takes it away again.",
    inputSchema: anything,
    call: ({ undo }) => {
      if (undo) delete tools.grown;
      else
        tools.grown = {
          description: "Was not there.",
          inputSchema: anything,
          call: () => say("new"),
        };
      announce();
      return say("grown");
    },
  },
};

/** Tools that ask a person, served with the argument `asks`. */
const askingTools: Record<string, ServedTool> = {
  reserve: {
    description: "Reserves a table for as many guests as a person says.",
    inputSchema: { ...anything, properties: { place: { type: "string" } } },
    call: reserve,
  },
  look_up: {
    description: "Looks up a table for as many guests as a person says.",
    inputSchema: { ...anything, properties: { place: { type: "string" } } },
    annotations: { readOnlyHint: true },
    outputSchema: { ...anything, properties: { place: { type: "string" } } },
    call: reserve,
  },
  sign: {
    description: "Asks a person to sign on a page.",
    inputSchema: anything,
    async call(_, context) {
      const { action } = await elicit(context, {
        mode: "url",
        message: "Sign the contract.",
        url: "https://sign.example/7",
        elicitationId: "7",
      });
      return say(action);
    },
  },
  reservations: {
    description: "How many calls have asked.",
    inputSchema: anything,
    call: () => say(String(asked)),
  },
};
if (asks !== undefined) Object.assign(tools, askingTools);

const pageSize = 4;

function makeServer(): Server {
  const capabilities = { tools: { listChanged: true } };
  const server = new Server({ name: "test-server", version: "1.0.0" }, { capabilities });
  server.setRequestHandler("tools/list", (request) => {
    const from = Number(request.params?.cursor ?? 0);
    const page = Object.entries(tools).slice(from, from + pageSize);
    const next = from + pageSize;
    return {
      tools: page.map(([name, { call: _, ...served }]) => ({ name, ...served })),
      ...(next < Object.keys(tools).length && { nextCursor: String(next) }),
    };
  });
  server.setRequestHandler("tools/call", (request, context) => {
    const { name, arguments: input = {} } = request.params;
    const served = tools[name];
    if (served === undefined) throw new Error(`no tool ${name}`);
    const called = (async () => served.call(input, context))();
    return called.catch((error) => {
      if (isInputRequiredResult(error)) return error as never;
      throw error;
    });
  });
  return server;
}

async function count(input: Arguments, { mcpReq }: ServerContext): Promise<CallToolResult> {
  const progressToken = mcpReq._meta?.progressToken;
  const steps = input.forever ? Number.POSITIVE_INFINITY : 3;
  for (let progress = 1; progress <= steps; progress++) {
    if (mcpReq.signal.aborted) {
      cancelled += 1;
      return say("stopped");
    }
    if (progressToken !== undefined) {
      const params = { progressToken, progress, total: 3, message: `step ${progress}` };
      await mcpReq.notify({ method: "notifications/progress", params });
    }
    await sleep(5);
  }
  return say("counted");
}

/** Asks a person, in the way of the revision; throws a result that asks for input in the new one. */
async function elicit(
  { mcpReq }: ServerContext,
  params: ElicitRequestFormParams | ElicitRequestURLParams,
): Promise<ElicitResult> {
  // In the response stream of the call, which elicitInput() does not use.
  if (!mode?.endsWith("2026")) return mcpReq.send({ method: "elicitation/create", params });
  const { answer } = (mcpReq.inputResponses ?? {}) as { readonly answer?: ElicitResult };
  if (answer !== undefined && mcpReq.requestState() === "opaque") return answer;
  const request = { method: "elicitation/create", params } as const;
  const result = { resultType: "input_required", requestState: "opaque" } as const;
  throw { ...result, inputRequests: { answer: request } };
}

async function reserve({ place = "Bern" }: Arguments, context: ServerContext) {
  asked += 1;
  const { action, content } = await elicit(context, {
    mode: "form",
    message: `How many guests in ${place}?`,
    requestedSchema: {
      type: "object",
      properties: {
        guests: { type: "integer", title: "Guests" },
        window: { type: "boolean", default: true },
      },
      required: ["guests"],
    },
  });
  const result = say(action === "accept" ? `${place}: ${JSON.stringify(content)}` : action);
  return { ...result, structuredContent: { place } };
}

function say(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

/** Creates one server per session, as in the older revisions. */
function serveSessions(): (request: Request) => Promise<Response> {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const servers = new Set<Server>();
  announce = () => {
    for (const server of servers) void server.sendToolListChanged();
  };
  return async (request) => {
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : sessions.get(id);
    if (known) return known.handleRequest(request);
    if (id !== null) return new Response("unknown session", { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
    });
    const server = makeServer();
    servers.add(server);
    await server.connect(transport);
    return transport.handleRequest(request);
  };
}

/** Creates one server per request, as in the stateless revision. */
function serveRequests(): (request: Request) => Promise<Response> {
  const handler = createMcpHandler(makeServer, { legacy: "reject" });
  announce = () => handler.notify.toolsChanged();
  return handler.fetch;
}

/** Answers that are still being sent. */
const sending = new Set<ServerResponse>();

function listen(port: number, answer: (request: Request) => Promise<Response>): void {
  createServer(async (incoming, outgoing) => {
    if (incoming.headers["x-token"] !== "secret") return void outgoing.writeHead(401).end();
    const body = incoming.method === "POST" ? await text(incoming) : undefined;
    // A server need not answer a cancelled call: the stream just ends.
    if (body?.includes("notifications/cancelled")) for (const open of sending) open.end();
    const gone = new AbortController();
    outgoing.on("close", () => {
      sending.delete(outgoing);
      gone.abort();
    });
    if (body !== undefined) sending.add(outgoing);
    await send(await answer(requestOf(incoming, body, gone.signal)), outgoing);
  }).listen(port, "127.0.0.1", function (this: Listener) {
    const { port: actual } = this.address() as AddressInfo;
    console.log(`http://127.0.0.1:${actual}/mcp`);
  });
}

function requestOf(
  incoming: IncomingMessage,
  body: string | undefined,
  signal: AbortSignal,
): Request {
  const { method = "GET", url = "/" } = incoming;
  const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  );
  const init = { method, headers, signal, ...(body !== undefined && { body }) };
  return new Request(`http://127.0.0.1${url}`, init);
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (response.body) Readable.fromWeb(response.body as never).pipe(outgoing);
  else outgoing.end();
}

console.error(`test server ${mode}`);
if (mode === "http") listen(Number(port), serveSessions());
else if (mode === "http-2026") listen(Number(port), serveRequests());
else {
  serveStdio(
    () => {
      const server = makeServer();
      announce = () => void server.sendToolListChanged();
      return server;
    },
    { legacy: mode === "stdio-2026" ? "reject" : "serve" },
  );
}
