import type { z } from "zod";
import type { ErrorShape } from "../base/error.ts";
import type { Answer } from "../contract/index.ts";
import {
  type Annotation,
  type ControlFrame,
  grammar,
  type Item,
  type ItemChange,
  type SnapshotTask,
  type Source,
  type SourceRef,
  type StreamFrame,
  type TaskEvent,
  type TaskObject,
  type Usage,
  type WireBlock,
} from "../protocol/index.ts";
import { boundedAnswer } from "./answer.ts";
import { schemaOf } from "./convert.ts";
import { controlFrame, type EventSchemas, events, streamFrame, taskEvent } from "./frames.ts";

// Explicit types keep the declarations short and compare the grammar with the types of the protocol.

/** The schema of each event type of the catalogue, by type. */
export const eventSchemas: EventSchemas = events;
/** The schema of any event of the catalogue; refuses unknown types and keeps unknown fields. */
export const taskEventSchema: z.ZodType<TaskEvent> = taskEvent;
/** The schema of a frame of the transport. */
export const controlFrameSchema: z.ZodType<ControlFrame> = controlFrame;
/** The schema of any frame of a stream. */
export const streamFrameSchema: z.ZodType<StreamFrame> = streamFrame;
/** The schema of an item; accepts items of unknown types. */
export const itemSchema: z.ZodType<Item> = schemaOf(grammar.item);
/** The schema of the item in `task.output_item.done`. */
export const itemChangeSchema: z.ZodType<ItemChange> = schemaOf(grammar.itemChange);
/** The schema of a block; accepts blocks of unknown types. */
export const blockSchema: z.ZodType<WireBlock> = schemaOf(grammar.block);
/** The schema of a citation. */
export const annotationSchema: z.ZodType<Annotation> = schemaOf(grammar.annotation);
/** The schema of a task in a lifecycle event. */
export const taskObjectSchema: z.ZodType<TaskObject> = schemaOf(grammar.taskObject);
/** The schema of a task in a snapshot. */
export const snapshotTaskSchema: z.ZodType<SnapshotTask> = schemaOf(grammar.snapshotTask);
/** The schema of a usage. */
export const usageSchema: z.ZodType<Usage> = schemaOf(grammar.usage);
/** The schema of an error. */
export const errorShapeSchema: z.ZodType<ErrorShape> = schemaOf(grammar.errorShape);
/** The schema of a complete source. */
export const sourceSchema: z.ZodType<Source> = schemaOf(grammar.source);
/** The schema of a source on an event. */
export const sourceRefSchema: z.ZodType<SourceRef> = schemaOf(grammar.sourceRef);
/** The schema of an answer: the body of the request that resolves an approval. */
export const answerSchema: z.ZodType<Answer> = boundedAnswer;
