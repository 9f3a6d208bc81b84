import { z } from "zod";
import { define } from "./definitions.ts";
import { errorShape } from "./error.ts";
import { item, terminalStatus } from "./item.ts";
import { count, id, jsonObject, time } from "./scalar.ts";

/** Twin of `TaskMode`. */
export const taskMode = z.enum(["sync", "background"]);

/** Twin of `Decision`. */
export const decision = z.enum(["approve", "deny", "edit", "answer", "expire", "cancel"]);

/** Twin of `ApprovalKind`. */
export const approvalKind = z.enum(["tool_call", "question", "external", "form", "auth"]);

/** Twin of `GenerateReason`. */
export const generateReason = z.enum([
  "model_stop",
  "failed",
  "tool_suspended",
  "approval_required",
  "reasoning_stop_requested",
  "acting_stop_requested",
  "interrupted",
  "max_iterations",
  "structured_output",
  "budget",
  "no_progress",
  "max_output_tokens",
  "content_filter",
]);

/** Twin of `Usage`. */
export const usage = define(
  "Usage",
  "Tokens used, cumulative, one task's own.",
  z.looseObject({
    input_tokens: count,
    output_tokens: count,
    total_tokens: count,
    cached_input_tokens: count.exactOptional(),
    reasoning_tokens: count.exactOptional(),
  }),
);

/** Twin of `ModelUsage`. */
export const modelUsage = define(
  "ModelUsage",
  "One model's share of a usage.",
  z.looseObject({
    provider: z.string(),
    model: z.string(),
    input_tokens: count,
    output_tokens: count,
  }),
);

/** Twin of `Cost`. */
export const cost = define(
  "Cost",
  "Money, as a decimal string so that nothing is rounded on the way.",
  z.looseObject({ amount: z.string(), currency: z.string() }),
);

/** Twin of `Suspension`, as a shape: the suspended event carries the same fields. */
export const suspensionFields = {
  reason: z.enum(["approval", "external", "stop_requested", "child"]),
  approval_ids: z.array(id).exactOptional(),
  waiting_on: z.array(id).exactOptional(),
  expires_at: time.exactOptional(),
};

/** What an approval asks beyond its kind, as a shape: the requested event carries the same fields. */
export const questionFields = {
  item_id: id.exactOptional(),
  output_index: count.exactOptional(),
  message: z.string().exactOptional(),
  options: z.array(decision).exactOptional(),
  response_schema: jsonObject.exactOptional(),
  expires_at: time.exactOptional(),
};

const approvalState = define(
  "ApprovalState",
  "An approval as a snapshot keeps it; it waits until it has a decision.",
  z.looseObject({
    approval_id: id,
    kind: approvalKind,
    call_id: id.exactOptional(),
    name: z.string().exactOptional(),
    arguments: z.string().exactOptional(),
    ...questionFields,
    decision: decision.exactOptional(),
    by: z.string().exactOptional(),
    reason: z.string().nullable().exactOptional(),
  }),
);

const incompleteReason = z.enum([
  "max_iterations",
  "max_output_tokens",
  "content_filter",
  "timeout",
  "budget",
  "no_progress",
]);

/** Twin of `TaskObject`. */
export const taskObject = define(
  "Task",
  "A task, or the part of it that a lifecycle event changes.",
  z.looseObject({
    id,
    object: z.literal("task"),
    status: z.enum(["queued", "in_progress", "suspended", ...terminalStatus.options]),
    agent_id: id.exactOptional(),
    session_id: id.exactOptional(),
    parent_task_id: id.exactOptional(),
    parent_call_id: id.exactOptional(),
    parent_item_id: id.exactOptional(),
    mode: taskMode.exactOptional(),
    remote: z.boolean().exactOptional(),
    created_at: time.exactOptional(),
    completed_at: time.exactOptional(),
    usage: usage.exactOptional(),
    subtree_usage: usage.exactOptional(),
    error: errorShape.exactOptional(),
    reason: z.string().exactOptional(),
    incomplete_details: z.looseObject({ reason: incompleteReason }).exactOptional(),
    generate_reason: generateReason.exactOptional(),
    structured: z.unknown().exactOptional(),
    metadata: jsonObject.exactOptional(),
    output: z.array(item).exactOptional(),
  }),
);

/** Twin of `SnapshotTask`. */
export const snapshotTask = define(
  "SnapshotTask",
  "A task with everything the fold knows of it, so that a reader can go on from here.",
  taskObject.extend({
    approvals: z.array(approvalState).exactOptional(),
    cancelling: z.boolean().exactOptional(),
    suspension: z.looseObject(suspensionFields).exactOptional(),
    cost: cost.exactOptional(),
    state: jsonObject.exactOptional(),
    parent_output_index: count.exactOptional(),
  }),
);
