import { Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileJsonSchema } from "./compile.ts";

type Json = Readonly<Record<string, unknown>>;
const isValid = (schema: Json, value: unknown) => compileJsonSchema(schema)(value).length === 0;

const name = fc.constantFrom("a", "b", "c");
const leaf = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.constantFrom(0, 1, 2, 2.5, -1, 1e21),
  fc.constantFrom("", "a", "ab", "bb", "😀"),
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(name, tie("value"), { maxKeys: 3 }),
  ),
}));
const size = fc.nat(3);
const { schema } = fc.letrec<{ schema: Json | boolean }>((tie) => {
  const inner = tie("schema");
  const list = fc.array(inner, { minLength: 1, maxLength: 3 });
  const map = fc.dictionary(name, inner, { maxKeys: 3 });
  const keywords: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    type: fc.constantFrom("object", "array", "string", "number", "integer", ["string", "null"]),
    enum: fc.array(value, { minLength: 1, maxLength: 3 }),
    const: value,
    minimum: size,
    maximum: size,
    exclusiveMinimum: size,
    exclusiveMaximum: size,
    multipleOf: fc.constantFrom(1, 2, 0.5),
    minLength: size,
    maxLength: size,
    pattern: fc.constantFrom("^a", "b$", "^(a|b)*$", "."),
    minItems: size,
    maxItems: size,
    uniqueItems: fc.boolean(),
    items: inner,
    prefixItems: list,
    contains: inner,
    minContains: size,
    maxContains: size,
    properties: map,
    patternProperties: fc.dictionary(fc.constantFrom("^a", "[bc]"), inner, { maxKeys: 2 }),
    additionalProperties: inner,
    propertyNames: inner,
    required: fc.uniqueArray(name, { maxLength: 2 }),
    minProperties: size,
    maxProperties: size,
    dependentRequired: fc.dictionary(name, fc.uniqueArray(name), { maxKeys: 2 }),
    dependentSchemas: map,
    allOf: list,
    anyOf: list,
    oneOf: list,
    not: inner,
    if: inner,
    // biome-ignore lint/suspicious/noThenProperty: the name of a keyword
    then: inner,
    else: inner,
    $ref: fc.constantFrom("#/$defs/x", "#/$defs/y"),
    unevaluatedProperties: inner,
    unevaluatedItems: inner,
  };
  const object = fc
    .uniqueArray(fc.constantFrom(...Object.keys(keywords)), { maxLength: 3 })
    .chain((names) =>
      fc.record(
        Object.fromEntries(names.map((key) => [key, keywords[key] as fc.Arbitrary<unknown>])),
      ),
    );
  return {
    schema: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      fc.boolean(),
      fc.record({ type: keywords.type as fc.Arbitrary<unknown> }),
      object as fc.Arbitrary<Json>,
    ),
  };
});

/** Without references, which the two definitions could otherwise make endless. */
const definition = schema.filter((one) => !JSON.stringify(one).includes("$ref"));

describe("a compiled JSON Schema", () => {
  it("agrees with another validator on generated schemas and values", () => {
    fc.assert(
      fc.property(schema, definition, definition, value, (schema, x, y, value) => {
        const document = { allOf: [schema], $defs: { x, y } };
        const oracle = new Validator(structuredClone(document) as never, "2020-12", false);
        expect(isValid(document, value)).toBe(oracle.validate(value).valid);
      }),
      { numRuns: 5_000 },
    );
  });

  it.each<[Json, unknown]>([
    [{ pattern: "^(a+)+$" }, `${"a".repeat(50)}b`],
    [{ patternProperties: { "^(a+)+$": {} } }, { [`${"a".repeat(50)}b`]: 1 }],
    [{ propertyNames: { pattern: "^(a+)+$" } }, { [`${"a".repeat(50)}b`]: 1 }],
    [{ items: { pattern: "^(a|a)*$" } }, [`${"a".repeat(50)}b`]],
    [{ uniqueItems: true }, Array.from({ length: 20_000 }, (_, n) => ({ n, m: { n } }))],
    [
      // Each level refers twice to the next one.
      {
        $ref: "#/$defs/n0",
        $defs: Object.fromEntries(
          Array.from({ length: 60 }, (_, n) => [
            `n${n}`,
            n === 59
              ? { type: "string" }
              : { anyOf: [{ $ref: `#/$defs/n${n + 1}` }, { not: { $ref: `#/$defs/n${n + 1}` } }] },
          ]),
        ),
      },
      7,
    ],
    [
      {
        $ref: "#/$defs/tree",
        $defs: {
          tree: {
            anyOf: [
              { properties: { a: { $ref: "#/$defs/tree" } }, required: ["z"] },
              { properties: { a: { $ref: "#/$defs/tree" } } },
            ],
          },
        },
      },
      JSON.parse(`${'{"a":'.repeat(60)}1${"}".repeat(60)}`),
    ],
    [{ $ref: "#" }, 1],
  ])("checks in bounded time: %j", (schema, value) => {
    expect(Array.isArray(compileJsonSchema(schema)(value))).toBe(true);
  });

  it("gives up on a value that takes too many steps", () => {
    const schema = { items: { anyOf: Array.from({ length: 100 }, (_, n) => ({ const: n })) } };
    const value = Array.from({ length: 50_000 }, () => "x");
    expect(compileJsonSchema(schema)(value)).toEqual([
      { message: "The value is too large to be checked.", path: [] },
    ]);
  });

  it.each<[Json, string]>([
    [{ pattern: "(?=a)b" }, "look-around"],
    [{ pattern: "(" }, "Invalid regular expression"],
    [{ $dynamicRef: "#x" }, "$dynamicRef"],
    [{ $ref: "#/$defs/missing" }, "leads nowhere"],
    [{ $ref: "https://example.com/other.json" }, "leads nowhere"],
    [{ properties: { a: 1 } }, "a schema must be an object"],
    [{ allOf: Array.from({ length: 10_001 }, () => ({})) }, "more than 10000 parts"],
    [JSON.parse(`${'{"not":'.repeat(300)}{}${"}".repeat(300)}`), "nested too deeply"],
  ])("refuses %j", (schema, reason) => {
    expect(() => compileJsonSchema(schema)).toThrow(reason);
  });

  it.each<[string, Json, unknown, boolean]>([
    [
      "an id",
      { $ref: "item", $id: "https://a.b/c", $defs: { i: { $id: "item", type: "null" } } },
      1,
      false,
    ],
    ["an anchor", { $ref: "#i", $defs: { i: { $anchor: "i", type: "null" } } }, null, true],
    ["an escaped pointer", { $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "null" } } }, 1, false],
    ["itself", { properties: { next: { $ref: "#" } }, required: ["v"] }, { v: 1, next: {} }, false],
  ])("follows a reference to %s", (_, schema, value, expected) => {
    expect(isValid(schema, value)).toBe(expected);
  });

  it("ignores keywords that it does not know, whatever their names", () => {
    const names = ["x-note", "constructor", "toString", "__proto__", "hasOwnProperty"];
    const schema = JSON.parse(`{${names.map((key) => `"${key}":[1]`).join()},"type":"string"}`);
    expect(isValid(schema, "a")).toBe(true);
    expect(isValid(schema, 1)).toBe(false);
    expect(isValid({ format: "constructor" }, "a")).toBe(true);
  });

  it("names the place of a problem behind a reference, wherever the value stands", () => {
    const schema = {
      items: { $ref: "#/$defs/entry" },
      $defs: { entry: { properties: { n: { type: "number" } } } },
    };
    const wrong = { n: "x" };
    expect(compileJsonSchema(schema)([wrong, wrong]).map(({ path }) => path)).toEqual([
      ["0", "n"],
      ["1", "n"],
    ]);
  });

  it.each([
    ["date", "2024-02-29", "2023-02-29"],
    ["time", "23:59:60Z", "24:00:00Z"],
    ["date-time", "2024-02-29T12:00:00+01:00", "2024-02-29"],
    ["duration", "P1DT2H", "P"],
    ["email", "ann@example.com", "ann@"],
    ["hostname", "a.example", "-a.example"],
    ["ipv4", "127.0.0.1", "127.0.0.256"],
    ["ipv6", "::1", ":::"],
    ["uri", "https://a.b/c", "a.b/c"],
    ["uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"],
    ["of-its-own", "anything", undefined],
  ])("checks the format %s", (format, right, wrong) => {
    expect(isValid({ format }, right)).toBe(true);
    if (wrong !== undefined) expect(isValid({ format }, wrong)).toBe(false);
  });
});
