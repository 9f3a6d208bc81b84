export { type AsyncApiDocument, asyncApi } from "./async-api.ts";

export { type JsonSchemaDocument, taskStreamSchema } from "./json-schema.ts";
export { parseEvent } from "./parse-event.ts";
export {
  annotationSchema,
  answerSchema,
  blockSchema,
  controlFrameSchema,
  errorShapeSchema,
  eventSchemas,
  itemChangeSchema,
  itemSchema,
  snapshotTaskSchema,
  sourceRefSchema,
  sourceSchema,
  streamFrameSchema,
  taskEventSchema,
  taskObjectSchema,
  usageSchema,
} from "./schemas.ts";
