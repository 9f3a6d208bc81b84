import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { memoryStore, ReActAgent, type StandardSchema } from "../../src/index.ts";
import { Part } from "../support/part-schema.ts";
import type { ProviderReply, ProviderRequest } from "../support/provider-server.ts";
import { startProvider } from "../support/provider-server.ts";
import { strictProblem } from "../support/strict-problem.ts";

interface Format {
  readonly type: string;
  readonly schema: unknown;
  readonly strict?: boolean;
}

/** Answers in the way that the request asks for, and refuses schemas as OpenAI does. */
function provider(answer: unknown) {
  return ({ body }: ProviderRequest): ProviderReply => {
    const { format } = (body.text ?? {}) as { format?: Format };
    const said = JSON.stringify(answer);
    if (format?.type === "json_schema") {
      const problem = format.strict === false ? undefined : strictProblem(format.schema);
      if (problem === undefined) return { text: [said] };
      const message = `Invalid schema for response_format 'response': ${problem}.`;
      const error = { message, type: "invalid_request_error", param: "text.format.schema" };
      return { status: 400, body: { error: { ...error, code: "invalid_json_schema" } } };
    }
    const [tool] = body.tools as { name: string; parameters: { properties?: object } }[];
    if (tool?.name !== "generate_response") throw new Error("no way to answer");
    const { properties = {} } = tool.parameters;
    const isWrapped = Object.keys(properties).join() === "response";
    const input = [isWrapped ? JSON.stringify({ response: answer }) : said];
    return { calls: [{ id: "call_1", name: tool.name, input }] };
  };
}

const city = z.object({ name: z.string(), people: z.int() });
const rome = { name: "Rome", people: 2_800_000 };
const tree = { name: "a", parts: [{ name: "b", parts: [] }] };

describe("structured output with OpenAI's strict schemas", () => {
  const started = startProvider({ kind: "openai", script: [] });
  afterAll(async () => (await started).close());

  it.each<[string, "native" | "tool", StandardSchema, unknown]>([
    ["an object", "native", city, rome],
    ["objects in objects", "native", z.object({ city }), { city: rome }],
    ["a field that may be null", "native", z.object({ a: city.nullable() }), { a: null }],
    ["a list in an object", "native", z.object({ all: z.array(city) }), { all: [rome] }],
    ["a union in an object", "native", z.object({ a: z.union([city, z.string()]) }), { a: rome }],
    ["what names itself", "native", Part, tree],
    ["an optional field", "tool", city.partial(), { name: "Rome" }],
    ["one deep inside", "tool", z.object({ all: z.array(city.partial()) }), { all: [{}] }],
    ["a list", "tool", z.array(city), [rome]],
    ["a union", "tool", z.union([city, z.object({ river: z.string() })]), { river: "Tiber" }],
    ["a record", "tool", z.record(z.string(), z.number()), { a: 1 }],
    [
      "a record in an object",
      "tool",
      z.object({ a: z.record(z.string(), city) }),
      { a: { b: rome } },
    ],
    ["a number", "tool", z.number(), 7],
  ])("comes for %s, by the way that takes it: %s", async (_, way, output, answer) => {
    const server = await started;
    server.restart({ script: provider(answer) });
    const agent = new ReActAgent({ name: "lead", model: server.model(), store: memoryStore() });
    const reply = await agent.call("Which?", { output });
    expect(reply.structured).toEqual(answer);
    const [{ body } = { body: {} }] = server.requests;
    expect(server.requests).toHaveLength(1);
    expect(body).toHaveProperty(way === "native" ? "text.format.schema" : "tools");
  });
});
