import { isRecord } from "../plain.ts";
import type { JsonSchema } from "../tool/schema.ts";

/**
 * A JSON Schema as OpenAI's strict mode takes it: an object at the root, every object closed, every property required.
 * Objects that say nothing of additional properties are closed. Undefined where that cannot be had. Only keywords that
 * are known to be taken get through, because a request with any other fails as a whole.
 */
export function strictSchema(schema: JsonSchema): JsonSchema | undefined {
  const { $schema: _, $defs = {}, definitions = {}, ...root } = schema;
  if (root.type !== "object" || !isRecord($defs) || !isRecord(definitions)) return undefined;
  const targets = new Set([
    "#",
    ...Object.keys($defs).map((name) => `#/$defs/${name}`),
    ...Object.keys(definitions).map((name) => `#/definitions/${name}`),
  ]);
  const all = [root, ...Object.values($defs), ...Object.values(definitions)];
  if (!all.every((one) => canBeStrict(one, targets))) return undefined;
  return {
    ...closed(root),
    ...("$defs" in schema && { $defs: eachClosed($defs) }),
    ...("definitions" in schema && { definitions: eachClosed(definitions) }),
  };
}

const notes = ["title", "description"];
const ofNumbers = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const ofTypes = new Map<unknown, readonly string[]>([
  ["object", ["properties", "required", "additionalProperties"]],
  ["array", ["items", "minItems", "maxItems"]],
  ["string", ["pattern", "format"]],
  ["number", ofNumbers],
  ["integer", ofNumbers],
  ["boolean", []],
  ["null", []],
]);
const ofTime = ["date-time", "time", "date", "duration"];
const formats = new Set<unknown>([...ofTime, "email", "hostname", "ipv4", "ipv6", "uuid"]);
const lookaround = /\(\?<?[=!]/;

function canBeStrict(schema: unknown, targets: ReadonlySet<unknown>): boolean {
  if (!isRecord(schema)) return false;
  const { $ref, anyOf, format, pattern, items } = schema;
  if ($ref !== undefined) return hasOnly(schema, ["$ref"]) && targets.has($ref);
  if (anyOf !== undefined) {
    if (!hasOnly(schema, ["anyOf", ...notes]) || !Array.isArray(anyOf)) return false;
    return anyOf.every((option) => canBeStrict(option, targets));
  }
  const types = typesOf(schema);
  if (types.length === 0 || !types.every((type) => ofTypes.has(type))) return false;
  const own = types.flatMap((type) => ofTypes.get(type) ?? []);
  if (!hasOnly(schema, ["type", "enum", "const", ...notes, ...own])) return false;
  if (format !== undefined && !formats.has(format)) return false;
  if (pattern !== undefined && lookaround.test(String(pattern))) return false;
  if (types.includes("array") && !canBeStrict(items, targets)) return false;
  return !types.includes("object") || isWhole(schema, targets);
}

/** Whether an object has all of its properties, and no others. One without a word on them would be any object. */
function isWhole(schema: JsonSchema, targets: ReadonlySet<unknown>): boolean {
  const { properties, required = [], additionalProperties = false } = schema;
  if (!isRecord(properties) || !Array.isArray(required) || additionalProperties !== false)
    return false;
  const names = new Set([...Object.keys(properties), ...required]);
  const areSame = [...names].every(
    (name) => Object.hasOwn(properties, name) && required.includes(name),
  );
  return areSame && Object.values(properties).every((property) => canBeStrict(property, targets));
}

function closed(schema: JsonSchema): JsonSchema {
  const { anyOf, items, properties } = schema;
  return {
    ...schema,
    ...(Array.isArray(anyOf) && { anyOf: anyOf.map(closed) }),
    ...(isRecord(items) && { items: closed(items) }),
    ...(isRecord(properties) && {
      properties: eachClosed(properties),
      required: Object.keys(properties),
      additionalProperties: false,
    }),
  };
}

function eachClosed(schemas: JsonSchema): JsonSchema {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, closed(schema as JsonSchema)]),
  );
}

function typesOf({ type }: JsonSchema): readonly unknown[] {
  return Array.isArray(type) ? type : [type];
}

function hasOnly(schema: JsonSchema, keywords: readonly string[]): boolean {
  return Object.keys(schema).every((key) => keywords.includes(key));
}
