import { isObject } from "../../base/plain.ts";
import type { JsonSchema } from "../tool/schema.ts";

/** A schema for OpenAI's strict mode; undefined if it uses anything that the mode rejects. */
export function strictSchema(schema: JsonSchema): JsonSchema | undefined {
  const { $schema: _, $defs = {}, definitions = {}, ...root } = schema;
  if (root.type !== "object" || !isObject($defs) || !isObject(definitions)) return undefined;
  const targets = new Set([
    "#",
    ...Object.keys($defs).map((name) => `#/$defs/${name}`),
    ...Object.keys(definitions).map((name) => `#/definitions/${name}`),
  ]);
  const schemas = [root, ...Object.values($defs), ...Object.values(definitions)];
  if (!schemas.every((part) => canBeStrict(part, targets))) return undefined;
  return {
    ...closed(root),
    ...("$defs" in schema && { $defs: mapValues($defs, closed) }),
    ...("definitions" in schema && { definitions: mapValues(definitions, closed) }),
  };
}

const notes = ["title", "description"];
const ofNumbers = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const keywordsByType = new Map<unknown, readonly string[]>([
  ["object", ["properties", "required", "additionalProperties"]],
  ["array", ["items", "minItems", "maxItems"]],
  ["string", ["pattern", "format"]],
  ["number", ofNumbers],
  ["integer", ofNumbers],
  ["boolean", []],
  ["null", []],
]);
const times = ["date-time", "time", "date", "duration"];
const formats = new Set<unknown>([...times, "email", "hostname", "ipv4", "ipv6", "uuid"]);
const lookaround = /\(\?<?[=!]/;

function canBeStrict(schema: unknown, targets: ReadonlySet<unknown>): boolean {
  if (!isObject(schema)) return false;
  const { $ref, anyOf, format, pattern, items, type } = schema;
  if ($ref !== undefined) return hasOnly(schema, ["$ref"]) && targets.has($ref);
  if (anyOf !== undefined) {
    if (!hasOnly(schema, ["anyOf", ...notes]) || !Array.isArray(anyOf)) return false;
    return anyOf.every((option) => canBeStrict(option, targets));
  }
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  if (types.length === 0 || !types.every((name) => keywordsByType.has(name))) return false;
  const own = types.flatMap((name) => keywordsByType.get(name) ?? []);
  if (!hasOnly(schema, ["type", "enum", "const", ...notes, ...own])) return false;
  if (format !== undefined && !formats.has(format)) return false;
  if (pattern !== undefined && lookaround.test(String(pattern))) return false;
  if (types.includes("array") && !canBeStrict(items, targets)) return false;
  return !types.includes("object") || canBeClosed(schema, targets);
}

/** Whether an object schema lists its properties, requires all of them and allows no others. */
function canBeClosed(schema: JsonSchema, targets: ReadonlySet<unknown>): boolean {
  const { properties, required = [], additionalProperties = false } = schema;
  if (!isObject(properties) || !Array.isArray(required) || additionalProperties !== false) {
    return false;
  }
  const names = new Set([...Object.keys(properties), ...required]);
  const isComplete = [...names].every(
    (name) => Object.hasOwn(properties, name) && required.includes(name),
  );
  return isComplete && Object.values(properties).every((part) => canBeStrict(part, targets));
}

function closed(schema: JsonSchema): JsonSchema {
  const { anyOf, items, properties } = schema;
  return {
    ...schema,
    ...(Array.isArray(anyOf) && { anyOf: anyOf.map(closed) }),
    ...(isObject(items) && { items: closed(items) }),
    ...(isObject(properties) && {
      properties: mapValues(properties, closed),
      required: Object.keys(properties),
      additionalProperties: false,
    }),
  };
}

function hasOnly(schema: JsonSchema, keywords: readonly string[]): boolean {
  return Object.keys(schema).every((key) => keywords.includes(key));
}

/** The schema of an object whose only field, `response`, has the given schema; references are adjusted. */
export function wrappedSchema(schema: JsonSchema): JsonSchema {
  // With an id of its own, the inner schema would be another document, in which references are not found.
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

const dataKeywords = new Set(["const", "enum", "default", "examples"]);
/** Keywords whose value has a schema per name. */
const definitionKeywords = ["$defs", "definitions", "dependentSchemas"];
const mapKeywords = new Set(["properties", "patternProperties", ...definitionKeywords]);

function moved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(moved);
  if (!isObject(schema)) return schema;
  const fields = Object.entries(schema).map(([key, value]) => {
    if (key === "$ref") return [key, movedReference(value)];
    if (dataKeywords.has(key)) return [key, value];
    return [key, mapKeywords.has(key) ? eachMoved(value) : moved(value)];
  });
  return Object.fromEntries(fields);
}

function eachMoved(schemas: unknown): unknown {
  return isObject(schemas) ? mapValues(schemas, moved) : schemas;
}

function movedReference(reference: unknown): unknown {
  if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) return reference;
  if (/^#\/(\$defs|definitions)(\/|$)/.test(reference)) return reference;
  return `#/properties/response${reference.slice(1)}`;
}

function mapValues<T>(object: JsonSchema, map: (value: never) => T): Readonly<Record<string, T>> {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name, map(value as never)]),
  );
}
