import { type } from "arktype";
import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod/v3";
import type { StandardSchema } from "../../contract/agent.ts";
import { jsonSchema, toJsonSchema } from "./schema.ts";

const issues = async (schema: StandardSchema, value: unknown) => {
  const result = await schema["~standard"].validate(value);
  return result.issues?.map(({ path, message }) => [path?.join("."), message]);
};

describe("toJsonSchema", () => {
  const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const zod = z.object({ city: z.string() });

  it.each([
    ["zod", zod],
    ["arktype", type({ city: "string" })],
    ["a JSON Schema", jsonSchema(city)],
  ])("converts %s", (_, schema) => {
    expect(toJsonSchema(schema)).toMatchObject(city);
  });

  it("rejects a zod 3 schema and says which version to use", () => {
    const older = z3.object({ city: z3.string() });
    const beforeStandard = { _def: older._def, parse: older.parse };
    for (const schema of [older, beforeStandard]) {
      expect(() => toJsonSchema(schema as unknown as StandardSchema)).toThrow(
        expect.objectContaining({
          code: "schema_not_convertible",
          hint: expect.stringContaining("zod 4"),
        }),
      );
    }
  });

  it("converts a zod schema without the standard converter", () => {
    const { version, vendor, validate } = zod["~standard"];
    const older = Object.create(zod, { "~standard": { value: { version, vendor, validate } } });
    expect(toJsonSchema(older)).toMatchObject(city);
  });

  it("converts valibot with its converter", () => {
    const standard = v.object({ city: v.string() })["~standard"];
    const convert = () => city;
    const wrapped = {
      "~standard": { ...standard, jsonSchema: { input: convert, output: convert } },
    };
    expect(toJsonSchema(wrapped)).toEqual(city);
  });

  it("describes the input, not the output", () => {
    const schema = z.object({ length: z.string().transform((text) => text.length) });
    expect(toJsonSchema(schema)).toMatchObject({ properties: { length: { type: "string" } } });
  });

  it("rejects a schema that it cannot convert, with a hint", () => {
    const refusal = (schema: unknown) => {
      try {
        return toJsonSchema(schema as StandardSchema);
      } catch (error) {
        return error;
      }
    };
    const code = "schema_not_convertible";
    expect(refusal(v.object({}))).toMatchObject({
      code,
      hint: expect.stringMatching(/valibot\/to/),
    });
    expect(refusal(z.object({ a: z.bigint() }))).toMatchObject({ code });
    expect(refusal(city)).toMatchObject({ code, hint: expect.stringMatching(/jsonSchema\(\)/) });
    expect(refusal(undefined)).toMatchObject({ code });
  });
});

describe("jsonSchema", () => {
  const person = jsonSchema({
    type: "object",
    properties: {
      name: { type: "string", minLength: 2 },
      tags: { type: "array", items: { type: "string" } },
      address: { $ref: "#/$defs/address" },
    },
    required: ["name"],
    additionalProperties: false,
    $defs: { address: { type: "object", properties: { "a/b": { type: "number" } } } },
  });

  it("accepts valid values", async () => {
    const value = { name: "Ann", tags: ["x"], address: { "a/b": 1 } };
    expect(await person["~standard"].validate(value)).toEqual({ value });
  });

  it("names every problem and its place once", async () => {
    const wrong = { name: "A", tags: ["x", 1], address: { "a/b": "c" }, age: null };
    expect(await issues(person, wrong)).toEqual([
      ["name", expect.stringContaining("too short")],
      ["tags.1", expect.stringContaining('Expected "string"')],
      ["address.a/b", expect.stringContaining('Expected "number"')],
      ["", '"age" is not allowed.'],
    ]);
    expect(await issues(person, {})).toEqual([["", expect.stringContaining('"name"')]]);
    expect(await issues(person, "text")).toEqual([["", expect.stringContaining("object")]]);
  });

  it("fills in nested defaults and never shares them", async () => {
    const schema = jsonSchema({
      type: "object",
      properties: {
        unit: { type: "string", default: "C" },
        list: { type: "array", default: [] },
        deep: { type: "object", properties: { n: { type: "number", default: 3 } } },
      },
    });
    const validate = async (value: object) => {
      const result = await schema["~standard"].validate(value);
      return (result as { value: { list: unknown[] } }).value;
    };
    const first = await validate({ unit: "F", deep: {} });
    expect(first).toEqual({ unit: "F", list: [], deep: { n: 3 } });
    first.list.push("mine");
    expect(await validate({})).toEqual({ unit: "C", list: [] });
  });

  it("does not change the value", async () => {
    const schema = Object.freeze({ type: "object", properties: Object.freeze({ a: {} }) });
    const value = Object.freeze({ a: 1 });
    await jsonSchema(schema)["~standard"].validate(value);
    expect(Reflect.ownKeys(schema)).toEqual(["type", "properties"]);
  });

  it("follows the draft of the schema", async () => {
    const draft = (version: string) => `http://json-schema.org/${version}/schema#`;
    const below = { maximum: 3, exclusiveMaximum: true };
    const draft4 = jsonSchema({ $schema: draft("draft-04"), ...below });
    expect(await issues(draft4, 2)).toBeUndefined();
    expect(await issues(draft4, 3)).toHaveLength(1);
    const beside = { $ref: "#/definitions/a", minLength: 3, definitions: { a: {} } };
    expect(await issues(jsonSchema(beside), "ab")).toHaveLength(1);
    expect(
      await issues(jsonSchema({ $schema: draft("draft-07"), ...beside }), "ab"),
    ).toBeUndefined();
    const later = { $schema: "https://json-schema.org/draft/2019-09/schema", ...beside };
    expect(await issues(jsonSchema(later), "ab")).toHaveLength(1);
  });

  it("rejects an invalid schema", () => {
    const loop: Record<string, unknown> = {};
    loop.self = loop;
    const twice = { $defs: { a: { $id: "https://a.b/c" }, b: { $id: "https://a.b/c" } } };
    const broken = { properties: { name: { $ref: "#/$defs/gone" } } };
    for (const schema of [loop, { a: 1n }, twice, broken]) {
      expect(() => jsonSchema(schema)).toThrow(
        expect.objectContaining({ code: "schema_not_convertible" }),
      );
    }
  });

  it("never changes a prototype", async () => {
    const properties = JSON.parse('{"__proto__":{"default":{"polluted":true}}}');
    const schema = jsonSchema({ type: "object", properties });
    await schema["~standard"].validate({});
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  });

  it("agrees with zod on simple values", async () => {
    const shape = z.object({
      s: z.string(),
      n: z.number().int().min(0),
      b: z.boolean().optional(),
    });
    const raw = jsonSchema(toJsonSchema(shape));
    const field = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.double({ noNaN: true }));
    await fc.assert(
      fc.asyncProperty(
        fc.record({ s: field, n: field, b: field }, { requiredKeys: [] }),
        async (value) => {
          const result = await raw["~standard"].validate(value);
          expect(result.issues === undefined).toBe(shape.safeParse(value).success);
        },
      ),
    );
  });
});
