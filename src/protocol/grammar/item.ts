import {
  isBlockId,
  isFlag,
  isId,
  isIndex,
  isLevel,
  isName,
  isNumber,
  isOffset,
  isText,
  isTrue,
  optional,
  partial,
  Variants,
} from "../shape.ts";

export const source = {
  /** The instance of the agent: `agent:<id>:<uuid>`. */
  agentKey: isName,
  /** The display name of the agent. */
  agentName: optional(isText),
  /** The session of the child. */
  sessionId: isId,
  /** The session of its parent. */
  parentSessionId: isId,
  /** The `task_id`. */
  taskId: isId,
  /** The name of the agent. */
  agentId: isId,
  /** 1 for a child of the root. */
  depth: isLevel,
  /** `<session of the root>/<agentId>/…`, one segment for each level. */
  path: isName,
} as const;
export const sourceRef = partial(source, "agentKey", "sessionId", "parentSessionId", "taskId");

export const errorShape = {
  /** The code to branch on. */
  code: isName,
  /** The message for people. */
  message: isText,
  /** Whether the same request may succeed later. */
  retryable: isFlag,
  /** The task and the path where the error occurred. */
  where: optional({ taskId: optional(isId), path: optional(isText) }),
  /** Advice for the reader. */
  hint: optional(isText),
} as const;
// The model decides what to do next, so a producer may leave `retryable` out.
const toolError = { ...errorShape, retryable: optional(isFlag, false) } as const;
export const usage = {
  /** Tokens that the model read. */
  input_tokens: isIndex,
  /** Tokens that the model wrote. */
  output_tokens: isIndex,
  /** The sum that the provider reports. */
  total_tokens: isIndex,
  /** The part of the input that came from a cache. */
  cached_input_tokens: optional(isIndex),
  /** The part of the input that was written to a cache. */
  cache_write_tokens: optional(isIndex),
  /** The part of the output that was reasoning. */
  reasoning_tokens: optional(isIndex),
} as const;
export const cost = {
  /** A decimal number. */
  amount: isText,
  /** The currency, such as `USD`. */
  currency: isText,
} as const;
export const modelUsage = {
  /** The provider. */
  provider: isText,
  /** The model. */
  model: isText,
  /** Tokens that the model read. */
  input_tokens: isIndex,
  /** Tokens that the model wrote. */
  output_tokens: isIndex,
  /** The sum that the provider reports; absent: input and output. */
  total_tokens: optional(isIndex),
  /** The part of the input that came from a cache. */
  cached_input_tokens: optional(isIndex),
  /** The part of the input that was written to a cache. */
  cache_write_tokens: optional(isIndex),
  /** The part of the output that was reasoning. */
  reasoning_tokens: optional(isIndex),
  /** The day of the calls in UTC, such as `2026-11-19`. */
  day: optional(isText),
  /** True: of calls whose reply was not kept. */
  retried: optional(isTrue),
  /** The number of calls whose tokens the provider did not report. */
  unmetered: optional(isIndex),
  /** The cost of the share; absent: unknown. */
  cost: optional(cost),
} as const;

export const blockAddress = {
  /** The task. */
  task_id: isId,
  /** The id of the item at `output_index`. */
  item_id: isId,
  /** The position in `block_list` of the item. */
  block_index: isIndex,
} as const;
export const citation = {
  type: "=reference_to_block",
  /** The number n of the marker `[^n]`; the blocks of one tool result share it. */
  reference_id: isIndex,
  /** The start of the marker in the text of the block. */
  start_index: isOffset,
  /** The end of the marker, exclusive. */
  end_index: isOffset,
  /** The text of the marker. */
  marker: optional(isText),
  /** The block that is cited. */
  target: optional(blockAddress),
} as const;
export const annotation = /* @__PURE__ */ new Variants([citation]);

const blockBase = {
  /** The id of the block. */
  id: optional(isBlockId),
  /** The number n of the marker `[^n]`; the blocks of one tool result share it. */
  reference_id: optional(isIndex),
  /** In a tree or snapshot: the block is open. */
  status: optional("~in_progress"),
} as const;
export const textBlock = {
  type: "=text",
  /** The text. */
  text: isText,
  /** The citations, in order. */
  annotations: optional([annotation]),
  ...blockBase,
} as const;
export const imageBlock = {
  type: "=image",
  /** The address of the image; empty while it has not arrived. */
  image_url: { url: isText },
  /** The media type. */
  mime_type: optional(isText),
  /** Pixels. */
  width: optional(isIndex),
  /** Pixels. */
  height: optional(isIndex),
  /** In a tree or snapshot: the number of the last preview. */
  partial_image_index: optional(isIndex),
  ...blockBase,
} as const;
export const fileBlock = {
  type: "=file|audio|video",
  /** The address: `https:`, `data:` or `task:` (a blob). */
  url: isText,
  /** The name of the file. */
  filename: optional(isText),
  /** The media type. */
  mime_type: optional(isText),
  ...blockBase,
} as const;
export const taskBlock = {
  type: "=task",
  /** The child whose output stands here. */
  task_id: isId,
  ...blockBase,
} as const;
export const omittedBlock = { type: "=omitted", ...blockBase } as const;
export const opaqueBlock = {
  /** Any other string, not empty. */
  type: isName,
  ...blockBase,
} as const;
export const block = new Variants(
  [textBlock, imageBlock, fileBlock, taskBlock, omittedBlock],
  opaqueBlock,
);

export const summaryEntry = {
  type: "=text",
  /** The text. */
  text: isText,
  /** In a tree or snapshot: the paragraph is open. */
  status: optional("~in_progress"),
} as const;
export const reasoningText = {
  type: "=reasoning_text",
  /** The text. */
  text: isText,
  /** In a tree or snapshot: the text is open. */
  status: optional("~in_progress"),
} as const;
export const progress = {
  /** How much is done. */
  progress: isNumber,
  /** How much there is to do. */
  total: optional(isNumber),
  /** The current work of the tool. */
  message: optional(isText),
} as const;

export const reference = {
  /** The id of the source. */
  id: isId,
  /** The address: `https:`, `data:` or `task:` (a blob). */
  url: optional(isText),
  /** The title. */
  title: optional(isText),
  /** The media type. */
  mime_type: optional(isText),
} as const;
const itemBase = {
  /** The id of the item. */
  id: isId,
  /** `in_progress` while the item is open, then how it closed. */
  status: optional("~status"),
  /** The sources that the provider names, in order. */
  references: optional([reference]),
} as const;
const turnItem = {
  ...itemBase,
  /** The message of the transcript; the items of one model turn share it. */
  message_id: optional(isId),
} as const;
export const reasoningItem = {
  type: "=reasoning",
  ...turnItem,
  /** The paragraphs of the summary. */
  summary: [summaryEntry],
  /** The raw reasoning, if it is sent. */
  content: optional([reasoningText]),
  /** Opaque data of the provider, only when the item closes. */
  encrypted_content: optional(isText),
} as const;
export const toolCallItem = {
  type: "=tool_call",
  ...turnItem,
  /** The id of the tool call; unique in the log. */
  call_id: isId,
  /** The name of the tool. */
  name: isText,
  /** The arguments of the call as JSON text. */
  arguments: isText,
  /** The id that the provider gave to the call. */
  provider_call_id: optional(isText),
  /** In a tree or snapshot: `completed` once the arguments are complete. */
  arguments_status: optional("~completed"),
} as const;
export const toolResultItem = {
  type: "=tool_result",
  ...itemBase,
  /** The id of the tool call; unique in the log. */
  call_id: isId,
  /** The blocks that people see. */
  block_list: [block],
  /** The blocks that the model sees; never sent on a stream. */
  content: optional([block]),
  /** The id of the child, which is the id of the call that started it. */
  child_task_id: optional(isId),
  /** Of a failed result: the reason. */
  error: optional(toolError),
  /** While the item is open: the last progress. */
  progress: optional(progress),
} as const;
export const messageItem = {
  type: "=message",
  ...turnItem,
  /** Always `assistant`. */
  role: "~assistant",
  /** The blocks that people see. */
  block_list: [block],
  /** The blocks that the model sees; never sent on a stream. */
  content: optional([block]),
  /** `summary` on the message that sums up after the last allowed iteration. */
  purpose: optional("~summary"),
} as const;
export const discardedItem = {
  type: "=discarded",
  ...itemBase,
  /** Absent: a discarded item is neither open nor closed. */
  status: optional("~status"),
  /** Why it was discarded. */
  reason: "~discarded",
} as const;
/** It has no id that a reader could know. */
export const omittedItem = {
  type: "=omitted",
  ...itemBase,
  /** Absent. */
  status: optional("~status"),
  /** The empty string, because the id is unknown. */
  id: isText,
} as const;
export const opaqueItem = {
  /** Any other string, not empty. */
  type: isName,
  ...itemBase,
} as const;
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
