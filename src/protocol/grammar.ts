import type { TaskEvent } from "./event.ts";
import type { Fields } from "./shape.ts";
import {
  isAny,
  isBlockId,
  isCursor,
  isFlag,
  isId,
  isIndex,
  isJson,
  isLevel,
  isName,
  isNumber,
  isOffset,
  isText,
  isTime,
  isTrue,
  Variants,
} from "./shape.ts";

// The grammar of the wire. The reader, the linter, the zod schemas, the JSON Schema and the AsyncAPI document are made
// from it, and the compiler compares it with the types (src/schema/agreement.test.ts).

/** The name of the protocol on the wire; changes within `/1` are additive. */
export const protocolVersion = "rivulet.task-stream/1";

/**
 * The lists of words, by name. A reader accepts other words, because a newer version may add some, so that only the
 * linter and the schemas need the lists.
 */
export const words = {
  task: ["queued", "in_progress", "suspended", "completed", "failed", "cancelled", "incomplete"],
  status: ["in_progress", "completed", "failed", "cancelled", "incomplete"],
  end: ["completed", "failed", "cancelled", "incomplete"],
  mode: ["sync", "background"],
  approval: ["tool_call", "question", "external", "form", "auth", "stop"],
  decision: ["approve", "deny", "edit", "answer", "expire", "cancel"],
  discarded: ["provider_retry", "fallback", "recovered", "edited", "tool_retry"],
  suspended: ["approval", "external", "stop_requested", "child"],
  incomplete_details: [
    "max_iterations",
    "max_output_tokens",
    "content_filter",
    "timeout",
    "budget",
    "no_progress",
  ],
  generate_reason: [
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
  ],
  closeReason: ["terminal", "idle", "slow_consumer", "max_duration", "server_shutdown"],
} as const;

/** The same fields, some of them optional. */
function partial<const F extends Fields, Name extends keyof F>(fields: F, ...names: Name[]) {
  const entries = Object.entries(fields).map(([name, shape]) => [
    (names as string[]).includes(name) ? `${name}?` : name,
    shape,
  ]);
  return Object.fromEntries(entries) as {
    readonly [Key in keyof F as Key extends Name ? `${Key & string}?` : Key]: F[Key];
  };
}

export const source = {
  agentKey: isName,
  "agentName?": isText,
  sessionId: isId,
  parentSessionId: isId,
  taskId: isId,
  agentId: isId,
  depth: isLevel,
  path: isName,
} as const;
export const sourceRef = partial(source, "agentKey", "sessionId", "parentSessionId", "taskId");

export const errorShape = {
  code: isName,
  message: isText,
  retryable: isFlag,
  "where?": { "taskId?": isId, "path?": isText },
  "hint?": isText,
} as const;
// The model decides what to do next, so a producer may leave `retryable` out.
const { retryable, ...errorBase } = errorShape;
const toolError = { ...errorBase, "retryable?=false": retryable } as const;
export const usage = {
  input_tokens: isIndex,
  output_tokens: isIndex,
  total_tokens: isIndex,
  "cached_input_tokens?": isIndex,
  "reasoning_tokens?": isIndex,
} as const;
export const modelUsage = {
  provider: isText,
  model: isText,
  input_tokens: isIndex,
  output_tokens: isIndex,
} as const;
export const cost = { amount: isText, currency: isText } as const;

export const blockAddress = { task_id: isId, item_id: isId, block_index: isIndex } as const;
const citation = {
  type: "=reference_to_block",
  reference_id: isIndex,
  start_index: isOffset,
  end_index: isOffset,
  "marker?": isText,
  "target?": blockAddress,
} as const;
export const annotation = /* @__PURE__ */ new Variants([citation]);

const blockBase = {
  "id?": isBlockId,
  "reference_id?": isIndex,
  "status?": "~in_progress",
} as const;
export const textBlock = {
  type: "=text",
  text: isText,
  "annotations?": [annotation],
  ...blockBase,
} as const;
export const imageBlock = {
  type: "=image",
  image_url: { url: isText },
  "mime_type?": isText,
  "width?": isIndex,
  "height?": isIndex,
  "partial_image_index?": isIndex,
  ...blockBase,
} as const;
export const fileBlock = {
  type: "=file|audio|video",
  url: isText,
  "filename?": isText,
  "mime_type?": isText,
  ...blockBase,
} as const;
export const taskBlock = { type: "=task", task_id: isId, ...blockBase } as const;
export const omittedBlock = { type: "=omitted", ...blockBase } as const;
export const opaqueBlock = { type: isName, ...blockBase } as const;
export const block = new Variants(
  [textBlock, imageBlock, fileBlock, taskBlock, omittedBlock],
  opaqueBlock,
);

export const summaryEntry = { type: "=text", text: isText, "status?": "~in_progress" } as const;
export const reasoningText = {
  type: "=reasoning_text",
  text: isText,
  "status?": "~in_progress",
} as const;
const progress = { progress: isNumber, "total?": isNumber, "message?": isText } as const;

export const reference = {
  id: isId,
  "url?": isText,
  "title?": isText,
  "mime_type?": isText,
} as const;
const itemBase = { id: isId, "status?": "~status", "references?": [reference] } as const;
const turnItem = { ...itemBase, "message_id?": isId } as const;
export const reasoningItem = {
  type: "=reasoning",
  ...turnItem,
  summary: [summaryEntry],
  "content?": [reasoningText],
  "encrypted_content?": isText,
} as const;
export const toolCallItem = {
  type: "=tool_call",
  ...turnItem,
  call_id: isId,
  name: isText,
  arguments: isText,
  "provider_call_id?": isText,
  "arguments_status?": "~completed",
} as const;
export const toolResultItem = {
  type: "=tool_result",
  ...itemBase,
  call_id: isId,
  block_list: [block],
  "content?": [block],
  "child_task_id?": isId,
  "error?": toolError,
  "progress?": progress,
} as const;
export const messageItem = {
  type: "=message",
  ...turnItem,
  role: "~assistant",
  block_list: [block],
  "content?": [block],
  "purpose?": "~summary",
} as const;
export const discardedItem = { type: "=discarded", ...itemBase, reason: "~discarded" } as const;
/** It has no id that a reader could know. */
export const omittedItem = { type: "=omitted", ...itemBase, id: isText } as const;
export const opaqueItem = { type: isName, ...itemBase } as const;
export const item = new Variants(
  [reasoningItem, toolCallItem, toolResultItem, messageItem, discardedItem, omittedItem],
  opaqueItem,
);
/** The change that closes an item; absent fields keep the assembled value. */
export const itemChange = new Variants(
  [
    partial(reasoningItem, "summary"),
    partial(toolCallItem, "name", "arguments"),
    partial(toolResultItem, "block_list"),
    partial(messageItem, "role", "block_list"),
  ],
  opaqueItem,
  ["discarded", "omitted"],
);

const suspension = {
  reason: "~suspended",
  "approval_ids?": [isId],
  "waiting_on?": [isId],
  "expires_at?": isTime,
} as const;
const approvalRequest = {
  approval_id: isId,
  kind: "~approval",
  "call_id?": isId,
  "name?": isText,
  "arguments?": isText,
  "item_id?": isId,
  "output_index?": isIndex,
  "message?": isText,
  "options?": ["~decision"],
  "response_schema?": isJson,
  "expires_at?": isTime,
  "edited?": isTrue,
} as const;
export const approvalState = {
  ...approvalRequest,
  "decision?": "~decision",
  "by?": isText,
  "reason?": isText,
} as const;
export const hint = { id: isId, text: isText, "from_task_id?": isId } as const;
export const taskObject = {
  id: isId,
  object: "=task",
  status: "~task",
  "agent_id?": isId,
  "session_id?": isId,
  "parent_task_id?": isId,
  "parent_call_id?": isId,
  "parent_item_id?": isId,
  "mode?": "~mode",
  "remote?": isFlag,
  "created_at?": isTime,
  "completed_at?": isTime,
  "usage?": usage,
  "subtree_usage?": usage,
  "error?": errorShape,
  "reason?": isText,
  "incomplete_details?": { reason: "~incomplete_details" },
  "generate_reason?": "~generate_reason",
  "structured?": isAny,
  "metadata?": isJson,
  "output?": [item],
} as const;
export const snapshotTask = {
  ...taskObject,
  "approvals?": [approvalState],
  "cancelling?": isFlag,
  "suspension?": suspension,
  "cost?": cost,
  "hints?": [hint],
  "state?": isJson,
  "parent_output_index?": isIndex,
} as const;
const taskThatIs = <const Status extends string>(status: Status) =>
  ({ task: { ...taskObject, status: `~${status}` as const } }) as const;

const onItem = { item_id: isId, output_index: isIndex } as const;
const onSummary = { ...onItem, summary_index: isIndex } as const;
const onContent = { ...onItem, content_index: isIndex } as const;
const onBlock = { ...onItem, block_index: isIndex } as const;
const onChild = { child_task_id: isId, call_id: isId, ...onItem } as const;
const delta = { delta: isText } as const;

/** The position of an event; fold and linter read it before anything else. */
export const position = {
  task_id: isId,
  sequence_number: isIndex,
  task_seq: isIndex,
  "prev_task_seq?": isCursor,
  created_at: isTime,
} as const;
/** Where an event was made. */
export const origin = { "source?": sourceRef } as const;
/** The fields of every type of event in a log, besides `type`, `position` and `origin`. */
export const logEvents = {
  "task.created": taskThatIs("queued"),
  "task.in_progress": taskThatIs("in_progress"),
  "task.suspended": { ...suspension, "generate_reason?": "~generate_reason" },
  "task.resumed": { reason: isText },
  "task.cancelling": { "requested_by?": isText, "reason?": isText },
  "task.completed": taskThatIs("completed"),
  "task.failed": taskThatIs("failed"),
  "task.cancelled": taskThatIs("cancelled"),
  "task.incomplete": taskThatIs("incomplete"),
  "task.output_item.added": { output_index: isIndex, item },
  "task.output_item.done": { output_index: isIndex, item: itemChange },
  "task.output_item.discarded": { ...onItem, reason: "~discarded" },
  "task.reference.added": { ...onItem, reference },
  "task.reasoning_summary_item.added": { ...onSummary, item: summaryEntry },
  "task.reasoning_summary_text.delta": { ...onSummary, ...delta },
  "task.reasoning_summary_item.done": { ...onSummary, item: summaryEntry },
  "task.reasoning_text.delta": { ...onContent, ...delta },
  "task.reasoning_text.done": { ...onContent, text: isText },
  "task.tool_call_arguments.delta": { ...onItem, ...delta },
  "task.tool_call_arguments.done": { ...onItem, arguments: isText },
  "task.tool_result.progress": { ...onItem, call_id: isId, ...progress },
  "task.text.added": { ...onBlock, item: textBlock },
  "task.text.delta": { ...onBlock, ...delta },
  "task.text.annotation.added": { ...onBlock, annotation_index: isIndex, annotation },
  "task.text.done": { ...onBlock, item: textBlock },
  "task.image.added": { ...onBlock, item: imageBlock },
  "task.image.delta": { ...onBlock, partial_image_index: isIndex, item: imageBlock },
  "task.image.done": { ...onBlock, item: imageBlock },
  "task.block.done": { ...onBlock, item: block },
  "task.child.started": {
    ...onChild,
    mode: "~mode",
    "remote?": isFlag,
    agent: { id: isId, "name?": isText, key: isName },
  },
  "task.child.finished": { ...onChild, status: "~end", "usage?": usage },
  "task.child.promoted": { ...onChild, mode: "~background", reason: isText },
  "task.approval.requested": approvalRequest,
  "task.approval.resolved": {
    approval_id: isId,
    decision: "~decision",
    "by?": isText,
    "reason?": isText,
  },
  "task.hint.added": { hint },
  "task.usage": { cumulative: isTrue, usage, "by_model?": [modelUsage], "cost?": cost },
  "task.custom": { name: isId, value: isAny },
} as const;

/** The fields of a snapshot, which replaces all earlier events of a task, besides `type`. */
export const snapshot = {
  task_id: isId,
  through_sequence_number: isIndex,
  through_task_seq: isIndex,
  created_at: isTime,
  "source?": sourceRef,
  task: snapshotTask,
  "final?": isFlag,
} as const;
/** The fields of a problem of the stream, besides `type`. */
export const streamError = {
  "task_id?": isId,
  "source?": sourceRef,
  code: isName,
  message: isText,
  retryable: isFlag,
  "hint?": isText,
  "oldest_sequence_number?": isIndex,
} as const;
/** The fields of the transport's own frames, besides `type`. */
export const controlFrames = {
  "stream.opened": {
    protocol: isName,
    root_task_id: isId,
    oldest_sequence_number: isIndex,
    last_sequence_number: isCursor,
    heartbeat_ms: isIndex,
    "filter?": {
      "depth?": isIndex,
      "path?": isText,
      "include?": [isText],
      "exclude?": [isText],
    },
  },
  "stream.heartbeat": { created_at: isTime, last_sequence_number: isCursor },
  "stream.closed": {
    reason: "~closeReason",
    final: isFlag,
    last_sequence_number: isCursor,
  },
} as const;

/** Every event type of the catalogue, in its order. */
export const taskEventTypes: readonly TaskEvent["type"][] = /* @__PURE__ */ allTypes();

function allTypes() {
  return [...Object.keys(logEvents), "task.snapshot", "error"] as TaskEvent["type"][];
}
