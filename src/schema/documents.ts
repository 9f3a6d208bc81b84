import { asyncApi } from "./async-api.ts";
import { jsonSchema } from "./json-schema.ts";

/** The generated files of docs/protocol, by name. */
export const documents: Readonly<Record<string, string>> = {
  "task-stream.schema.json": `${JSON.stringify(jsonSchema, null, 2)}\n`,
  "task-stream.asyncapi.json": `${JSON.stringify(asyncApi, null, 2)}\n`,
};
