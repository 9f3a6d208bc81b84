import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { StandardSchema } from "../../contract/agent.ts";
import { readArguments } from "./arguments.ts";
import type { ToolContext } from "./context.ts";
import { jsonSchema } from "./schema.ts";
import { definitionOf, tool } from "./tool.ts";

const definition = (input?: StandardSchema, preset?: Record<string, unknown>) =>
  definitionOf(
    tool({
      name: "look",
      description: "Looks.",
      ...(input && { input }),
      ...(preset && { preset }),
    }),
  );
const open = definition(z.looseObject({}));
const read = (raw: string, using = open) => readArguments(using, { raw });
const nested = (depth: number) => `${'{"a":'.repeat(depth - 1)}{}${"}".repeat(depth - 1)}`;

describe("the arguments of a call", () => {
  it("may be JSON text or a value", async () => {
    expect(await read('{"city":"Paris"}')).toEqual({ ok: true, input: { city: "Paris" } });
    const parsed = await readArguments(open, { input: { city: "Paris" } });
    expect(parsed).toEqual({ ok: true, input: { city: "Paris" } });
  });

  it.each(["", "  \n", "{}", "null"])("may be empty: %j", async (raw) => {
    expect(await read(raw)).toEqual({ ok: true, input: {} });
  });

  it("may be missing", async () => {
    expect(await readArguments(open, {})).toEqual({ ok: true, input: {} });
    expect(await readArguments(open, { input: null })).toEqual({ ok: true, input: {} });
  });

  it.each([
    ["half an object", '{"city":', /not valid JSON/],
    ["a list", "[1]", /not an array/],
    ["a string", '"Paris"', /not a string/],
    ["a number", "3", /not a number/],
    ["__proto__", '{"__proto__":{"polluted":true}}', /"__proto__" is not allowed/],
    ["constructor, inside", '{"a":[{"constructor":{"prototype":{}}}]}', /"constructor"/],
    ["prototype", '{"a":{"prototype":1}}', /"prototype"/],
    ["an escaped key", '{"\\u005f_proto__":1}', /"__proto__"/],
    ["65 levels", nested(65), /deeper than 64/],
    ["10,000 levels", nested(10_000), /deeper than 64/],
    ["100,000 lists", `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, /deeper than 64/],
    ["1 MB", JSON.stringify({ a: "x".repeat(1_000_000) }), /larger than 1,000,000/],
    ["1 MB in few letters", JSON.stringify({ a: "é".repeat(500_000) }), /larger/],
  ])("are rejected when they are %s", async (_, raw, message) => {
    const refused = { ok: false, message: expect.stringMatching(message) };
    expect(await read(raw)).toEqual(refused);
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  });

  it("may be large and nested within the limits", async () => {
    expect(await read(nested(64))).toMatchObject({ ok: true });
    expect(await read(JSON.stringify({ a: "x".repeat(999_000) }))).toMatchObject({ ok: true });
  });

  it("have the same limits as a value", async () => {
    const large = { list: Array.from({ length: 300_000 }, (_, index) => index) };
    const loop: Record<string, unknown> = {};
    loop.self = [loop, loop];
    const trap = {
      get city() {
        throw undefined;
      },
    };
    for (const input of [JSON.parse(nested(65)), large, loop, trap, "text", [1]]) {
      expect(await readArguments(open, { input })).toMatchObject({ ok: false });
    }
  });

  it("are rejected with a short message, however long they are", async () => {
    const keys = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}`, 1]));
    const strict = definition(jsonSchema({ type: "object", additionalProperties: false }));
    const long = { ["x".repeat(100_000)]: 1, ...keys };
    const answer = await readArguments(strict, { input: long });
    expect(answer).toMatchObject({ ok: false, message: expect.stringContaining("and 481 more") });
    expect(JSON.stringify(answer).length).toBeLessThan(3_000);
  });
});

describe("validation", () => {
  const trip = definition(
    z.object({ city: z.string(), stops: z.array(z.object({ days: z.number() })) }),
  );

  it("names the path and the problem for the model", async () => {
    const answer = await read('{"city":5,"stops":[{"days":1},{"days":"two"}]}', trip);
    expect(answer).toEqual({
      ok: false,
      message: `The arguments for look are invalid:
- city: Invalid input: expected string, received number
- stops[1].days: Invalid input: expected number, received string
Correct them and call it again.`,
    });
  });

  it("passes the output of the schema to the tool", async () => {
    const day = definition(z.object({ day: z.iso.date().transform((text) => text.slice(0, 4)) }));
    expect(await read('{"day":"2026-11-16"}', day)).toEqual({ ok: true, input: { day: "2026" } });
  });

  it("awaits an async schema", async () => {
    const slow = definition(z.object({ n: z.number().refine(async (n) => n > 1, "too small") }));
    expect(await read('{"n":2}', slow)).toMatchObject({ ok: true });
    expect(await read('{"n":1}', slow)).toMatchObject({
      message: expect.stringContaining("n: too small"),
    });
  });

  it("rejects the arguments when the schema throws", async () => {
    const validate = () => {
      throw null;
    };
    const convert = () => ({ type: "object" });
    const broken = {
      "~standard": {
        version: 1 as const,
        vendor: "broken",
        validate,
        jsonSchema: { input: convert, output: convert },
      },
    };
    expect(await read("{}", definition(broken))).toMatchObject({ ok: false });
  });
});

describe("null", () => {
  const schemas = [
    ["zod", z.strictObject({ a: z.string(), b: z.string().optional(), c: z.string().nullish() })],
    [
      "JSON Schema",
      jsonSchema({
        type: "object",
        properties: {
          a: { type: "string" },
          b: { type: "string" },
          c: { type: ["string", "null"] },
        },
        required: ["a"],
        additionalProperties: false,
      }),
    ],
  ] as const;

  describe.each(schemas)("with %s", (_, schema) => {
    const using = definition(schema);
    it("omits an optional field", async () => {
      const answer = await read('{"a":"x","b":null,"c":null}', using);
      expect(answer).toEqual({ ok: true, input: { a: "x", c: null } });
    });

    it("is invalid for a required or unknown field", async () => {
      expect(await read('{"a":null}', using)).toMatchObject({ ok: false });
      expect(await read('{"a":"x","z":null}', using)).toMatchObject({ ok: false });
    });
  });

  it("omits a nested optional field, and nothing else", async () => {
    const using = definition(z.object({ list: z.array(z.object({ b: z.string().optional() })) }));
    const input = { list: [{ b: "x" }, { b: null }] };
    const answer = await readArguments(using, { input });
    expect(answer).toEqual({ ok: true, input: { list: [{ b: "x" }, {}] } });
    expect(input.list[1]).toEqual({ b: null });
  });
});

describe("an empty text from the model", () => {
  const using = definition(
    z.object({ a: z.string(), b: z.string().min(1).optional(), c: z.enum(["x"]).default("x") }),
  );

  it("omits an optional field that cannot be empty", async () => {
    const answer = await read('{"a":"","b":"","c":""}', using);
    expect(answer).toEqual({ ok: true, input: { a: "", c: "x" } });
  });

  it("is invalid for a required field", async () => {
    const required = definition(z.object({ b: z.string().min(1) }));
    expect(await read('{"b":""}', required)).toMatchObject({ ok: false });
  });
});

describe("a path of the input", () => {
  const input = z.object({ path: z.string().optional(), more: z.array(z.string()).optional() });
  const normalize = (path: string, { userId = "" }: ToolContext) => {
    if (path.includes("..")) throw new Error(`${path} is outside.`);
    return `${userId}:${path.replace(/\/$/, "")}`;
  };
  const paths = { path: normalize, more: normalize };
  const using = definitionOf(tool({ name: "look", description: "Looks.", input, paths }));
  const readFor = (value: object) =>
    readArguments(using, { input: value }, {}, () => ({ userId: "ann" }) as ToolContext);

  it("is normalized, alone and in an array, with the context of the call", async () => {
    expect(await readFor({ path: "a/", more: ["b", "c/"] })).toEqual({
      ok: true,
      input: { path: "ann:a", more: ["ann:b", "ann:c"] },
    });
    expect(await readFor({})).toEqual({ ok: true, input: {} });
  });

  it("is invalid if it cannot be normalized", async () => {
    const answer = await readFor({ path: "../a" });
    expect(answer).toMatchObject({
      ok: false,
      message: expect.stringContaining("../a is outside"),
    });
  });

  it.each([{ file: normalize }, { path: "a" }])("must name a field and a function: %j", (wrong) => {
    const create = () =>
      tool({ name: "look", description: "Looks.", input, paths: wrong as never });
    expect(create).toThrow(expect.objectContaining({ code: "invalid_tool" }));
  });
});

describe("the merged input", () => {
  const schema = z.object({
    a: z.string().default("default"),
    b: z.string().default("default"),
    c: z.string().default("default"),
    d: z.string().default("default"),
  });

  it("applies defaults, extra input, the model's fields and presets in this order", async () => {
    const extra = { b: "extra", c: "extra", d: "extra" };
    const answer = await readArguments(
      definition(schema, { d: "preset" }),
      { raw: '{"c":"model","d":"model"}' },
      extra,
    );
    const input = { a: "default", b: "extra", c: "model", d: "preset" };
    expect(answer).toEqual({ ok: true, input });
  });

  it("keeps a preset that is not JSON", async () => {
    const connection = new (class Connection {})();
    const input = { connection: { type: "object" } };
    const using = definition(jsonSchema({ type: "object", properties: input }), { connection });
    const answer = await read("{}", using);
    expect((answer as { input: typeof input }).input.connection).toBe(connection);
  });

  it("has only extra input and presets for a tool without a schema", async () => {
    const using = definition(undefined, { b: 2 });
    const answer = await readArguments(using, { input: { b: 3, c: 3 } }, { a: 1 });
    expect(answer).toEqual({ ok: true, input: { a: 1, b: 2 } });
  });
});

it("never throws and never pollutes prototypes, whatever the model sends", async () => {
  const before = Reflect.ownKeys(Object.prototype).length;
  const key = fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "prototype", "a"));
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "medium" },
      fc.string(),
      fc.double(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc
        .array(fc.tuple(key, tie("value")), { maxLength: 3 })
        .map((entries) => Object.fromEntries(entries)),
    ),
  }));
  const strict = definition(z.strictObject({ a: z.string().optional() }));
  await fc.assert(
    fc.asyncProperty(value, fc.boolean(), async (input, asText) => {
      const sent = asText ? { raw: JSON.stringify(input) } : { input };
      for (const using of [open, strict]) {
        const answer = await readArguments(using, sent);
        const hasForbidden = /"(__proto__|constructor|prototype)":/.test(
          JSON.stringify(input) ?? "",
        );
        if (hasForbidden && typeof input === "object") expect(answer.ok).toBe(false);
      }
      expect(Reflect.ownKeys(Object.prototype)).toHaveLength(before);
    }),
  );
});
