import { isRecord } from "./plain.ts";
import type { JsonSchema } from "./tool/schema.ts";

/**
 * The schema of an object whose one field, `response`, has the given schema. What is named in it is found from the root,
 * so the definitions move there, and references to what was the root follow it.
 */
export function wrappedSchema(schema: JsonSchema): JsonSchema {
  // Its own name would make it a document of its own, which is not the one that references are to be found in.
  const { $schema, $id: _, id: __, $defs, definitions, ...rest } = schema;
  return {
    ...($schema !== undefined && { $schema }),
    type: "object",
    properties: { response: moved(rest) },
    required: ["response"],
    ...($defs !== undefined && { $defs: eachMoved($defs) }),
    ...(definitions !== undefined && { definitions: eachMoved(definitions) }),
  };
}

/** Keywords that hold data. */
const data = new Set(["const", "enum", "default", "examples"]);
/** Keywords that hold schemas by names of their own. */
const named = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);

function moved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(moved);
  if (!isRecord(schema)) return schema;
  const fields = Object.entries(schema).map(([key, value]) => {
    if (key === "$ref") return [key, movedReference(value)];
    if (data.has(key)) return [key, value];
    return [key, named.has(key) ? eachMoved(value) : moved(value)];
  });
  return Object.fromEntries(fields);
}

function eachMoved(schemas: unknown): unknown {
  if (!isRecord(schemas)) return schemas;
  return Object.fromEntries(Object.entries(schemas).map(([name, one]) => [name, moved(one)]));
}

function movedReference(reference: unknown): unknown {
  if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) return reference;
  if (/^#\/(\$defs|definitions)(\/|$)/.test(reference)) return reference;
  return `#/properties/response${reference.slice(1)}`;
}
