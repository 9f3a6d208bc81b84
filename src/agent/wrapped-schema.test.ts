import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonSchema, jsonSchema } from "./tool/schema.ts";
import { wrappedSchema } from "./wrapped-schema.ts";

const node = {
  type: "object",
  properties: { name: { type: "string" }, below: { $ref: "#/$defs/nodes" } },
  required: ["name"],
};
const nodes = { type: "array", items: { $ref: "#/$defs/node" } };

const schemas: readonly (readonly [string, JsonSchema])[] = [
  ["a number", { type: "number" }],
  ["a list of what names itself", { ...nodes, $defs: { node, nodes } }],
  [
    "such a thing or nothing",
    { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }], $defs: { node, nodes } },
  ],
  ["lists of lists", { type: "array", items: { $ref: "#" } }],
  [
    "a list whose entries name its first",
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
    "a schema with a name",
    { $id: "https://example.org/list", type: "array", items: { $ref: "#" } },
  ],
];

/** Values that the schemas above are about, right ones and wrong ones. */
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

describe("a wrapped schema", () => {
  it.each(schemas)("takes what the schema takes, and no more: %s", (_, schema) => {
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

  it("leaves alone what only looks like a reference", () => {
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
