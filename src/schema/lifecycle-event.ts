import { z } from "zod";
import { logEvent } from "./envelope.ts";
import { generateReason, suspensionFields, taskObject } from "./task.ts";

/** A task begins, waits, goes on and ends. */
export const lifecycleEvents = {
  "task.created": logEvent(
    "task.created",
    "A task exists; a child names its parent, its call and its item.",
    { task: taskObject.extend({ status: z.literal("queued") }) },
  ),
  "task.in_progress": logEvent("task.in_progress", "A task started to work.", {
    task: taskObject.extend({ status: z.literal("in_progress") }),
  }),
  "task.suspended": logEvent(
    "task.suspended",
    "A task waits for a person, an outside result or a child that waits.",
    { ...suspensionFields, generate_reason: generateReason.exactOptional() },
  ),
  "task.resumed": logEvent("task.resumed", "A suspended or recovered task works again.", {
    reason: z.string(),
  }),
  "task.cancelling": logEvent(
    "task.cancelling",
    "Somebody asked a task to stop; a flag, not a status.",
    { requested_by: z.string().exactOptional(), reason: z.string().exactOptional() },
  ),
  "task.completed": logEvent("task.completed", "A task finished.", {
    task: taskObject.extend({ status: z.literal("completed") }),
  }),
  "task.failed": logEvent("task.failed", "A task failed; the task carries the error.", {
    task: taskObject.extend({ status: z.literal("failed") }),
  }),
  "task.cancelled": logEvent("task.cancelled", "A task was stopped from outside.", {
    task: taskObject.extend({ status: z.literal("cancelled") }),
  }),
  "task.incomplete": logEvent(
    "task.incomplete",
    "A task ended before it was finished; incomplete_details says why.",
    { task: taskObject.extend({ status: z.literal("incomplete") }) },
  ),
};
