import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "hono";
import type { Clock } from "../base/clock.ts";
import { RivuletError, rivuletErrorOf } from "../base/error.ts";
import {
  type Addresses,
  type Authenticator,
  type Caller,
  checkAddress,
  credentialDigest,
} from "./auth.ts";
import { errorResponse, shuttingDown, statusOf } from "./errors.ts";
import { LimitError, type ServerLimits } from "./limits.ts";
import { Names } from "./names.ts";
import { type Route, readBody, readQuery, type Services } from "./route.ts";

/** One line of the log: a request that was answered. */
export interface RequestLog {
  readonly time: string;
  readonly request_id: string;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  /** The pattern of the route; absent if there is none. */
  readonly route?: string;
  readonly status: number;
  readonly ms: number;
  readonly user_id?: string;
  /** The code of the error that the client got. */
  readonly error?: string;
  /** Why the server failed. */
  readonly cause?: string;
}

/** The objects that the adapter for Node passes to the app; other runtimes do not. */
interface NodeBindings {
  readonly incoming?: IncomingMessage;
  readonly outgoing?: ServerResponse;
}

interface DoorSettings {
  readonly services: Services;
  readonly addresses: Addresses;
  readonly authenticator: Authenticator;
  readonly limits: Required<ServerLimits>;
  readonly clock: Clock;
  readonly log: ((entry: RequestLog) => void) | false;
}

/** A request from its arrival to its line in the log. */
interface Visit {
  readonly startedAt: number;
  readonly id: string;
  caller?: Caller;
  error?: RivuletError;
  /** A stream is open: the line of the log is written when it ends. */
  isStream?: boolean;
  isAnswered?: boolean;
}

/** Checks every request in the same order, then calls its route. */
export class Door {
  isClosing = false;
  readonly #settings: DoorSettings;

  constructor(settings: DoorSettings) {
    this.#settings = settings;
  }

  async answer(context: Context, route: Route | undefined): Promise<Response> {
    const { clock } = this.#settings;
    const visit: Visit = { startedAt: clock.now(), id: crypto.randomUUID() };
    const request = context.req.raw;
    const headers = this.#headers(request, visit);
    let response: Response;
    try {
      response = await this.#handle(context, route, visit, headers);
    } catch (error) {
      visit.error = rivuletErrorOf(error);
      const form = route ?? likeliest(this.#settings.services.routes, context.req.path);
      const respond = form?.errorResponse ?? errorResponse;
      response = respond(visit.error, { ...headers, ...headersOf(visit.error) });
    }
    visit.isAnswered = true;
    if (!visit.isStream) this.#write(context, route, visit, response.status);
    return response;
  }

  async #handle(
    context: Context,
    route: Route | undefined,
    visit: Visit,
    headers: Record<string, string>,
  ): Promise<Response> {
    const { services, addresses, limits } = this.#settings;
    const request = context.req.raw;
    // A load balancer checks the health of each machine by its address.
    const isHealth = route?.path === "/healthz";
    checkAddress(request, isHealth ? { origins: addresses.origins } : addresses);
    if (this.isClosing) throw shuttingDown();
    const { incoming, outgoing } = (context.env ?? {}) as NodeBindings;
    if (route === undefined || route.needs !== "nothing")
      visit.caller = await this.#callerOf(request, incoming?.socket?.remoteAddress ?? "");
    if (route === undefined) throw noRoute(services.routes, context.req.path, request.method);
    const caller = visit.caller ?? { scopes: [] };
    if (route.needs !== "nothing" && !caller.scopes.includes(route.needs))
      throw new RivuletError("forbidden", `The credential lacks the scope ${route.needs}.`, {
        hint: `Use a credential with the scope ${route.needs}.`,
      });
    const names = new Names(services.store, caller.userId);
    const params = context.req.param() as Record<string, string>;
    const query = readQuery(new URL(request.url), route);
    const body = route.method === "GET" ? {} : await readBody(request, route, limits.bodyBytes);
    const { ids = {} } = route;
    return route.handle({
      ...{ services, caller, names, request, headers },
      outgoing: typeof outgoing?.writeHead === "function" ? outgoing : undefined,
      params: await names.replaced(params, ids),
      query: await names.replaced(query, ids),
      body: await names.replaced(body, ids),
      openStream: () => {
        const end = services.limits.stream(caller.userId);
        visit.isStream = true;
        return () => {
          end();
          if (visit.isAnswered && visit.isStream) this.#write(context, route, visit, 200);
          visit.isStream = false;
        };
      },
    });
  }

  /** The caller of a request; throws without a valid credential, and for too many requests. */
  async #callerOf(request: Request, address: string): Promise<Caller> {
    const { limits } = this.#settings.services;
    const credential = credentialDigest(request);
    if (credential !== undefined) limits.checkAddress(address, credential);
    const caller = await this.#settings.authenticator.find(request);
    if (credential !== undefined) limits.judge(address, credential, caller !== undefined);
    if (caller === undefined) throw unauthorized();
    limits.request(caller.userId);
    return caller;
  }

  preflight(context: Context): Response {
    const request = context.req.raw;
    const visit: Visit = { startedAt: this.#settings.clock.now(), id: crypto.randomUUID() };
    try {
      checkAddress(request, this.#settings.addresses);
      return new Response(null, { status: 204, headers: this.#headers(request, visit) });
    } catch (error) {
      return errorResponse(error, this.#headers(request, visit));
    }
  }

  /** The headers of all responses. */
  #headers(request: Request, visit: Visit): Record<string, string> {
    const origin = request.headers.get("origin");
    const common = {
      ...commonHeaders,
      "x-request-id": visit.id,
      "cache-control": "no-store",
      vary: "origin",
    };
    if (origin === null || !this.#settings.addresses.origins.includes(origin)) return common;
    return {
      ...common,
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST, DELETE",
      "access-control-allow-headers":
        "authorization, content-type, if-none-match, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, range",
      "access-control-expose-headers":
        "content-range, etag, location, mcp-session-id, x-request-id",
      "access-control-max-age": "600",
    };
  }

  /** A path without segments that are, or may be, tokens. */
  #loggedPath(path: string, route: Route | undefined): string {
    const isSecret = (segment: string) =>
      secretShape.test(segment) ||
      this.#settings.authenticator.isToken(decoded(segment)) ||
      (route === undefined && segment.length >= 16);
    const segments = path.split("/").map((one) => (isSecret(one) ? "[secret]" : one));
    return segments.join("/").slice(0, 300);
  }

  #write(context: Context, route: Route | undefined, visit: Visit, status: number): void {
    const { log, clock } = this.#settings;
    if (!log) return;
    const { error, caller } = visit;
    const { headers } = context.req.raw;
    const secrets = [headers.get("authorization"), headers.get("cookie")].flatMap(
      (header) => header?.split(/[\s;=]+/).filter(({ length }) => length >= 16) ?? [],
    );
    const clean = (text: string) =>
      secrets.reduce((safe, secret) => safe.replaceAll(secret, "[secret]"), text);
    const isFault = error !== undefined && statusOf(error) >= 500;
    try {
      log({
        time: new Date(clock.now()).toISOString(),
        request_id: visit.id,
        method: context.req.method,
        path: clean(this.#loggedPath(context.req.path, route)),
        ...(route && { route: route.path }),
        status,
        ms: clock.now() - visit.startedAt,
        ...(caller?.userId !== undefined && { user_id: caller.userId }),
        ...(error && { error: error.code }),
        ...(isFault && { cause: clean(String(error.cause ?? error).slice(0, 1_000)) }),
      });
    } catch {
      // A log that fails must not fail the request.
    }
  }
}

/** The headers of all responses: no browser guesses another type than the server says. */
export const commonHeaders = { "x-content-type-options": "nosniff" };

/** A JSON Web Token, or the value of a cookie. */
const secretShape = /^(ey[\w-]+\.[\w-]+\.[\w-]*|[\w-]{16}\.[\w-]{43})$/;

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function headersOf(error: RivuletError): Record<string, string> {
  const status = statusOf(error);
  if (status === 401) return { "www-authenticate": "Bearer" };
  if (error instanceof LimitError) return { "retry-after": `${error.retryAfterSeconds}` };
  return status === 429 || status === 503 ? { "retry-after": "1" } : {};
}

function unauthorized(): RivuletError {
  return new RivuletError("unauthorized", "The request has no valid credential.", {
    hint: "Send the header `authorization: Bearer <token>`.",
  });
}

/** A route of the protocol whose addresses begin like one that has no route: its clients read errors in its form. */
function likeliest(routes: readonly Route[], path: string): Route | undefined {
  return routes.find(
    ({ path: pattern, errorResponse: form }) => form && path.includes(`/${pattern.split("/")[1]}/`),
  );
}

function noRoute(routes: readonly Route[], path: string, method: string): RivuletError {
  const isKnown = routes.some((route) => {
    const pattern = route.path.replace(/:\w+\{\.\+\}/, ".+").replace(/:\w+/g, "[^/]+");
    return new RegExp(`${pattern}$`).test(path);
  });
  if (isKnown)
    return new RivuletError(
      "method_not_allowed",
      `This address does not take ${method.slice(0, 20)}.`,
      {
        hint: "See GET /openapi.json.",
      },
    );
  return new RivuletError("not_found", "There is nothing at this address.", {
    hint: "See GET /openapi.json.",
  });
}
