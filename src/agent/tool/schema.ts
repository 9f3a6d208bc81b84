import { createRequire } from "node:module";
import { type OutputUnit, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import type { StandardIssue, StandardSchema } from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import { isRecord } from "../plain.ts";

/** A JSON Schema document. */
export type JsonSchema = Readonly<Record<string, unknown>>;

const target = "draft-2020-12";

/** The JSON Schema of what a Standard Schema takes in, frozen. */
export function toJsonSchema(schema: StandardSchema): JsonSchema {
  const { vendor, jsonSchema: converter } = standardOf(schema);
  try {
    if (converter) return frozenCopy(converter.input({ target }));
    // zod could write JSON Schema before there was a standard way to ask for it.
    if ("_zod" in schema) return frozenCopy(zodJsonSchema(schema));
  } catch (error) {
    throw notConvertible(vendor, error);
  }
  throw notConvertible(vendor);
}

/** A raw JSON Schema as a Standard Schema, so that there is one kind of schema everywhere else. */
export function jsonSchema<T = Readonly<Record<string, unknown>>>(
  schema: object,
): StandardSchema<T> {
  const document = documentOf(schema);
  const validator = validatorOf(document);
  const convert = () => document;
  const standard = {
    version: 1 as const,
    vendor: "rivulet",
    validate(value: unknown) {
      const filled = withDefaults(value, document);
      const { valid, errors } = validator.validate(filled);
      return valid ? { value: filled as T } : { issues: errors.flatMap(issueOf) };
    },
    jsonSchema: { input: convert, output: convert },
  };
  return { "~standard": standard };
}

interface StandardProps {
  readonly vendor: string;
  readonly jsonSchema?: StandardJSONSchemaV1.Converter;
}

function standardOf(schema: StandardSchema): StandardProps {
  const standard = (schema as Partial<StandardSchema> | null | undefined)?.["~standard"];
  if (typeof standard?.validate === "function") return standard;
  throw new RivuletError("schema_not_convertible", "This is not a Standard Schema.", {
    hint: "Give a schema of zod or arktype, or wrap a JSON Schema in jsonSchema().",
  });
}

function notConvertible(vendor: string, cause?: unknown): RivuletError {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  const hint =
    vendor === "valibot"
      ? "Wrap it in toStandardJsonSchema() of @valibot/to-json-schema."
      : "Use only what JSON can carry, or give a JSON Schema wrapped in jsonSchema().";
  const message = `This ${vendor} schema cannot be written as JSON Schema${reason}.`;
  return new RivuletError("schema_not_convertible", message, { hint, cause });
}

/** Loads zod only now: few programs come here, and it is large. */
function zodJsonSchema(schema: StandardSchema): object {
  const { toJSONSchema } = createRequire(import.meta.url)("zod") as typeof import("zod");
  type ZodSchema = Parameters<typeof toJSONSchema>[0];
  return toJSONSchema(schema as unknown as ZodSchema, { target, io: "input" });
}

function frozenCopy(schema: object): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_, value) => Object.freeze(value));
}

function documentOf(schema: object): JsonSchema {
  try {
    return frozenCopy(schema);
  } catch (error) {
    throw notConvertible("JSON", error);
  }
}

function validatorOf(document: JsonSchema): Validator {
  try {
    // A copy of its own, because the validator writes notes on what it is given.
    return new Validator(structuredClone(document) as Schema, draftOf(document), false);
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
  if (!isRecord(value) || !isRecord(schema.properties)) return value;
  const known = Object.entries(schema.properties).flatMap(([key, property]) => {
    if (!isRecord(property)) return [];
    if (Object.hasOwn(value, key)) return [[key, withDefaults(value[key], property)] as const];
    return "default" in property ? [[key, structuredClone(property.default)] as const] : [];
  });
  return { ...value, ...Object.fromEntries(known) };
}

// These only say that something inside them is wrong, which has an entry of its own.
const wrappers = new Set([
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "dependentSchemas",
  "prefixItems",
  "items",
  "additionalItems",
  "unevaluatedItems",
  "allOf",
  "if",
  "$ref",
  "$recursiveRef",
]);

function issueOf({ keyword, instanceLocation, error }: OutputUnit): readonly StandardIssue[] {
  if (wrappers.has(keyword)) return [];
  const path = instanceLocation.split("/").slice(1).map(decodePointer);
  if (keyword !== "false") return [{ message: error, path }];
  return [{ message: `"${path.at(-1)}" is not allowed.`, path: path.slice(0, -1) }];
}

function decodePointer(part: string): string {
  return decodeURI(part).replaceAll("~1", "/").replaceAll("~0", "~");
}
