import { isObject } from "../base/plain.ts";
import type { Approval } from "../contract/index.ts";

/** A form for a person: an object of simple fields. */
export interface QuestionForm {
  readonly type: "object";
  readonly properties: Readonly<Record<string, unknown>>;
  readonly required: readonly string[];
}

/** The form of a question with a schema, its own or `schema` in the input of its call; its answer is JSON. */
export function questionForm({ responseSchema, call }: Approval): QuestionForm | undefined {
  const schema = responseSchema ?? (isObject(call.input) ? call.input.schema : undefined);
  if (!isObject(schema) || schema.type !== "object" || !isObject(schema.properties))
    return undefined;
  const { properties } = schema;
  const fields = Object.values(properties);
  if (fields.length === 0 || !fields.every(isSimple)) return undefined;
  const required = Array.isArray(schema.required) ? schema.required : [];
  return {
    type: "object",
    properties,
    required: required.filter((name) => typeof name === "string"),
  };
}

/** A field as forms have it. A pattern is left out, because a model can write one that takes forever. */
function isSimple(field: unknown): boolean {
  if (!isObject(field) || "pattern" in field) return false;
  const { type, items } = field;
  if (type === "array") return isObject(items) && ("enum" in items || "anyOf" in items);
  return ["string", "number", "integer", "boolean"].includes(String(type));
}
