import { expect, it } from "vitest";
import { ReActAgent } from "../../src/index.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { scriptedModel } from "../../src/testing.ts";
import { startServer, tokens } from "./support/server.ts";

const long = `${"a".repeat(40)}!`;
const many = Array.from({ length: 20_000 }, (_, n) => ({ n, m: { n } }));

/** A server whose agent hands in the value, whatever the schema is. */
async function start(value: unknown) {
  const isObject = typeof value === "object" && !Array.isArray(value);
  const input = isObject ? value : { response: value };
  const model = scriptedModel(() => [{ call: "generate_response", input }]);
  const agent = new ReActAgent({ name: "lead", model, store: memoryStore(), maxIters: 2 });
  const server = await startServer({ agents: [agent] });
  return server.as(tokens.ann);
}

it.each<[string, object, unknown]>([
  ["pattern", { type: "string", pattern: "^(a+)+$" }, long],
  ["patternProperties", { type: "object", patternProperties: { "^(a+)+$": {} } }, { [long]: 1 }],
  ["propertyNames", { type: "object", propertyNames: { pattern: "^(a+)+$" } }, { [long]: 1 }],
  ["items", { type: "array", items: { pattern: "^(a|a)*$" } }, [long]],
  ["uniqueItems", { type: "array", uniqueItems: true }, many],
])("an output schema with a hostile %s does not stop the server", async (_, output, value) => {
  const ann = await start(value);
  const body = { agent: "lead", input: "Go.", output, stream: true };
  const started = await ann.post("/v1/tasks", body);
  expect(started.status).toBe(200);
  expect(started.text).toMatch(/event: task\.(completed|failed|incomplete)/);
  expect((await ann.get("/healthz")).status).toBe(200);
});

it.each([
  { pattern: "(?=a)b" },
  { pattern: "(" },
  { pattern: "(a{99}){99}" },
  { $dynamicRef: "#x" },
  { $ref: "#/$defs/gone" },
  { allOf: Array.from({ length: 10_001 }, () => ({})) },
])("an output schema that cannot be bounded is refused with a hint", async (output) => {
  const ann = await start("x");
  const { status, body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go.", output });
  expect(status).toBe(400);
  expect(body.error).toMatchObject({
    code: "schema_not_convertible",
    hint: "Correct or simplify this part of the schema.",
  });
});
