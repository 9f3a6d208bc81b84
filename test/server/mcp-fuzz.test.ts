import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

const version = "2026-07-28";
const _meta = {
  "io.modelcontextprotocol/protocolVersion": version,
  "io.modelcontextprotocol/clientInfo": { name: "fuzz", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {
    elicitation: {},
    extensions: { "io.modelcontextprotocol/tasks": {} },
  },
};
const plain = { ..._meta, "io.modelcontextprotocol/clientCapabilities": {} };
const call = (name: string, given: object, more: object = {}) => ({
  ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
  params: { name, arguments: given, ...more },
});
/** Requests that work, or would if what they name existed. */
const valid: readonly object[] = [
  { jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta } },
  { jsonrpc: "2.0", id: "a", method: "tools/list", params: { _meta } },
  call("lead", { message: "Hi.", session: "s", idempotency_key: "k" }, { _meta: plain }),
  call("lead", { message: "Hi." }, { _meta }),
  call("agent_start", { agent: "lead", message: "Hi." }, { _meta }),
  call("agent_get", { task_id: "task_x" }, { _meta }),
  call("agent_update", { task_id: "task_x", answers: [{ approval_id: "a" }] }, { _meta }),
  call("lead", { message: "Hi." }, { _meta, requestState: "e30.e30", inputResponses: { a: {} } }),
  { jsonrpc: "2.0", id: 1, method: "tasks/get", params: { taskId: "task_x", _meta } },
  {
    ...{ jsonrpc: "2.0", id: 1, method: "tasks/update" },
    params: { taskId: "task_x", inputResponses: { a: { action: "accept" } }, _meta },
  },
  { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri: "skill://x", _meta } },
  {
    ...{ jsonrpc: "2.0", id: 1, method: "initialize" },
    params: {
      ...{ protocolVersion: "2025-11-25", capabilities: {} },
      clientInfo: { name: "fuzz", version: "1" },
    },
  },
  call("lead", { message: "Hi." }),
  { jsonrpc: "2.0", id: 1, method: "ping" },
];

type Change = { readonly at: number; readonly value: unknown; readonly isRemoved: boolean };

/** A copy in which one place has another value, or none. */
function changed(body: object, { at, value, isRemoved }: Change): object {
  const copy = structuredClone(body) as Record<string, unknown>;
  const places: [Record<string, unknown>, string][] = [];
  const visit = (node: Record<string, unknown>): void => {
    for (const key of Object.keys(node)) {
      places.push([node, key]);
      if (typeof node[key] === "object" && node[key] !== null) visit(node[key] as never);
    }
  };
  visit(copy);
  const [node, key] = places[at % places.length] ?? [copy, "x"];
  if (isRemoved) delete node[key];
  else node[key] = value;
  return copy;
}

const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    "__proto__",
    "../../etc/passwd",
    "a".repeat(5_000),
    "\u0000",
    "\ud800",
    -1,
    1e308,
  ),
);
const changes = fc.array(fc.record({ at: fc.nat(60), value, isRemoved: fc.boolean() }), {
  maxLength: 3,
});

it("a changed request gets an answer or an error of the client, never one of the server", async () => {
  const { agent } = scripted(() => "Hi.");
  const server = await startServer({
    ...{ agents: [agent], adapters: ["mcp"], log: false, limits: unlimited },
  });
  const counts = new Map<number, number>();
  const property = fc.asyncProperty(fc.constantFrom(...valid), changes, async (request, list) => {
    const body = list.reduce(changed, request) as { method?: unknown; params?: unknown };
    const params = (body.params ?? {}) as Record<string, unknown>;
    const name = params.name ?? params.taskId ?? params.uri;
    const isModern = JSON.stringify(body).includes(version);
    const isHeader = (text: unknown) =>
      typeof text === "string" && /^[\x20-\x7e]{1,200}$/.test(text);
    const headers = {
      accept: "application/json, text/event-stream",
      ...(isModern && { "mcp-protocol-version": version }),
      ...(isModern && isHeader(body.method) && { "mcp-method": String(body.method) }),
      ...(isModern && isHeader(name) && { "mcp-name": String(name) }),
    };
    const { status, text } = await server.as(tokens.ann).post("/mcp", body, headers);
    counts.set(status, (counts.get(status) ?? 0) + 1);
    const place = `${JSON.stringify(body)}\n${text}`;
    expect(status, place).toBeLessThan(500);
    // The SDK reports parameters of 2025-11-25 that do not fit as internal, with their list of problems.
    expect(text, place).not.toMatch(/"code":-32603,"message":"(?!\[\\n)/);
    if (status >= 400) expect(JSON.parse(text).error.message, place).toMatch(/./);
  });
  await fc.assert(property, { seed, numRuns: isDeep ? 5_000 : 300 });
  console.log("/mcp", Object.fromEntries(counts));
  expect(counts.get(200)).toBeGreaterThan(20);
  expect(counts.get(400)).toBeGreaterThan(20);
});

it.each([
  ["oversized", JSON.stringify({ ...call("lead", { message: "a".repeat(20_000) }) }), 413],
  ["no JSON", "{", 400],
  ["deep", `${"[".repeat(100)}${"]".repeat(100)}`, 400],
  ["an array", "[]", 400],
  ["not JSON-RPC", "{}", 400],
])("a body that is %s is an error in the form of JSON-RPC", async (_, body, expected) => {
  const { agent } = scripted(["Hi."]);
  const limits = { bodyBytes: 10_000 };
  const server = await startServer({ agents: [agent], adapters: ["mcp"], limits });
  const { status, text } = await server.as(tokens.ann).post("/mcp", body);
  expect(status).toBe(expected);
  expect(JSON.parse(text)).toMatchObject({
    jsonrpc: "2.0",
    error: { code: expect.any(Number), message: expect.any(String) },
  });
});
