import { z } from "zod";
import {
  type ControlFrame,
  controlFrames,
  type Fields,
  logEvents,
  origin,
  position,
  type StreamFrame,
  snapshot,
  streamError,
  type TaskEvent,
} from "../protocol/index.ts";
import { define, schemaOf } from "./convert.ts";
import { sentences } from "./definitions.ts";

/** A schema for each event type, by type. */
export type EventSchemas = {
  readonly [Type in TaskEvent["type"]]: z.ZodType<Extract<TaskEvent, { readonly type: Type }>>;
};

function schemasOf(frames: Readonly<Record<string, Fields>>, envelope: Fields = {}) {
  const entries = Object.entries(frames).map(([type, fields]) => {
    const schema = schemaOf({ type: `=${type}`, ...envelope, ...fields });
    return [type, define(type, sentences[type as keyof typeof sentences], schema)];
  });
  return Object.fromEntries(entries) as Record<string, z.ZodObject>;
}

/** The frames as one schema that looks at `type` first. */
function unionOf(schemas: Readonly<Record<string, z.ZodType>>): z.ZodType {
  const [first, ...rest] = Object.values(schemas) as [z.ZodObject, ...z.ZodObject[]];
  return z.discriminatedUnion("type", [first, ...rest]);
}

/** The schema of each event type of the catalogue. */
export const events = {
  ...schemasOf(logEvents, { ...position, ...origin }),
  ...schemasOf({ "task.snapshot": snapshot, error: streamError }),
} as unknown as EventSchemas;
/** The schema of any event of the catalogue. */
export const taskEvent = define(
  "TaskEvent",
  "An event of a log, or one that a server adds to a stream.",
  unionOf(events),
) as z.ZodType<TaskEvent>;
/** The schema of any frame of the transport. */
export const controlFrame = define(
  "ControlFrame",
  "A frame of the transport; it has no number and changes no task.",
  unionOf(schemasOf(controlFrames)),
) as z.ZodType<ControlFrame>;
/** The schema of any frame of a stream. */
export const streamFrame = unionOf({ taskEvent, controlFrame }) as z.ZodType<StreamFrame>;
