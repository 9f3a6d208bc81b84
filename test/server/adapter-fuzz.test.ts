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

it.each(Object.entries(valid))(
  "a changed request to %s gets an answer or an error of the client, never one of the server",
  async (path, requests) => {
    const { agent } = scripted(() => "Hi.");
    const adapters = ["ag-ui", "ai-sdk", "responses"] as const;
    const server = await startServer({ agents: [agent], adapters, log: false, limits: unlimited });
    const counts = new Map<number, number>();
    const property = fc.asyncProperty(
      fc.constantFrom(...requests),
      changes,
      async (request, list) => {
        const body = list.reduce(changed, request);
        const { status, text } = await server.as(tokens.ann).post(path, body);
        counts.set(status, (counts.get(status) ?? 0) + 1);
        expect(status, `${JSON.stringify(body)}\n${text}`).toBeLessThan(500);
        if (status >= 400) expect(JSON.parse(text).error.message).toMatch(/./);
      },
    );
    await fc.assert(property, { seed, numRuns: isDeep ? 5_000 : 300 });
    console.log(path, Object.fromEntries(counts));
    expect(counts.get(200)).toBeGreaterThan(20);
    expect(counts.get(400)).toBeGreaterThan(50);
  },
);
