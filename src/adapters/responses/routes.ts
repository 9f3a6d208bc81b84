import type { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { publicError, type Route, statusOf } from "../../server/index.ts";

const base = "/openai/v1";
const response = { status: 200, description: "The response resource, or a stream of its events." };
const handler = () => import("./handler.ts");
const common = { ignoresUnknown: true, errorResponse } as const;
const anyOf = (expected: string, fits: is.Field["fits"]): is.Field => ({ expected, fits });
const inputField = anyOf(
  "a text or an array of items",
  (value) => typeof value === "string" || Array.isArray(value),
);
const conversationField = anyOf(
  "the id of a conversation, or an object with it",
  (value) => is.name.fits(value) || is.record.fits(value),
);

/** The routes of the Responses API: a client of OpenAI with `baseURL: "…/openai/v1"`. A model is an agent. */
export const responsesRoutes: readonly Route[] = [
  {
    ...common,
    method: "GET",
    path: `${base}/models`,
    needs: "read",
    summary: "OpenAI: list the agents as models.",
    returns: { status: 200, description: '`{ object: "list", data }`' },
    handle: async (call) => (await handler()).listModels(call),
  },
  {
    ...common,
    method: "POST",
    path: `${base}/responses`,
    needs: "write",
    summary: "OpenAI: create a response.",
    body: {
      model: is.required(is.name, '"assistant"'),
      input: inputField,
      instructions: is.text,
      previous_response_id: is.name,
      conversation: conversationField,
      stream: is.flag,
      background: is.flag,
      tools: is.listOf(is.record),
      text: is.record,
      metadata: is.recordOf(is.text),
    },
    returns: response,
    isStream: true,
    handle: async (call) => (await handler()).createResponse(call),
  },
  {
    ...common,
    method: "GET",
    path: `${base}/responses/:id`,
    needs: "read",
    summary: "OpenAI: read a response, or follow its events after a number.",
    query: { stream: is.flag, starting_after: is.integer(-1, Number.MAX_SAFE_INTEGER) },
    returns: response,
    isStream: true,
    handle: async (call) => (await handler()).retrieveResponse(call),
  },
  {
    ...common,
    method: "POST",
    path: `${base}/responses/:id/cancel`,
    needs: "write",
    summary: "OpenAI: cancel a response.",
    body: {},
    returns: response,
    handle: async (call) => (await handler()).cancelResponse(call),
  },
  {
    ...common,
    method: "GET",
    path: `${base}/responses/:id/input_items`,
    needs: "read",
    summary: "OpenAI: list the input of a response.",
    returns: { status: 200, description: '`{ object: "list", data }`' },
    handle: async (call) => (await handler()).listInput(call),
  },
  {
    ...common,
    method: "DELETE",
    path: `${base}/responses/:id`,
    needs: "write",
    summary: "OpenAI: delete a response that is alone in its conversation.",
    returns: { status: 200, description: "`{ id, object, deleted }`" },
    handle: async (call) => (await handler()).deleteResponse(call),
  },
];

/** The error types of OpenAI, by the first digits of the status. */
function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** An error in the form of OpenAI. */
function errorResponse(error: RivuletError, headers: Record<string, string>): Response {
  const { code, message, hint } = publicError(error);
  const status = statusOf(error);
  const text = hint === undefined ? message : `${message} ${hint}`;
  const body = { error: { message: text, type: typeOf(status), param: null, code } };
  return Response.json(body, { status, headers });
}
