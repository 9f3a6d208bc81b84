import { createRequire } from "node:module";
import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import type { StandardResult, StandardSchema } from "../../contract/index.ts";
import { compileJsonSchema } from "./json-schema/compile.ts";

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

/** Wraps a JSON Schema as a Standard Schema. Throws when the work of a check could not be bounded. */
export function jsonSchema<T = Readonly<Record<string, unknown>>>(
  schema: object,
): StandardSchema<T> {
  const { document, check } = compile(schema);
  return standardSchema<T>(document, (value) => {
    const filled = withDefaults(value, document);
    const issues = check(filled);
    return issues.length === 0 ? { value: filled as T } : { issues };
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
        : vendor === "JSON"
          ? "Correct or simplify this part of the schema."
          : "Use only types that JSON Schema can express, or pass a JSON Schema wrapped in jsonSchema().";
  const message =
    vendor === "JSON"
      ? `The JSON Schema cannot be used${reason}.`
      : `The ${vendor} schema cannot be converted to JSON Schema${reason}.`;
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

function compile(schema: object) {
  try {
    if (!isObject(schema)) throw new TypeError("a schema must be an object");
    const document = frozenCopy(schema);
    return { document, check: compileJsonSchema(document) };
  } catch (error) {
    throw notConvertible("JSON", error);
  }
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
