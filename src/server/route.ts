import type { ServerResponse } from "node:http";
import { RivuletError } from "../base/error.ts";
import type { IdSource } from "../base/id.ts";
import { type Field, type Fields, readOptions, type Shape } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import type { Agent, Store } from "../contract/index.ts";
import type { Prices } from "../protocol/index.ts";
import type { Caller, Scope } from "./auth.ts";
import { badRequest } from "./errors.ts";
import type { UserLimits } from "./limits.ts";
import type { Metrics } from "./metrics.ts";
import type { IdKinds, Names } from "./names.ts";
import type { PageSessions } from "./page-sessions.ts";
import type { Streams } from "./streams.ts";
import type { Trees } from "./trees.ts";

/** The objects that all routes share. */
export interface Services {
  /** All routes of the server. */
  readonly routes: readonly Route[];
  /** The address under which clients reach the server; absent: that of the request. */
  readonly publicUrl?: string;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly store: Store;
  readonly streams: Streams;
  readonly trees: Trees;
  readonly ids: IdSource;
  readonly limits: UserLimits;
  readonly metrics: Metrics;
  readonly pages: PageSessions;
  readonly prices: Prices;
  /** Runs work that a response does not wait for. */
  readonly background: (work: Promise<unknown>) => void;
}

/** A checked request. */
export interface Call {
  readonly services: Services;
  readonly caller: Caller;
  /** The ids that the caller chooses. */
  readonly names: Names;
  readonly request: Request;
  /** Node's response, where the server runs on Node. */
  readonly outgoing: ServerResponse | undefined;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: Readonly<Record<string, unknown>>;
  /** Headers that every response carries. */
  readonly headers: Readonly<Record<string, string>>;
  /** Marks the response as a stream, which counts and is logged until it ends; returns the function that ends it. */
  readonly openStream: () => () => void;
}

/** A route: what it needs, what it takes, what it does. */
export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** With `:name` for parameters and `:name{.+}` for the rest, as Hono writes them. */
  readonly path: string;
  /** The scope that the credential must have; `nothing`: the route is public. */
  readonly needs: Scope | "nothing";
  readonly summary: string;
  readonly query?: Shape;
  readonly body?: Shape;
  /** True: other fields of the body and other parameters are ignored, as another protocol demands. */
  readonly ignoresUnknown?: true;
  /** The response for an error, where another protocol has its own form for it. */
  readonly errorResponse?: (error: RivuletError, headers: Record<string, string>) => Response;
  /** The successful response, for the OpenAPI document. */
  readonly returns: {
    readonly status: number;
    readonly type?: string;
    readonly description: string;
  };
  readonly isStream?: true;
  /** The parameters and fields that hold ids, which are replaced by the stored ones before `handle`. */
  readonly ids?: IdKinds;
  readonly handle: (call: Call) => Promise<Response> | Response;
}

/** How deep the JSON of a body may nest. */
const maxDepth = 64;

/** Reads the body of a request as an object of the declared fields. */
export async function readBody(
  request: Request,
  { body: fields = {}, ignoresUnknown }: Pick<Route, "body" | "ignoresUnknown">,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) return check("The body", {}, fields, ignoresUnknown);
  const [type] = (request.headers.get("content-type") ?? "").toLowerCase().split(";", 1);
  // A form of another site can send other types without asking first.
  if (type?.trim() !== "application/json")
    throw badRequest(
      "The body must have the content type application/json.",
      "Send the header `content-type: application/json`.",
      "unsupported_media_type",
    );
  return check("The body", parseJson(bytes), fields, ignoresUnknown);
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () =>
    badRequest(`The body has more than ${maxBytes} bytes.`, "Send less.", "body_too_large");
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  if (request.headers.has("content-encoding"))
    throw badRequest("The body is compressed.", "Send it plain.", "unsupported_media_type");
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
      length += chunk.length;
      if (length > maxBytes) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof RivuletError) throw error;
    throw badRequest("The body ended too early.", "Send the whole body.");
  }
  return Buffer.concat(chunks);
}

function parseJson(bytes: Uint8Array): unknown {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw badRequest("The body is not JSON.", "Send one JSON object in UTF-8.", "invalid_json");
  }
  const problem = findProblem(value);
  if (problem) throw badRequest(`The body ${problem}.`, "Send plain data.", "invalid_json");
  return value;
}

/** Finds what would be dangerous to merge, or would end the stack of a recursion. */
function findProblem(root: unknown): string | undefined {
  const rest: { readonly value: unknown; readonly depth: number }[] = [{ value: root, depth: 0 }];
  for (let entry = rest.pop(); entry !== undefined; entry = rest.pop()) {
    const { value, depth } = entry;
    if (typeof value !== "object" || value === null) continue;
    if (depth >= maxDepth) return `nests deeper than ${maxDepth} levels`;
    for (const key of Object.keys(value)) {
      if (key === "__proto__") return "has the key __proto__";
      rest.push({ value: (value as Record<string, unknown>)[key], depth: depth + 1 });
    }
  }
  return undefined;
}

/** Reads the query of a request: numbers, booleans and lists by what the fields declare. */
export function readQuery(
  url: URL,
  { query: fields = {}, ignoresUnknown }: Pick<Route, "query" | "ignoresUnknown">,
): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const [key, value] of url.searchParams) {
    if (Object.hasOwn(given, key))
      throw badRequest(`The query has \`${key.slice(0, 100)}\` twice.`, "Send it once.");
    const type = Object.hasOwn(fields, key) ? fields[key]?.schema?.type : undefined;
    if (type === "integer") given[key] = /^-?\d{1,15}$/.test(value) ? Number(value) : value;
    else if (type === "boolean") given[key] = value === "true" || (value !== "false" && value);
    else if (type === "array") given[key] = value === "" ? [] : value.split(",");
    else given[key] = value;
  }
  return check("The query", given, fields, ignoresUnknown);
}

/** JSON has null where TypeScript has undefined. */
function check(
  owner: string,
  given: unknown,
  fields: Shape,
  ignoresUnknown = false,
): Record<string, unknown> {
  const isRead = ([name, value]: readonly [string, unknown]) =>
    value !== null && (!ignoresUnknown || Object.hasOwn(fields, name));
  const present = isObject(given)
    ? Object.fromEntries(Object.entries(given).filter(isRead))
    : given;
  try {
    return readOptions(owner, present as object, fields as Fields<object>) as Record<
      string,
      unknown
    >;
  } catch (error) {
    const { message, hint = "" } = error as RivuletError;
    throw badRequest(message, hint);
  }
}

/** The JSON Schema of a field, for the OpenAPI document. */
export function schemaOf({ schema = {}, fields, entry, expected }: Field): Record<string, unknown> {
  if (fields) return objectSchema(fields);
  const inner = entry && Object.keys(schemaOf(entry)).length > 1 ? { items: schemaOf(entry) } : {};
  return { ...schema, ...inner, description: expected };
}

/** The JSON Schema of an object with these fields and, unless `isOpen`, no others. */
export function objectSchema(fields: Shape, isOpen = false): Record<string, unknown> {
  const entries = Object.entries(fields);
  const required = entries.filter(([, field]) => field.isRequired).map(([name]) => name);
  return {
    type: "object",
    properties: Object.fromEntries(entries.map(([name, field]) => [name, schemaOf(field)])),
    ...(required.length > 0 && { required }),
    ...(!isOpen && { additionalProperties: false }),
  };
}
