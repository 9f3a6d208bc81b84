import type { TaskEvent } from "../event.ts";
import {
  isAny,
  isCursor,
  isFlag,
  isId,
  isIndex,
  isName,
  isText,
  isTime,
  isTrue,
  optional,
} from "../shape.ts";
import {
  annotation,
  block,
  cost,
  imageBlock,
  item,
  itemChange,
  modelUsage,
  progress,
  reference,
  sourceRef,
  summaryEntry,
  textBlock,
  usage,
} from "./item.ts";
import { approvalRequest, hint, snapshotTask, suspension, taskThatIs } from "./task.ts";

const onItem = {
  /** The id of the item at `output_index`. */
  item_id: isId,
  /** The position of the item in the task's `output`. */
  output_index: isIndex,
} as const;
const onSummary = {
  ...onItem,
  /** The position in `summary` of a reasoning item. */
  summary_index: isIndex,
} as const;
const onContent = {
  ...onItem,
  /** The position in `content` of a reasoning item. */
  content_index: isIndex,
} as const;
const onBlock = {
  ...onItem,
  /** The position in `block_list` of the item. */
  block_index: isIndex,
} as const;
const onChild = {
  /** The id of the child, which is the id of the call that started it. */
  child_task_id: isId,
  /** The id of the tool call; unique in the log. */
  call_id: isId,
  ...onItem,
} as const;
const delta = {
  /** The text to append. */
  delta: isText,
} as const;

/** The position of an event; fold and linter read it before anything else. */
export const position = {
  /** The task that the event changes. */
  task_id: isId,
  /** The position in the log of the whole tree; the `id` of the server-sent event. */
  sequence_number: isIndex,
  /** The position among the events of this task. */
  task_seq: isIndex,
  /** On a filtered stream: the `task_seq` of the previous event of this task that was sent, −1 for none. */
  prev_task_seq: optional(isCursor),
  /** When the event was made; does not define the order. */
  created_at: isTime,
} as const;
/** Where an event was made. */
export const origin = {
  /** The descendant that the event came from; absent on events of the root. */
  source: optional(sourceRef),
} as const;
/** The fields of every type of event in a log, besides `type`, `position` and `origin`. */
export const logEvents = {
  "task.created": taskThatIs("queued"),
  "task.in_progress": taskThatIs("in_progress"),
  "task.suspended": {
    ...suspension,
    /** Why the agent stopped generating. */
    generate_reason: optional("~generate_reason"),
  },
  "task.resumed": {
    /** `approval_resolved`, `continued`, `cancelled` or `recovered` (another process took over). */
    reason: isText,
  },
  "task.cancelling": {
    /** The user that asked for it. */
    requested_by: optional(isText),
    /** The reason that the caller gave. */
    reason: optional(isText),
  },
  "task.completed": taskThatIs("completed"),
  "task.failed": taskThatIs("failed"),
  "task.cancelled": taskThatIs("cancelled"),
  "task.incomplete": taskThatIs("incomplete"),
  "task.output_item.added": {
    /** The position of the item in the task's `output`. */
    output_index: isIndex,
    /** The item as it opens. */
    item,
  },
  "task.output_item.done": {
    /** The position of the item in the task's `output`. */
    output_index: isIndex,
    /** The fields that replace the assembled ones. */
    item: itemChange,
  },
  "task.output_item.discarded": {
    ...onItem,
    /** Why it was discarded. */
    reason: "~discarded",
  },
  "task.reference.added": {
    ...onItem,
    /** The source. */
    reference,
  },
  "task.reasoning_summary_item.added": {
    ...onSummary,
    /** The paragraph, usually with an empty `text`. */
    item: summaryEntry,
  },
  "task.reasoning_summary_text.delta": { ...onSummary, ...delta },
  "task.reasoning_summary_item.done": {
    ...onSummary,
    /** The complete paragraph. */
    item: summaryEntry,
  },
  "task.reasoning_text.delta": { ...onContent, ...delta },
  "task.reasoning_text.done": {
    ...onContent,
    /** The complete text. */
    text: isText,
  },
  "task.tool_call_arguments.delta": { ...onItem, ...delta },
  "task.tool_call_arguments.done": {
    ...onItem,
    /** The arguments of the call as JSON text. */
    arguments: isText,
  },
  "task.tool_result.progress": {
    ...onItem,
    /** The id of the tool call; unique in the log. */
    call_id: isId,
    ...progress,
  },
  "task.text.added": {
    ...onBlock,
    /** The block, usually with an empty `text`. */
    item: textBlock,
  },
  "task.text.delta": { ...onBlock, ...delta },
  "task.text.annotation.added": {
    ...onBlock,
    /** The position in `annotations` of the text block. */
    annotation_index: isIndex,
    /** The citation. */
    annotation,
  },
  "task.text.done": {
    ...onBlock,
    /** The complete block with all its annotations. */
    item: textBlock,
  },
  "task.image.added": {
    ...onBlock,
    /** The block, with an empty `image_url.url`. */
    item: imageBlock,
  },
  "task.image.delta": {
    ...onBlock,
    /** The number of the preview, rising. */
    partial_image_index: isIndex,
    /** A complete preview, which replaces the block. */
    item: imageBlock,
  },
  "task.image.done": {
    ...onBlock,
    /** The complete block. */
    item: imageBlock,
  },
  "task.block.done": {
    ...onBlock,
    /** The complete block. */
    item: block,
  },
  "task.child.started": {
    ...onChild,
    /** Whether the parent waits for the child (`sync`) or not (`background`). */
    mode: "~mode",
    /** True if the child runs on another server. */
    remote: optional(isFlag),
    /** The agent of the child; `key` is `agent:<id>:<uuid>`. */
    agent: { id: isId, name: optional(isText), key: isName },
  },
  "task.child.finished": {
    ...onChild,
    /** How the child ended. */
    status: "~end",
    /** The usage of the child. */
    usage: optional(usage),
  },
  "task.child.promoted": {
    ...onChild,
    /** The new mode. */
    mode: "~background",
    /** `sync_timeout`. */
    reason: isText,
  },
  "task.approval.requested": approvalRequest,
  "task.approval.resolved": {
    /** The id of the approval. */
    approval_id: isId,
    /** The decision; an approval is pending until it has one. */
    decision: "~decision",
    /** The user that decided. */
    by: optional(isText),
    /** The reason of the decision. */
    reason: optional(isText),
  },
  "task.hint.added": {
    /** The note. */
    hint,
  },
  "task.usage": {
    /** Always true: the values are totals so far. */
    cumulative: isTrue,
    /** The tokens of this task so far, without its children. */
    usage,
    /** The shares of the models in `usage` so far, without overlap: one for each model, or several that differ in `day`, `retried` or the currency of `cost`. */
    by_model: optional([modelUsage]),
    /** The cost of this task so far, without its children. */
    cost: optional(cost),
  },
  "task.custom": {
    /** The name of the value; names that start with `rivulet.` belong to Rivulet: `rivulet.ignored` (a posted row could not be read), `rivulet.retry` (a model or tool call is tried again). */
    name: isId,
    /** The value; the last one of each name counts. */
    value: isAny,
  },
} as const;

/** The fields of a snapshot, which replaces all earlier events of a task, besides `type`. */
export const snapshot = {
  /** The task. */
  task_id: isId,
  /** The state includes all events of the log up to this number. */
  through_sequence_number: isIndex,
  /** The state includes all events of the task up to this number. */
  through_task_seq: isIndex,
  /** When the snapshot was made. */
  created_at: isTime,
  /** The descendant that the event came from; absent on events of the root. */
  source: optional(sourceRef),
  /** The complete state of the task. */
  task: snapshotTask,
  /** True on the last snapshot: no event up to `through_sequence_number` is missing. */
  final: optional(isFlag),
} as const;
/** The fields of a problem of the stream, besides `type`. */
export const streamError = {
  /** The task that the error is about. */
  task_id: optional(isId),
  /** The descendant that the event came from; absent on events of the root. */
  source: optional(sourceRef),
  /** The code to branch on. */
  code: isName,
  /** The message for people. */
  message: isText,
  /** Whether the same request may succeed later. */
  retryable: isFlag,
  /** Advice for the reader. */
  hint: optional(isText),
  /** The first event that the log still has. */
  oldest_sequence_number: optional(isIndex),
} as const;
/** The fields of the transport's own frames, besides `type`. */
export const controlFrames = {
  "stream.opened": {
    /** `rivulet.task-stream/1`. */
    protocol: isName,
    /** The task that the stream is rooted in. */
    root_task_id: isId,
    /** The first event that the log still has. */
    oldest_sequence_number: isIndex,
    /** The last event of the log, −1 if there is none. */
    last_sequence_number: isCursor,
    /** The longest silence between two comments. */
    heartbeat_ms: isIndex,
    /** The filter of the stream. */
    filter: optional({
      depth: optional(isIndex),
      path: optional(isText),
      include: optional([isText]),
      exclude: optional([isText]),
    }),
  },
  "stream.heartbeat": {
    /** When the heartbeat was made. */
    created_at: isTime,
    /** The last event of the log, −1 if there is none. */
    last_sequence_number: isCursor,
  },
  "stream.closed": {
    /** Why the stream ends. */
    reason: "~closeReason",
    /** True if every task of the log has ended: no event will follow. */
    final: isFlag,
    /** The last event of the log, −1 if there is none. */
    last_sequence_number: isCursor,
  },
} as const;

/** Every event type of the catalogue, in its order. */
export const taskEventTypes: readonly TaskEvent["type"][] = /* @__PURE__ */ allTypes();

function allTypes() {
  return [...Object.keys(logEvents), "task.snapshot", "error"] as TaskEvent["type"][];
}
