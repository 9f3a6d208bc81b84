import { z } from "zod";
import { logEvent, onItem } from "./envelope.ts";
import { terminalStatus } from "./item.ts";
import { id } from "./scalar.ts";
import {
  approvalKind,
  cost,
  decision,
  modelUsage,
  questionFields,
  taskMode,
  usage,
} from "./task.ts";

const onChild = { child_task_id: id, call_id: id, ...onItem };

/** Children of a task, what waits for a person, what was used, what an application adds. */
export const treeEvents = {
  "task.child.started": logEvent("task.child.started", "On the parent: a call started a child.", {
    ...onChild,
    mode: taskMode,
    remote: z.boolean().exactOptional(),
    agent: z.looseObject({
      id,
      name: z.string().exactOptional(),
      key: z.string().min(1),
    }),
  }),
  "task.child.finished": logEvent(
    "task.child.finished",
    "On the parent: a synchronous child ended.",
    { ...onChild, status: terminalStatus, usage: usage.exactOptional() },
  ),
  "task.child.promoted": logEvent(
    "task.child.promoted",
    "On the parent: it stops waiting, the child goes on in the background.",
    { ...onChild, mode: z.literal("background"), reason: z.string() },
  ),

  "task.approval.requested": logEvent(
    "task.approval.requested",
    "A call waits for somebody's word.",
    {
      approval_id: id,
      kind: approvalKind,
      call_id: id,
      name: z.string(),
      arguments: z.string(),
      ...questionFields,
    },
  ),
  "task.approval.resolved": logEvent(
    "task.approval.resolved",
    "Somebody, or the clock, has spoken.",
    {
      approval_id: id,
      decision,
      by: z.string().exactOptional(),
      reason: z.string().nullable().exactOptional(),
    },
  ),

  "task.usage": logEvent("task.usage", "What a task has used so far, its own, cumulative.", {
    cumulative: z.literal(true),
    usage,
    by_model: z.array(modelUsage).exactOptional(),
    cost: cost.exactOptional(),
  }),
  "task.custom": logEvent("task.custom", "Anything an application wants on the stream.", {
    name: z.string(),
    value: z.unknown(),
  }),
};
