import { onMissing, type RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { publicError, type Route, statusOf } from "../../server/index.ts";
import type { McpServed } from "./offer.ts";

const messageFields = {
  jsonrpc: is.anything,
  id: is.anything,
  method: is.anything,
  params: is.anything,
  result: is.anything,
  error: is.anything,
};
const common = { ignoresUnknown: true, errorResponse: rpcError } as const;
const path = "/mcp";

/** The routes of MCP: one address for the protocol of 2026-07-28 and, with sessions, that of 2025-11-25. */
export function mcpRoutes(offer: McpServed = {}): readonly Route[] {
  const handle: Route["handle"] = async (call) => (await loadMcp()).answerMcp(call, offer);
  return [
    {
      ...common,
      method: "POST",
      path,
      needs: "read",
      summary:
        "MCP: send a message of JSON-RPC. Tools that change something need the scope `write`.",
      body: messageFields,
      returns: { status: 200, description: "The JSON-RPC response, or a stream of messages." },
      isStream: true,
      handle,
    },
    {
      ...common,
      method: "GET",
      path,
      needs: "read",
      summary: "MCP: follow the messages of a session (2025-11-25).",
      returns: { status: 200, type: "text/event-stream", description: "A stream of messages." },
      isStream: true,
      handle,
    },
    {
      ...common,
      method: "DELETE",
      path,
      needs: "read",
      summary: "MCP: end a session (2025-11-25); its tasks go on.",
      returns: { status: 200, description: "The session has ended." },
      handle,
    },
  ];
}

/** Loads the handler and with it the package of the protocol. */
export function loadMcp(): Promise<typeof import("./handler.ts")> {
  return import("./handler.ts").catch(throwNotInstalled);
}

/** Loads the server of a client that has started this process. */
export function loadMcpStdio(): Promise<typeof import("./stdio.ts")> {
  return import("./stdio.ts").catch(throwNotInstalled);
}

const throwNotInstalled = onMissing(
  "mcp_not_installed",
  "Serving agents over MCP requires",
  "@modelcontextprotocol/server",
);

const numbers: Readonly<Record<string, number>> = { invalid_json: -32_700, not_found: -32_001 };

/** An error of the request itself, in the form of JSON-RPC. */
function rpcError(error: RivuletError, headers: Record<string, string>): Response {
  const { code, message, hint } = publicError(error);
  const status = statusOf(error);
  const number = numbers[code] ?? (status >= 500 ? -32_603 : -32_600);
  const text = hint === undefined ? message : `${message} ${hint}`;
  const body = { jsonrpc: "2.0", error: { code: number, message: text, data: { code } } };
  return Response.json(body, { status, headers });
}
