import { z } from "zod";
import { protocolVersion } from "../protocol/event.ts";
import { answer } from "./answer.ts";
import { definitions } from "./definitions.ts";
import { streamFrame } from "./frame.ts";
import { source } from "./source.ts";
import { taskObject } from "./task.ts";

/** A JSON Schema, or a part of one: plain JSON. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** A JSON Schema with the definitions that it refers to. */
export interface JsonSchemaDocument extends JsonSchema {
  readonly $defs: Readonly<Record<string, JsonSchema>>;
}

function convert(schema: z.ZodType): JsonSchemaDocument {
  // As input: what may be sent, before a default fills anything in.
  const document = z.toJSONSchema(schema, { metadata: definitions, io: "input" });
  return { ...document, $defs: (document.$defs ?? {}) as JsonSchemaDocument["$defs"] };
}

/** Definitions in one order, whatever was converted first. */
function definitionsOf(...documents: readonly JsonSchemaDocument[]): JsonSchemaDocument["$defs"] {
  const all = new Map(documents.flatMap((document) => Object.entries(document.$defs)));
  return Object.fromEntries([...all].sort(([a], [b]) => (a < b ? -1 : 1)));
}

const frame = convert(streamFrame);

/** Every definition that a frame of a stream can reach, by name. */
export const streamDefinitions = definitionsOf(frame);

/** JSON Schema 2020-12 of one frame of a stream; `$defs` names every event type, item and block, `Task`, `Source` and `Answer`. */
export const jsonSchema: JsonSchemaDocument = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:rivulet:task-stream:1",
  title: protocolVersion,
  description: "One frame of a task stream. Fields that are not listed are legal and are kept.",
  oneOf: frame.oneOf,
  $defs: definitionsOf(frame, convert(taskObject), convert(source), convert(answer)),
};
