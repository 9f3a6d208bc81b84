import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Part } from "../../../test/support/part-schema.ts";
import { strictProblem } from "../../../test/support/strict-problem.ts";
import { type JsonSchema, jsonSchema, toJsonSchema } from "../tool/schema.ts";
import { strictSchema, wrappedSchema } from "./output-schema.ts";

describe("strictSchema", () => {
  const point = z.object({ x: z.number(), y: z.int().min(3) });
  const open = { type: "object", properties: {} };
  const text = { type: "string" };
  const withField = (field: unknown) => ({ ...open, properties: { field }, required: ["field"] });

  it.each<[string, z.ZodType]>([
    ["an object", point],
    ["objects in objects and lists", z.object({ all: z.array(z.object({ at: point })) })],
    ["nullable fields", z.object({ a: z.string().nullable(), b: point.nullable() })],
    ["a union", z.object({ either: z.union([point, z.object({ name: z.string() }), z.null()]) })],
    ["choices and formats", z.object({ a: z.enum(["x"]), b: z.literal(1), c: z.iso.date() })],
    ["a recursive schema", Part],
    ["a reference", z.object({ first: Part, rest: z.array(Part) })],
    ["a closed object", z.strictObject({ a: z.string() })],
    ["nothing", z.object({})],
  ])("converts %s", (_, schema) => {
    const made = strictSchema(toJsonSchema(schema));
    expect(made).toBeDefined();
    expect(strictProblem(made)).toBeUndefined();
  });

  it("closes open objects and changes nothing else", () => {
    const either = { anyOf: [withField(text), { type: "null" }], description: "Either." };
    const given = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      ...withField({ type: "array", items: either, maxItems: 3 }),
      $defs: { one: withField({ $ref: "#" }) },
    };
    const closedField = (field: unknown) => ({
      ...withField(field),
      additionalProperties: false,
    });
    expect(strictSchema(given)).toEqual({
      ...closedField({
        type: "array",
        items: { ...either, anyOf: [closedField(text), { type: "null" }] },
        maxItems: 3,
      }),
      $defs: { one: closedField({ $ref: "#" }) },
    });
  });

  it.each<[string, z.ZodType]>([
    ["a list", z.array(point)],
    ["a union at the root", z.union([point, z.object({ name: z.string() })])],
    ["an optional field", z.object({ a: z.string(), b: z.string().optional() })],
    ["a default", z.object({ a: z.string().default("x") })],
    [
      "a nested optional field",
      z.object({ list: z.array(z.object({ a: z.string().optional() })) }),
    ],
    [
      "an optional field in a union",
      z.object({ a: z.union([z.object({ b: z.string().optional() }), point]) }),
    ],
    ["a record", z.object({ a: z.record(z.string(), z.number()) })],
    ["an open object", z.looseObject({ a: z.string() })],
    ["an unknown value", z.object({ a: z.unknown() })],
    ["a tuple", z.object({ a: z.tuple([z.string(), z.number()]) })],
    ["one of several", z.object({ a: z.discriminatedUnion("k", [z.object({ k: z.literal(1) })]) })],
    ["an unknown format", z.object({ a: z.url() })],
    ["a minimum length", z.object({ a: z.string().min(1) })],
  ])("rejects %s", (_, schema) => {
    expect(strictSchema(toJsonSchema(schema))).toBeUndefined();
  });

  it.each<[string, object]>([
    ["any object", { type: "object" }],
    ["any object inside", withField({ type: "object" })],
    ["a required field without a property", { ...open, required: ["a"] }],
    ["a list of anything", withField({ type: "array" })],
    ["a reference with siblings", withField({ $ref: "#", description: "Again." })],
    ["a reference to nowhere", withField({ $ref: "#/$defs/gone" })],
    ["definitions deep inside", withField({ ...open, $defs: { a: text } })],
    [
      "an optional field in a definition",
      { ...open, $defs: { a: { ...withField(text), required: [] } } },
    ],
    ["a pattern that looks around", withField({ ...text, pattern: "^(?!a)" })],
    ["a type that is none", withField({ type: "constructor" })],
    ["all of several", withField({ allOf: [text] })],
    ["an unknown keyword", withField({ ...text, "x-mine": 1 })],
  ])("rejects %s", (_, schema) => {
    expect(strictSchema(schema as Record<string, unknown>)).toBeUndefined();
  });

  it("is strict for any schema, and keeps a strict schema unchanged", () => {
    let sent = 0;
    fc.assert(
      fc.property(schemas, (schema) => {
        const made = strictSchema(schema);
        if (strictProblem(schema) === undefined) expect(made).toEqual(schema);
        if (made === undefined) return;
        sent += 1;
        expect(strictProblem(made)).toBeUndefined();
        expect(strictSchema(made)).toEqual(made);
      }),
      { numRuns: 2000 },
    );
    expect(sent).toBeGreaterThan(100);
    expect(sent).toBeLessThan(1900);
  });

  /** Mostly schemas that strict mode accepts. */
  const { schemas } = fc.letrec<{ schemas: Record<string, unknown>; any: Record<string, unknown> }>(
    (tie) => {
      const seldom = <T>(often: fc.Arbitrary<T>, rare: fc.Arbitrary<T>) =>
        fc.oneof({ weight: 12, arbitrary: often }, { weight: 1, arbitrary: rare });
      const object = fc
        .record({
          fields: fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__"), tie("any"), {
            maxKeys: 3,
            noNullPrototype: true,
          }),
          left: seldom(fc.constant(0), fc.constant(1)),
          more: fc.oneof(
            { weight: 8, arbitrary: fc.constantFrom({}, { additionalProperties: false }) },
            { weight: 1, arbitrary: fc.constantFrom({ additionalProperties: {} }, { allOf: [] }) },
          ),
        })
        .map(({ fields, left, more }) => ({
          type: "object",
          properties: fields,
          required: Object.keys(fields).slice(left),
          ...more,
        }));
      const plain = fc.constantFrom<Record<string, unknown>>(
        { type: "string" },
        { type: ["number", "null"], minimum: 1 },
        { type: "string", enum: ["x", "y"] },
        { type: "boolean", description: "Whether." },
        { $ref: "#" },
        { $ref: "#/$defs/one" },
      );
      const odd = fc.constantFrom<Record<string, unknown>>(
        {},
        { type: "object" },
        { type: "string", minLength: 1 },
        { $ref: "#/$defs/none" },
        { oneOf: [{ type: "string" }] },
      );
      return {
        any: fc.oneof(
          { maxDepth: 3, withCrossShrink: true },
          seldom(plain, odd),
          object,
          tie("any").map((items) => ({ type: "array", items })),
          fc.array(tie("any"), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
        ),
        schemas: fc
          .record({ root: seldom<Record<string, unknown>>(object, tie("any")), one: tie("any") })
          .map(({ root, one }) => ({ ...root, $defs: { one } })),
      };
    },
  );
});

describe("wrappedSchema", () => {
  const node = {
    type: "object",
    properties: { name: { type: "string" }, below: { $ref: "#/$defs/nodes" } },
    required: ["name"],
  };
  const nodes = { type: "array", items: { $ref: "#/$defs/node" } };

  const schemas: readonly (readonly [string, JsonSchema])[] = [
    ["a number", { type: "number" }],
    ["a list of a recursive schema", { ...nodes, $defs: { node, nodes } }],
    [
      "a nullable recursive schema",
      { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }], $defs: { node, nodes } },
    ],
    ["lists of lists", { type: "array", items: { $ref: "#" } }],
    [
      "a list whose entries refer to its first",
      {
        type: "array",
        prefixItems: [
          { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
        ],
        items: { $ref: "#/prefixItems/0" },
      },
    ],
    [
      "old definitions",
      {
        type: "array",
        items: { $ref: "#/definitions/name" },
        definitions: { name: { type: "string" } },
      },
    ],
    [
      "a schema with an $id",
      { $id: "https://example.org/list", type: "array", items: { $ref: "#" } },
    ],
  ];

  /** Valid and invalid values for the schemas above. */
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom<unknown>("a", 1, null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.record(
        { name: fc.constantFrom<unknown>("a", 1), below: tie("value") },
        { requiredKeys: [] },
      ),
    ),
  }));

  it.each(schemas)("accepts exactly what the schema accepts: %s", (_, schema) => {
    const isRight = (one: JsonSchema, given: unknown) =>
      !("issues" in (jsonSchema(one)["~standard"].validate(given) as object));
    const wrapped = wrappedSchema(schema);
    let right = 0;
    fc.assert(
      fc.property(value, (response) => {
        const expected = isRight(schema, response);
        if (expected) right += 1;
        expect(isRight(wrapped, { response })).toBe(expected);
      }),
      { numRuns: 300 },
    );
    expect(right).toBeGreaterThan(0);
    expect(right).toBeLessThan(300);
    expect(isRight(wrapped, {})).toBe(false);
  });

  it("keeps data that looks like a reference", () => {
    const reference = { $ref: "#" };
    const schema = {
      anyOf: [{ const: reference }, { enum: [reference] }, { default: reference }],
      properties: { $ref: { type: "string" }, const: reference, enum: { $ref: "#name" } },
    };
    expect(wrappedSchema(schema)).toEqual({
      type: "object",
      properties: {
        response: {
          ...schema,
          properties: { ...schema.properties, const: { $ref: "#/properties/response" } },
        },
      },
      required: ["response"],
    });
  });
});
