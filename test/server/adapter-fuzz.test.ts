import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

const png = "data:image/png;base64,iVBORw0KGgo=";
const user = (...parts: object[]) => ({ id: "m1", role: "user", parts });
const words = { type: "text", text: "Hi." };
const asking = {
  id: "task_x",
  role: "assistant",
  parts: [
    { type: "step-start" },
    { type: "dynamic-tool", toolCallId: "c", toolName: "t", state: "output-available", output: 1 },
    { type: "dynamic-tool", toolCallId: "d", approval: { id: "a", approved: true } },
    { type: "data-approval", id: "a", data: { approval_id: "a", decision: "approve" } },
  ],
};
const rpc = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
const a2aMessage = { messageId: "m1", role: "ROLE_USER", parts: [{ text: "Hi." }] };
const locate = { type: "function", name: "locate", parameters: { type: "object" } };

/** Requests that work, or would if what they name existed. */
const valid: Readonly<Record<string, readonly object[]>> = {
  "/api/chat": [
    { id: "c", messages: [user(words)], trigger: "submit-message", agent: "lead" },
    { id: "c", messages: [user(words, { type: "file", url: png, mediaType: "image/png" })] },
    { id: "c", messages: [user(words), asking, user(words)], trigger: "regenerate-message" },
    { id: "c", messages: [user(words), asking] },
  ],
  "/agui/lead": [
    { threadId: "t", runId: "r", messages: [{ id: "m", role: "user", content: "Hi." }], tools: [] },
    {
      ...{ threadId: "t", runId: "r2", tools: [{ name: "f", parameters: { type: "object" } }] },
      messages: [{ role: "user", content: [{ type: "text", text: "Hi." }] }],
    },
    { threadId: "u", runId: "r", messages: [], resume: [{ interruptId: "a", status: "resolved" }] },
  ],
  "/agui/lead/stop": [{ threadId: "t" }],
  "/a2a/lead": [
    rpc("SendMessage", { message: a2aMessage }),
    rpc("GetTask", { id: "task_x" }),
    rpc("CancelTask", { id: "task_x" }),
    rpc("ListTasks", { contextId: "c", pageSize: 5 }),
  ],
  "/openai/v1/responses": [
    { model: "lead", input: "Hi.", instructions: "Be brief.", metadata: { a: "b" }, stream: true },
    { model: "lead", input: [{ role: "user", content: [{ type: "input_text", text: "Hi." }] }] },
    {
      model: "lead",
      input: [{ role: "user", content: [{ type: "input_image", image_url: png }] }],
    },
    {
      model: "lead",
      input: "Hi.",
      conversation: { id: "talk" },
      tools: [locate],
      background: true,
    },
    {
      ...{ model: "lead", previous_response_id: "resp_x" },
      input: [{ type: "function_call_output", call_id: "c", output: "x" }],
    },
    {
      ...{ model: "lead", input: "Hi." },
      text: { format: { type: "json_schema", name: "n", schema: { type: "object" } } },
    },
  ],
};

type Change = { readonly at: number; readonly value: unknown; readonly isRemoved: boolean };

/** A copy in which one place has another value, or none. */
function changed(body: object, { at, value, isRemoved }: Change): object {
  const copy = structuredClone(body);
  const places: [Record<string, unknown>, string][] = [];
  const visit = (node: Record<string, unknown>): void => {
    for (const key of Object.keys(node)) {
      places.push([node, key]);
      if (typeof node[key] === "object" && node[key] !== null) visit(node[key] as never);
    }
  };
  visit(copy as Record<string, unknown>);
  const [node, key] = places[at % places.length] ?? [copy as Record<string, unknown>, "x"];
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

const adapters = ["a2a", "ag-ui", "ai-sdk", "responses"] as const;

/** Expects an error in the form that clients of a protocol read. */
function expectForm(path: string, body: { readonly error: Readonly<Record<string, unknown>> }) {
  expect(body.error.message).toMatch(/./);
  if (path.startsWith("/openai/"))
    expect(body.error).toMatchObject({ type: expect.stringMatching(/_error$/), param: null });
  else if (path.startsWith("/a2a/"))
    expect(body).toMatchObject({ jsonrpc: "2.0", error: { code: expect.any(Number) } });
  else
    expect(body.error).toMatchObject({ code: expect.any(String), retryable: expect.any(Boolean) });
}

/** The status of an answer. JSON-RPC answers what it refuses with 200 and an error. */
function statusIn(path: string, status: number, text: string): number {
  if (!path.startsWith("/a2a/") || status !== 200 || !text.startsWith("{")) return status;
  const { error } = JSON.parse(text) as { readonly error?: { readonly code: number } };
  if (error === undefined) return status;
  return error.code === -32_603 ? 500 : 400;
}

it.each(Object.entries(valid))(
  "a changed request to %s gets an answer or an error of the client, never one of the server",
  async (path, requests) => {
    const { agent } = scripted(() => "Hi.");
    const server = await startServer({ agents: [agent], adapters, log: false, limits: unlimited });
    const counts = new Map<number, number>();
    const property = fc.asyncProperty(
      fc.constantFrom(...requests),
      changes,
      async (request, list) => {
        const body = list.reduce(changed, request);
        const answer = await server.as(tokens.ann).post(path, body);
        const { text } = answer;
        const status = statusIn(path, answer.status, text);
        counts.set(status, (counts.get(status) ?? 0) + 1);
        expect(status, `${JSON.stringify(body)}\n${text}`).toBeLessThan(500);
        if (status >= 400) expectForm(path, JSON.parse(text));
      },
    );
    await fc.assert(property, { seed, numRuns: isDeep ? 5_000 : 300 });
    console.log(path, Object.fromEntries(counts));
    expect(counts.get(200)).toBeGreaterThan(20);
    expect(counts.get(400)).toBeGreaterThan(20);
  },
);

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.string({ maxLength: 200 }).map((text) => new TextEncoder().encode(text)),
  fc
    .constantFrom("[", "{}", "null", '"x"', "[[[[", '{"a":}', "\uFEFF{}")
    .map((text) => new TextEncoder().encode(text)),
);

it.each(Object.keys(valid))(
  "a body of any bytes to %s is an error of the client in the form of the protocol",
  async (path) => {
    const { agent } = scripted(() => "Hi.");
    const server = await startServer({ agents: [agent], adapters, log: false, limits: unlimited });
    const headers = {
      authorization: `Bearer ${tokens.ann}`,
      "content-type": "application/json",
    };
    const post = async (body: Uint8Array) => {
      const response = await fetch(`${server.url}${path}`, {
        ...{ method: "POST", headers, body: body as Uint8Array<ArrayBuffer> },
      });
      const text = await response.text();
      return { status: statusIn(path, response.status, text), body: JSON.parse(text) };
    };
    const property = fc.asyncProperty(bytes, async (sent) => {
      const { status, body } = await post(sent);
      expect(status, new TextDecoder().decode(sent)).toBeGreaterThanOrEqual(400);
      expect(status, new TextDecoder().decode(sent)).toBeLessThan(500);
      expectForm(path, body);
    });
    await fc.assert(property, { seed, numRuns: isDeep ? 5_000 : 60 });
    const large = await post(new Uint8Array(1_100_000).fill(0x20));
    expect(large.status).toBe(413);
    expectForm(path, large.body);
  },
);

const ids = fc.oneof(
  fc.string({ minLength: 1, maxLength: 200 }),
  fc.constantFrom("task_x", "resp_x", "resp_x.9", "resp_../../x", "..", "%00", "a".repeat(3_000)),
);

it("a forged id in an address finds nothing", async () => {
  const { agent } = scripted(() => "Hi.");
  const server = await startServer({ agents: [agent], adapters, log: false, limits: unlimited });
  const ann = server.as(tokens.ann);
  const forged = fc.asyncProperty(ids, async (id) => {
    const name = encodeURIComponent(id.toWellFormed());
    const answers = [
      await ann.get(`/openai/v1/responses/${name}`),
      await ann.get(`/openai/v1/responses/${name}?stream=true&starting_after=3`),
      await ann.post(`/openai/v1/responses/${name}/cancel`),
      await ann.get(`/openai/v1/responses/${name}/input_items`),
      await ann.delete(`/openai/v1/responses/${name}`),
    ];
    for (const { status, text } of answers) {
      expect(status, `${id}\n${text}`).toBeGreaterThanOrEqual(400);
      expect(status, `${id}\n${text}`).toBeLessThan(500);
      expectForm("/openai/v1/responses", JSON.parse(text));
    }
    const chat = await ann.get(`/api/chat/${name}/stream`);
    expect(chat.status, id).toBeLessThan(500);
    expect(chat.text === "" || JSON.parse(chat.text).error.message.length > 0).toBe(true);
    expect((await ann.post(`/agui/${name}`, { threadId: "t" })).status, id).toBeLessThan(500);
  });
  await fc.assert(forged, { seed, numRuns: isDeep ? 5_000 : 40 });
});
