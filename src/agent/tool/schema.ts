import { createRequire } from "node:module";
import { type OutputUnit, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import type {
  Awaitable,
  StandardIssue,
  StandardResult,
  StandardSchema,
} from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import { isObject } from "../../protocol/shape.ts";

/** A JSON Schema document. */
export type JsonSchema = Readonly<Record<string, unknown>>;

const target = "draft-2020-12";

/** The frozen JSON Schema of the input of a Standard Schema. */
export function toJsonSchema(schema: StandardSchema): JsonSchema {
  const { vendor, jsonSchema: converter } = standardOf(schema);
  try {
    if (converter) return frozenCopy(converter.input({ target }));
    // Older versions of zod can convert, but do not implement the standard.
    if ("_zod" in schema) return frozenCopy(zodJsonSchema(schema));
  } catch (error) {
    throw notConvertible(vendor, error);
  }
  throw notConvertible(vendor);
}

/** Wraps a JSON Schema as a Standard Schema. */
export function jsonSchema<T = Readonly<Record<string, unknown>>>(
  schema: object,
): StandardSchema<T> {
  const { document, validator } = compile(schema);
  return standardSchema<T>(document, (value) => {
    const filled = withDefaults(value, document);
    const { valid, errors } = validator.validate(filled);
    return valid ? { value: filled as T } : { issues: errors.flatMap(issueOf) };
  });
}

/** A Standard Schema with this JSON Schema, whose values `validate` checks. */
export function standardSchema<T>(
  document: JsonSchema,
  validate: (value: unknown) => Awaitable<StandardResult<T>>,
): StandardSchema<T> {
  const convert = () => document;
  const jsonSchema = { input: convert, output: convert };
  const standard = { version: 1 as const, vendor: "rivulet", validate, jsonSchema };
  return { "~standard": standard };
}

function standardOf(schema: StandardSchema): {
  readonly vendor: string;
  readonly jsonSchema?: StandardJSONSchemaV1.Converter;
} {
  let isZod3 = false;
  try {
    const standard = (schema as Partial<StandardSchema> | null | undefined)?.["~standard"];
    if (typeof standard?.validate === "function") return standard;
    isZod3 = (schema as { _def?: unknown } | null | undefined)?._def !== undefined;
  } catch {
    // A schema that throws when it is read is none.
  }
  throw new RivuletError("schema_not_convertible", "The schema is not a Standard Schema.", {
    hint: isZod3
      ? zod4Hint
      : "Pass a schema of zod or arktype, or wrap a JSON Schema in jsonSchema().",
  });
}

/** Zod 3 has no JSON Schema of its own. */
const zod4Hint =
  "Use zod 4 (npm i zod@latest), or a Standard Schema with JSON Schema, or wrap a JSON Schema in jsonSchema().";

function notConvertible(vendor: string, cause?: unknown): RivuletError {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  const hint =
    vendor === "valibot"
      ? "Wrap it in toStandardJsonSchema() of @valibot/to-json-schema."
      : vendor === "zod" && cause === undefined
        ? zod4Hint
        : "Use only types that JSON Schema can express, or pass a JSON Schema wrapped in jsonSchema().";
  const message = `The ${vendor} schema cannot be converted to JSON Schema${reason}.`;
  return new RivuletError("schema_not_convertible", message, { hint, cause });
}

/** Loads zod on demand, because it is large and rarely needed here. */
function zodJsonSchema(schema: StandardSchema): object {
  const { toJSONSchema } = createRequire(import.meta.url)("zod") as typeof import("zod");
  type ZodSchema = Parameters<typeof toJSONSchema>[0];
  return toJSONSchema(schema as unknown as ZodSchema, { target, io: "input" });
}

function frozenCopy(schema: object): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_, value) => Object.freeze(value));
}

function compile(schema: object): { readonly document: JsonSchema; readonly validator: Validator } {
  try {
    if (!isObject(schema)) throw new TypeError("a schema must be an object");
    const document = frozenCopy(schema);
    // A copy, because the validator modifies its schema.
    const copy = structuredClone(document) as Schema;
    return { document, validator: new Validator(copy, draftOf(document), false) };
  } catch (error) {
    throw notConvertible("JSON", error);
  }
}

function draftOf(document: JsonSchema): SchemaDraft {
  const dialect = String(document.$schema ?? "");
  if (dialect.includes("draft-04")) return "4";
  if (dialect.includes("draft-06") || dialect.includes("draft-07")) return "7";
  return dialect.includes("2019-09") ? "2019-09" : "2020-12";
}

function withDefaults(value: unknown, schema: JsonSchema): unknown {
  if (!isObject(value) || !isObject(schema.properties)) return value;
  const filled = Object.entries(schema.properties).flatMap(([key, property]) => {
    if (!isObject(property)) return [];
    if (Object.hasOwn(value, key)) return [[key, withDefaults(value[key], property)] as const];
    return "default" in property ? [[key, structuredClone(property.default)] as const] : [];
  });
  return { ...value, ...Object.fromEntries(filled) };
}

// Keywords whose error only repeats an error inside them.
const ofObjects = ["patternProperties", "additionalProperties", "unevaluatedProperties"];
const ofArrays = ["prefixItems", "items", "additionalItems", "unevaluatedItems"];
const applicators = ["properties", "dependentSchemas", "allOf", "if", "$ref", "$recursiveRef"];
const wrappers = new Set([...ofObjects, ...ofArrays, ...applicators]);

function issueOf({ keyword, instanceLocation, error }: OutputUnit): readonly StandardIssue[] {
  if (wrappers.has(keyword)) return [];
  const parts = instanceLocation.split("/").slice(1).map(decodeURI);
  const path = parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (keyword !== "false") return [{ message: error, path }];
  return [{ message: `"${path.at(-1)}" is not allowed.`, path: path.slice(0, -1) }];
}
