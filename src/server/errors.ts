import { RivuletError, rivuletErrorOf } from "../base/error.ts";
import { nearest } from "../base/options.ts";

/** The status of each error code that a request can cause; any other code is an error of the server. */
const statuses: Readonly<Record<string, number>> = {
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  unknown_approval: 404,
  method_not_allowed: 405,
  agent_busy: 409,
  already_answered: 409,
  conflict: 409,
  nothing_to_resume: 409,
  other_agent: 409,
  other_model: 409,
  other_output: 409,
  remote_loop: 409,
  session_suspended: 409,
  task_ended: 409,
  cursor_expired: 410,
  body_too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  rate_limited: 429,
  too_many_runs: 429,
  too_many_streams: 429,
  too_many_waiting: 429,
  fenced: 503,
  overloaded: 503,
  shutting_down: 503,
  store_closed: 503,
  store_failed: 503,
  // Codes of checks in lower layers that are about the request.
  cancelled: 409,
  duplicate_input: 400,
  event_too_large: 413,
  model_not_allowed: 400,
  not_a_directory: 400,
  not_a_file: 400,
  not_regular: 400,
  outside_workspace: 404,
  too_large: 413,
};

/** The HTTP status of an error. */
export function statusOf({ code }: RivuletError): number {
  const known = Object.hasOwn(statuses, code) ? statuses[code] : undefined;
  if (known !== undefined) return known;
  if (/_not_installed$/.test(code)) return 501;
  return /^(invalid|unknown|schema)_/.test(code) ? 400 : 500;
}

/** The error as a client sees it; the cause of a server error stays in the log. */
export function publicError(thrown: unknown): RivuletError {
  const error = rivuletErrorOf(thrown);
  if (statusOf(error) !== 500) return error;
  return new RivuletError("internal", "The server failed to answer this request.", {
    retryable: true,
    hint: "Try again later. The log of the server has the cause.",
  });
}

/** The response for an error: `{ error: { code, message, retryable, hint } }`. */
export function errorResponse(thrown: unknown, headers: Record<string, string> = {}): Response {
  const error = publicError(thrown);
  return Response.json({ error }, { status: statusOf(error), headers });
}

/** The error for a request to a server that ends. */
export function shuttingDown(): RivuletError {
  return new RivuletError("shutting_down", "The server is shutting down.", { retryable: true });
}

/** The error for a request that does not fit. */
export function badRequest(message: string, hint: string, code = "invalid_request"): RivuletError {
  return new RivuletError(code, message, { hint });
}

/** The error for an agent that the server does not have. */
export function unknownAgent(name: string, agents: ReadonlyMap<string, unknown>): RivuletError {
  const near = nearest(name, [...agents.keys()]).join(" or ");
  return new RivuletError("not_found", `There is no agent ${JSON.stringify(name.slice(0, 128))}.`, {
    hint: near === "" ? "List the agents with GET /v1/agents." : `Did you mean ${near}?`,
  });
}
