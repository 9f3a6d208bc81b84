import { onMissing, RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Call, publicError, type Route, statusOf, unknownAgent } from "../../server/index.ts";

const cardPath = "/.well-known/agent-card.json";
const rpcFields = {
  jsonrpc: is.anything,
  id: is.anything,
  method: is.anything,
  params: is.anything,
};
const cardReturned = { status: 200, description: "The agent card." };

/** The methods that change nothing; every other method needs the scope `write`. */
const readingMethods: ReadonlySet<unknown> = new Set([
  ...["GetTask", "ListTasks", "SubscribeToTask", "GetExtendedAgentCard"],
  ...["tasks/get", "tasks/resubscribe", "agent/getAuthenticatedExtendedCard"],
]);

/** The routes of A2A: a card and a JSON-RPC endpoint for each agent. Cards are public, because they say how to log in. */
export const a2aRoutes: readonly Route[] = [
  {
    method: "GET",
    path: cardPath,
    needs: "nothing",
    summary: "A2A: read the card of the first agent.",
    ignoresUnknown: true,
    returns: cardReturned,
    handle: async (call) => {
      const [agent] = call.services.agents.values();
      return showCard(call, agent?.name ?? "");
    },
  },
  {
    method: "GET",
    path: `/a2a/:agent${cardPath}`,
    needs: "nothing",
    summary: "A2A: read the card of an agent.",
    ignoresUnknown: true,
    returns: cardReturned,
    handle: (call) => showCard(call, call.params.agent ?? ""),
  },
  {
    method: "POST",
    path: "/a2a/:agent",
    needs: "read",
    summary:
      "A2A: call a JSON-RPC method of an agent. Methods that change something need the scope `write`.",
    body: rpcFields,
    ignoresUnknown: true,
    errorResponse: rpcError,
    returns: { status: 200, description: "The JSON-RPC response, or a stream of them." },
    handle: answer,
  },
];

const sdkPackage = "@a2a-js/sdk";

/** Loads the handler and with it the package of the protocol. */
export function loadA2a(): Promise<typeof import("./handler.ts")> {
  return import("./handler.ts").catch(
    onMissing("a2a_not_installed", "The adapter a2a requires", sdkPackage),
  );
}

/** The address of an agent's endpoint, as clients reach it. */
function addressOf({ services, request }: Call, name: string): string {
  const { origin, pathname } = new URL(request.url);
  // The app may be mounted below a path.
  const [mount = ""] = pathname.split(/\/(?:a2a|\.well-known)\//, 1);
  const base = services.publicUrl?.replace(/\/+$/, "") ?? `${origin}${mount}`;
  return `${base}/a2a/${encodeURIComponent(name)}`;
}

async function showCard(call: Call, name: string): Promise<Response> {
  const agent = call.services.agents.get(name);
  if (agent === undefined) throw unknownAgent(name, call.services.agents);
  const { cardResponse } = await loadA2a();
  return cardResponse(call, agent, addressOf(call, name));
}

async function answer(call: Call): Promise<Response> {
  const { services, caller, params, body } = call;
  const { agent: name = "" } = params;
  const agent = services.agents.get(name);
  if (agent === undefined) throw unknownAgent(name, services.agents);
  if (!readingMethods.has(body.method) && !caller.scopes.includes("write"))
    throw new RivuletError("forbidden", "The credential lacks the scope write.", {
      hint: "Use a credential with the scope write.",
    });
  const { answerRpc } = await loadA2a();
  return answerRpc(call, agent, addressOf(call, name));
}

/** An error of the request itself, in the form of JSON-RPC. */
function rpcError(error: RivuletError, headers: Record<string, string>): Response {
  const { code, message, hint } = publicError(error);
  const status = statusOf(error);
  const number = code === "invalid_json" ? -32_700 : status >= 500 ? -32_603 : -32_600;
  const text = hint === undefined ? message : `${message} ${hint}`;
  const body = { jsonrpc: "2.0", id: null, error: { code: number, message: text } };
  return Response.json(body, { status, headers });
}
