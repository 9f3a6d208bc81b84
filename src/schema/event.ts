import { z } from "zod";
import { blockEvents } from "./block-event.ts";
import { define } from "./definitions.ts";
import { itemEvents } from "./item-event.ts";
import { lifecycleEvents } from "./lifecycle-event.ts";
import { count, id, time } from "./scalar.ts";
import { sourceRef } from "./source.ts";
import { snapshotTask } from "./task.ts";
import { treeEvents } from "./tree-event.ts";

const taskSnapshot = define(
  "task.snapshot",
  "A task's state through a number, made by a server; not in the log.",
  z.looseObject({
    type: z.literal("task.snapshot"),
    task_id: id,
    through_sequence_number: count,
    through_task_seq: count,
    created_at: time,
    source: sourceRef.exactOptional(),
    task: snapshotTask,
  }),
);

const streamError = define(
  "error",
  "A problem of the stream itself; it never changes a task.",
  z.looseObject({
    type: z.literal("error"),
    task_id: id.exactOptional(),
    code: z.string().min(1),
    message: z.string(),
    retryable: z.boolean(),
    hint: z.string().exactOptional(),
    oldest_sequence_number: count.exactOptional(),
  }),
);

/** Every event of the catalogue by its type. */
export const events = {
  ...lifecycleEvents,
  ...itemEvents,
  ...blockEvents,
  ...treeEvents,
  "task.snapshot": taskSnapshot,
  error: streamError,
};

type EventSchema = (typeof events)[keyof typeof events];

/** Twin of `TaskEvent`. */
export const taskEvent = define(
  "TaskEvent",
  "Everything that can change a tree of tasks, or say why it cannot.",
  z.discriminatedUnion("type", Object.values(events) as [EventSchema, ...EventSchema[]]),
);
