import { z } from "zod";
import { protocolVersion, source, taskObject } from "../protocol/index.ts";
import { answer } from "./answer.ts";
import { registry, schemaOf } from "./convert.ts";
import { streamFrame } from "./frames.ts";

/** A JSON Schema or a part of it. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** A JSON Schema with its definitions. */
export interface JsonSchemaDocument extends JsonSchema {
  readonly $defs: Readonly<Record<string, JsonSchema>>;
}

function convert(schema: z.ZodType): JsonSchemaDocument {
  // `input`: the document describes what may be sent, without defaults.
  const document = z.toJSONSchema(schema, { metadata: registry, io: "input" });
  return { ...document, $defs: (document.$defs ?? {}) as JsonSchemaDocument["$defs"] };
}

/** Sorts definitions by name, so that the order does not depend on conversion. */
function definitionsOf(...documents: readonly JsonSchemaDocument[]): JsonSchemaDocument["$defs"] {
  const all = new Map(documents.flatMap((document) => Object.entries(document.$defs)));
  return Object.fromEntries([...all].sort(([a], [b]) => (a < b ? -1 : 1)));
}

const frame = convert(streamFrame);

/** The definitions that frames refer to, by name. */
export const streamDefinitions = definitionsOf(frame);

/** JSON Schema 2020-12 of one frame of a stream; `$defs` names every event type, item and block, `Task`, `Source` and `Answer`. */
export const taskStreamSchema: JsonSchemaDocument = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:rivulet:task-stream:1",
  title: protocolVersion,
  description: "One frame of a task stream. Unknown fields are legal, and readers keep them.",
  oneOf: frame.oneOf,
  $defs: definitionsOf(
    frame,
    convert(schemaOf(taskObject)),
    convert(schemaOf(source)),
    convert(answer),
  ),
};
