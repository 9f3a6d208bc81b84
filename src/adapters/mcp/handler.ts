import {
  type AuthInfo,
  createMcpHandler,
  isInitializeRequest,
  type McpHttpHandler,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type { Call, Services } from "../../server/index.ts";
import { Waiting } from "../event-stream.ts";
import { publicAddress } from "../foreign-media.ts";
import type { McpServed } from "./offer.ts";
import type { McpCall } from "./runs.ts";
import { createMcpServer } from "./server.ts";
import { McpSessions } from "./sessions.ts";
import { readingTools } from "./tools.ts";

/** The two generations of the protocol on one address. */
interface Face {
  readonly modern: McpHttpHandler;
  readonly sessions: McpSessions;
}

const faces = new WeakMap<Services, Face>();

function faceOf(services: Services, offer: McpServed): Face {
  const known = faces.get(services);
  if (known) return known;
  const create = () => createMcpServer(services.agents.values(), offer, callOf);
  const modern = createMcpHandler(create, { keepAliveMs: 0 });
  const face = { modern, sessions: new McpSessions(create) };
  faces.set(services, face);
  return face;
}

/** The request behind a handler of the SDK. */
function callOf({ http }: ServerContext): McpCall {
  return http?.authInfo?.extra?.call as McpCall;
}

/** Answers a request of a client of MCP. */
export async function answerMcp(call: Call, offer: McpServed): Promise<Response> {
  const { request, caller, services } = call;
  const isPost = request.method === "POST";
  const body = isPost ? messageOf(call) : undefined;
  checkScope(call, body);
  const headers: Record<string, string> = { ...call.headers };
  const waiting = isPost && !isLong(body) ? undefined : new Waiting({ ...call, headers });
  try {
    const mcpCall: McpCall = {
      ...{ services, caller, names: call.names, request },
      signal: waiting?.signal ?? request.signal,
      addressOf: (url) => publicAddress(baseOf(call), url),
    };
    const authInfo: AuthInfo = {
      token: "",
      clientId: caller.userId ?? "operator",
      scopes: [...caller.scopes],
      extra: { call: mcpCall },
    };
    const response = await dispatch(call, faceOf(services, offer), body, authInfo);
    for (const name of ["allow", "mcp-session-id"])
      if (response.headers.has(name)) headers[name] = response.headers.get(name) ?? "";
    const type = response.headers.get("content-type") ?? "";
    if (!type.startsWith("text/event-stream")) {
      const text = await response.text();
      waiting?.end();
      if (text === "") return new Response(null, { status: response.status, headers });
      return new Response(text, {
        status: response.status,
        headers: { ...headers, "content-type": type },
      });
    }
    const open = waiting ?? new Waiting({ ...call, headers });
    return open.stream(textsOf(response, open.signal));
  } catch (error) {
    waiting?.end();
    throw error;
  }
}

/** The message of a body, without the fields of a route. */
function messageOf({ body }: Call): Readonly<Record<string, unknown>> {
  if (body.jsonrpc === "2.0") return body;
  throw new RivuletError("invalid_request", "The body is not a message of JSON-RPC 2.0.", {
    hint: 'Send an object with `jsonrpc: "2.0"` and a `method`.',
  });
}

async function dispatch(
  call: Call,
  { modern, sessions }: Face,
  body: Readonly<Record<string, unknown>> | undefined,
  authInfo: AuthInfo,
): Promise<Response> {
  const { request } = call;
  const sessionId = request.headers.get("mcp-session-id");
  if (sessionId !== null) {
    const answered = await sessions.answer(call, sessionId, request, body, authInfo);
    if (answered) return answered;
    throw new RivuletError("not_found", "There is no such session.", {
      hint: "Initialize a new one; tasks are not lost with a session.",
    });
  }
  if (isInitializeRequest(body)) return sessions.open(call, request, body, authInfo);
  return modern.fetch(request, body === undefined ? { authInfo } : { authInfo, parsedBody: body });
}

/** Whether a request may take long, so that it counts as a stream. */
function isLong(body: Readonly<Record<string, unknown>> | undefined): boolean {
  return body?.method === "tools/call" || body?.method === "subscriptions/listen";
}

const writingMethods: readonly unknown[] = ["tasks/update", "tasks/cancel"];

/** Throws if a request changes something and the credential may only read. */
function checkScope({ caller }: Call, body: Readonly<Record<string, unknown>> = {}): void {
  const { method, params } = body;
  const tool = isObject(params) ? params.name : undefined;
  const writes =
    method === "tools/call"
      ? typeof tool === "string" && !readingTools.has(tool)
      : writingMethods.includes(method);
  if (!writes || caller.scopes.includes("write")) return;
  throw new RivuletError("forbidden", "The credential lacks the scope write.", {
    hint: "Use a credential with the scope write.",
  });
}

function baseOf({ services, request }: Call): string {
  const { origin, pathname } = new URL(request.url);
  const mount = pathname.slice(0, pathname.lastIndexOf("/mcp"));
  return services.publicUrl?.replace(/\/+$/, "") ?? `${origin}${mount}`;
}

async function* textsOf(response: Response, signal: AbortSignal): AsyncGenerator<string, void> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const stop = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}
