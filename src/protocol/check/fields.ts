import type { ControlFrame, TaskEvent } from "../event.ts";

/** What a field must be: an id is a string with something in it, an index a whole number from 0 on. */
export type Kind =
  | "id"
  | "text"
  | "index"
  | "number"
  | "flag"
  | "object"
  | "list"
  | readonly string[];
/** The fields that must be there. */
export type Fields = Readonly<Record<string, Kind>>;

const onItem = { item_id: "id", output_index: "index" } as const;
const onBlock = { ...onItem, block_index: "index", item: "object" } as const;
const onSummary = { ...onItem, summary_index: "index" } as const;
const onChild = { ...onItem, child_task_id: "id", call_id: "id" } as const;
/** Whether a parent waits. */
export const modes = ["sync", "background"] as const;
const ends = ["completed", "failed", "cancelled", "incomplete"] as const;

/** The fields of every event and frame of the catalogue. */
export const fieldsOf: Readonly<Record<TaskEvent["type"] | ControlFrame["type"], Fields>> = {
  "task.created": { task: "object" },
  "task.in_progress": { task: "object" },
  "task.suspended": { reason: ["approval", "external", "stop_requested", "child"] },
  "task.resumed": { reason: "text" },
  "task.cancelling": {},
  "task.completed": { task: "object" },
  "task.failed": { task: "object" },
  "task.cancelled": { task: "object" },
  "task.incomplete": { task: "object" },
  "task.output_item.added": { output_index: "index", item: "object" },
  "task.output_item.done": { output_index: "index", item: "object" },
  "task.output_item.discarded": {
    ...onItem,
    reason: ["provider_retry", "fallback", "recovered", "edited", "tool_retry"],
  },
  "task.reasoning_summary_item.added": { ...onSummary, item: "object" },
  "task.reasoning_summary_text.delta": { ...onSummary, delta: "text" },
  "task.reasoning_summary_item.done": { ...onSummary, item: "object" },
  "task.reasoning_text.delta": { ...onItem, content_index: "index", delta: "text" },
  "task.reasoning_text.done": { ...onItem, content_index: "index", text: "text" },
  "task.tool_call_arguments.delta": { ...onItem, delta: "text" },
  "task.tool_call_arguments.done": { ...onItem, arguments: "text" },
  "task.tool_result.progress": { ...onItem, call_id: "id", progress: "number" },
  "task.text.added": onBlock,
  "task.text.delta": { ...onItem, block_index: "index", delta: "text" },
  "task.text.annotation.added": {
    ...onItem,
    block_index: "index",
    annotation_index: "index",
    annotation: "object",
  },
  "task.text.done": onBlock,
  "task.image.added": onBlock,
  "task.image.delta": { ...onBlock, partial_image_index: "index" },
  "task.image.done": onBlock,
  "task.block.done": onBlock,
  "task.child.started": { ...onChild, mode: modes, agent: "object" },
  "task.child.finished": { ...onChild, status: ends },
  "task.child.promoted": { ...onChild, mode: ["background"], reason: "text" },
  "task.approval.requested": {
    approval_id: "id",
    kind: ["tool_call", "question", "external", "form", "auth"],
    call_id: "id",
    name: "id",
    arguments: "text",
  },
  "task.approval.resolved": {
    approval_id: "id",
    decision: ["approve", "deny", "edit", "answer", "expire", "cancel"],
  },
  "task.usage": { usage: "object", cumulative: "flag" },
  "task.custom": { name: "id" },
  "task.snapshot": {
    through_sequence_number: "index",
    through_task_seq: "index",
    task: "object",
  },
  error: { code: "id", message: "text", retryable: "flag" },
  "stream.opened": {
    protocol: "id",
    root_task_id: "id",
    oldest_sequence_number: "index",
    last_sequence_number: "number",
    heartbeat_ms: "index",
  },
  "stream.heartbeat": { created_at: "index", last_sequence_number: "number" },
  "stream.closed": {
    reason: ["terminal", "idle", "slow_consumer", "max_duration", "server_shutdown"],
    final: "flag",
    last_sequence_number: "number",
  },
};

/** The fields of an item that is whole, by its type. */
export const itemFields: Readonly<Record<string, Fields>> = {
  reasoning: { summary: "list" },
  tool_call: { call_id: "id", name: "id", arguments: "text" },
  tool_result: { call_id: "id", block_list: "list" },
  message: { role: ["assistant"], block_list: "list" },
};
/** Where an item may stand. */
export const itemStatuses = ["in_progress", ...ends] as const;
/** The fields of an annotation. */
export const annotationFields: Fields = {
  type: ["reference_to_block"],
  reference_id: "index",
  start_index: "index",
  end_index: "index",
};
/** The fields of what an annotation points at. */
export const targetFields: Fields = { task_id: "id", item_id: "id", block_index: "index" };
/** The fields of a usage. */
export const usageFields: Fields = {
  input_tokens: "index",
  output_tokens: "index",
  total_tokens: "index",
};
