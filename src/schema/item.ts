import { z } from "zod";
import { openStatus, wireBlock } from "./block.ts";
import { define } from "./definitions.ts";
import { errorShape } from "./error.ts";
import { opaque } from "./opaque.ts";
import { id } from "./scalar.ts";

/** Twin of `DiscardReason`. */
export const discardReason = z.enum([
  "provider_retry",
  "fallback",
  "recovered",
  "edited",
  "tool_retry",
]);

/** Twin of `TerminalStatus`. */
export const terminalStatus = z.enum(["completed", "failed", "cancelled", "incomplete"]);

/** Twin of `Progress`, as a shape: the progress event carries the same fields. */
export const progressFields = {
  progress: z.number(),
  total: z.number().exactOptional(),
  message: z.string().exactOptional(),
};

/** Twin of `SummaryEntry`. */
export const summaryEntry = define(
  "SummaryEntry",
  "One paragraph of a reasoning's summary.",
  z.looseObject({
    type: z.literal("text"),
    text: z.string(),
    status: openStatus.exactOptional(),
  }),
);

const reasoningText = define(
  "ReasoningText",
  "One piece of raw reasoning.",
  z.looseObject({
    type: z.literal("reasoning_text"),
    text: z.string(),
    status: openStatus.exactOptional(),
  }),
);

const base = {
  id,
  status: z.enum(["in_progress", ...terminalStatus.options]).exactOptional(),
};

const reasoningItem = define(
  "ReasoningItem",
  "What the model thought: summaries for people, raw text only when asked for.",
  z.looseObject({
    type: z.literal("reasoning"),
    ...base,
    summary: z.array(summaryEntry),
    content: z.array(reasoningText).exactOptional(),
    encrypted_content: z.string().exactOptional(),
  }),
);

const toolCallItem = define(
  "ToolCallItem",
  "The model asks for a tool; arguments is JSON text, opaque until it is complete.",
  z.looseObject({
    type: z.literal("tool_call"),
    ...base,
    call_id: id,
    name: z.string(),
    arguments: z.string(),
    provider_call_id: z.string().exactOptional(), // the provider's word, so not held to our limits
    arguments_status: z.literal("completed").exactOptional(),
  }),
);

const toolResultItem = define(
  "ToolResultItem",
  "What a tool call came to; a child's work hangs on it through child_task_id.",
  z.looseObject({
    type: z.literal("tool_result"),
    ...base,
    call_id: id,
    block_list: z.array(wireBlock),
    content: z.array(wireBlock).exactOptional(),
    child_task_id: id.exactOptional(),
    // Producers may leave `retryable` out here: the model, not the client, decides what to do next.
    error: errorShape.extend({ retryable: z.boolean().default(false) }).exactOptional(),
    progress: z.looseObject(progressFields).exactOptional(),
  }),
);

const messageItem = define(
  "MessageItem",
  "What the agent said.",
  z.looseObject({
    type: z.literal("message"),
    ...base,
    role: z.literal("assistant"),
    block_list: z.array(wireBlock),
    content: z.array(wireBlock).exactOptional(),
    purpose: z.literal("summary").exactOptional(),
  }),
);

const discardedItem = define(
  "DiscardedItem",
  "The tombstone of an item that was taken back.",
  z.looseObject({ type: z.literal("discarded"), ...base, reason: discardReason }),
);

const omittedItem = define(
  "OmittedItem",
  "The place of an item that a filtered stream left out; nobody knows its id.",
  z.looseObject({ type: z.literal("omitted"), ...base, id: z.string() }),
);

const opaqueItem = opaque(
  "OpaqueItem",
  "An item of a type that this version does not know, kept as it came.",
  ["reasoning", "tool_call", "tool_result", "message", "discarded", "omitted"],
  base,
);

/** Twin of `Item`. */
export const item = define(
  "Item",
  "An entry of a task's output.",
  z.union([
    z.discriminatedUnion("type", [
      reasoningItem,
      toolCallItem,
      toolResultItem,
      messageItem,
      discardedItem,
      omittedItem,
    ]),
    opaqueItem,
  ]),
);

/** Twin of `ItemChange`. */
export const itemChange = define(
  "ItemChange",
  "What closes an item: its identity, its status and whatever replaces what was assembled.",
  z.union([
    z.discriminatedUnion("type", [
      reasoningItem.exactPartial({ summary: true }),
      toolCallItem.exactPartial({ name: true, arguments: true }),
      toolResultItem.exactPartial({ block_list: true }),
      messageItem.exactPartial({ role: true, block_list: true }),
    ]),
    opaqueItem,
  ]),
);
