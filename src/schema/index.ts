import type { z } from "zod";
import type { Answer } from "../protocol/agent.ts";
import type { ErrorShape } from "../protocol/error.ts";
import type { ControlFrame, StreamFrame, TaskEvent } from "../protocol/event.ts";
import type { Source, SourceRef } from "../protocol/source.ts";
import type {
  Annotation,
  Item,
  ItemChange,
  SnapshotTask,
  TaskObject,
  Usage,
  WireBlock,
} from "../protocol/task.ts";
import { boundedAnswer } from "./answer.ts";
import { annotation, wireBlock } from "./block.ts";
import { errorShape } from "./error.ts";
import { events, taskEvent } from "./event.ts";
import { controlFrame, streamFrame } from "./frame.ts";
import { item, itemChange } from "./item.ts";
import { source, sourceRef } from "./source.ts";
import { snapshotTask, taskObject, usage } from "./task.ts";

// The schemas are named with the protocol's own types here, so that declarations stay short and readable.

/** A schema for each event type, by type. */
export type EventSchemas = {
  readonly [Type in TaskEvent["type"]]: z.ZodType<Extract<TaskEvent, { readonly type: Type }>>;
};

/** The schema of each event type of the catalogue, by type. */
export const eventSchemas: EventSchemas = events;
/** Any event of the catalogue; unknown types do not pass, unknown fields are kept. */
export const taskEventSchema: z.ZodType<TaskEvent> = taskEvent;
/** A frame of the transport: opened, heartbeat, closed. */
export const controlFrameSchema: z.ZodType<ControlFrame> = controlFrame;
/** Whatever may arrive on a stream. */
export const streamFrameSchema: z.ZodType<StreamFrame> = streamFrame;
/** An entry of a task's output; an item of an unknown type passes as it is. */
export const itemSchema: z.ZodType<Item> = item;
/** What closes an item. */
export const itemChangeSchema: z.ZodType<ItemChange> = itemChange;
/** A piece of an item; a block of an unknown type passes as it is. */
export const blockSchema: z.ZodType<WireBlock> = wireBlock;
/** A citation on a text block. */
export const annotationSchema: z.ZodType<Annotation> = annotation;
/** A task, or the part of it that a lifecycle event changes. */
export const taskObjectSchema: z.ZodType<TaskObject> = taskObject;
/** A task as a snapshot carries it. */
export const snapshotTaskSchema: z.ZodType<SnapshotTask> = snapshotTask;
/** Tokens used. */
export const usageSchema: z.ZodType<Usage> = usage;
/** The one error shape. */
export const errorShapeSchema: z.ZodType<ErrorShape> = errorShape;
/** Which descendant an event came from, in full. */
export const sourceSchema: z.ZodType<Source> = source;
/** The same as events carry it. */
export const sourceRefSchema: z.ZodType<SourceRef> = sourceRef;
/** What somebody said to an approval: the body of the request that resolves it. */
export const answerSchema: z.ZodType<Answer> = boundedAnswer;

export { type AsyncApiDocument, asyncApi } from "./async-api.ts";
export { type JsonSchema, type JsonSchemaDocument, jsonSchema } from "./json-schema.ts";
export { parseEvent } from "./parse-event.ts";
