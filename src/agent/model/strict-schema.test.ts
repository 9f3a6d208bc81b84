import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Part } from "../../../test/support/part-schema.ts";
import { strictProblem } from "../../../test/support/strict-problem.ts";
import { toJsonSchema } from "../tool/schema.ts";
import { strictSchema } from "./strict-schema.ts";

const point = z.object({ x: z.number(), y: z.int().min(3) });
const open = { type: "object", properties: {} };
const text = { type: "string" };
const withField = (field: unknown) => ({ ...open, properties: { field }, required: ["field"] });

describe("a schema for strict mode", () => {
  it.each<[string, z.ZodType]>([
    ["an object", point],
    ["objects in objects and lists", z.object({ all: z.array(z.object({ at: point })) })],
    ["what may be null", z.object({ a: z.string().nullable(), b: point.nullable() })],
    ["a union", z.object({ either: z.union([point, z.object({ name: z.string() }), z.null()]) })],
    ["choices and formats", z.object({ a: z.enum(["x"]), b: z.literal(1), c: z.iso.date() })],
    ["what names itself", Part],
    ["what names another", z.object({ first: Part, rest: z.array(Part) })],
    ["what is closed already", z.strictObject({ a: z.string() })],
    ["nothing", z.object({})],
  ])("is made of %s", (_, schema) => {
    const made = strictSchema(toJsonSchema(schema));
    expect(made).toBeDefined();
    expect(strictProblem(made)).toBeUndefined();
  });

  it("closes what says nothing, and changes no more", () => {
    const either = { anyOf: [withField(text), { type: "null" }], description: "Either." };
    const given = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      ...withField({ type: "array", items: either, maxItems: 3 }),
      $defs: { one: withField({ $ref: "#" }) },
    };
    const closedField = (field: unknown) => ({ ...withField(field), additionalProperties: false });
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
    ["a field that may be left out", z.object({ a: z.string(), b: z.string().optional() })],
    ["a default", z.object({ a: z.string().default("x") })],
    ["one deep inside", z.object({ list: z.array(z.object({ a: z.string().optional() })) })],
    ["one in a union", z.object({ a: z.union([z.object({ b: z.string().optional() }), point]) })],
    ["a record", z.object({ a: z.record(z.string(), z.number()) })],
    ["an open object", z.looseObject({ a: z.string() })],
    ["anything at all", z.object({ a: z.unknown() })],
    ["a tuple", z.object({ a: z.tuple([z.string(), z.number()]) })],
    ["one of several", z.object({ a: z.discriminatedUnion("k", [z.object({ k: z.literal(1) })]) })],
    ["a format it does not know", z.object({ a: z.url() })],
    ["lengths of text", z.object({ a: z.string().min(1) })],
  ])("cannot be made of %s", (_, schema) => {
    expect(strictSchema(toJsonSchema(schema))).toBeUndefined();
  });

  it.each<[string, object]>([
    ["any object", { type: "object" }],
    ["any object inside", withField({ type: "object" })],
    ["more that is required than there is", { ...open, required: ["a"] }],
    ["a list of anything", withField({ type: "array" })],
    ["a reference with something beside it", withField({ $ref: "#", description: "Again." })],
    ["a reference to nowhere", withField({ $ref: "#/$defs/gone" })],
    ["definitions deep inside", withField({ ...open, $defs: { a: text } })],
    [
      "an optional field in a definition",
      { ...open, $defs: { a: { ...withField(text), required: [] } } },
    ],
    ["a pattern that looks around", withField({ ...text, pattern: "^(?!a)" })],
    ["a type that is none", withField({ type: "constructor" })],
    ["all of several", withField({ allOf: [text] })],
    ["a keyword nobody knows", withField({ ...text, "x-mine": 1 })],
  ])("cannot be made of %s", (_, schema) => {
    expect(strictSchema(schema as Record<string, unknown>)).toBeUndefined();
  });

  it("is strict whatever it was made of, and what is strict stays as it is", () => {
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
});

/** Schemas of all that strict mode has, and seldom of what it has not. */
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
