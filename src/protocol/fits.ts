import { isId, isIndex, isObject } from "./draft.ts";
import type { LogEvent, TaskSnapshot, TextDelta } from "./event.ts";

type Check = (value: unknown) => boolean;
/** Deltas of text are the bulk of a stream; what little they carry is looked at by the rule that appends it. */
type TextDeltaType = Extract<LogEvent, Pick<TextDelta, "delta">>["type"];
/** The events whose shape is looked at before their rule sees them. */
type ShapedEvent = Exclude<LogEvent, { readonly type: TextDeltaType }> | TaskSnapshot;

/** How deep an event may nest: deeper than anything that is meant to be read, far from the end of any stack. */
const maxNesting = 200;

/**
 * Whether an event is built as its type says, so that whatever reads the tree may rely on what stands in it. It asks
 * for what this version relies on and leaves room for later ones: items, blocks and annotations of an unknown type,
 * other words where a word is asked for, and fields without a name here are let through.
 */
export function fits(event: ShapedEvent): boolean {
  return shapes[event.type](event);
}

/** Whether a value's nesting has an end that every reader can reach. */
export function nests(value: unknown, levels = maxNesting): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((entry) => nests(entry, levels - 1));
  for (const key in value) {
    if (!nests((value as Record<string, unknown>)[key], levels - 1)) return false;
  }
  return true;
}

const text: Check = (value) => typeof value === "string";
const flag: Check = (value) => typeof value === "boolean";
const number: Check = Number.isFinite;

function maybe(check: Check): Check {
  return (value) => value === undefined || check(value);
}

function listOf(check: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return false;
    for (const entry of value) if (!check(entry)) return false; // Not `every`: that leaps over holes.
    return true;
  };
}

function record(fields: Readonly<Record<string, Check>>): Check {
  const names = Object.keys(fields);
  const checks = Object.values(fields);
  return (value) => {
    if (!isObject(value)) return false;
    for (let at = 0; at < names.length; at++) {
      if (!(checks[at] as Check)(value[names[at] as string])) return false;
    }
    return true;
  };
}

/** What is kept as it came, with all that is in it. */
function kept(check: Check, levels = maxNesting): Check {
  return (value) => check(value) && nests(value, levels);
}

/** Of a known `type`: what that asks for. Of an unknown one: anything. */
function typed(kinds: Readonly<Record<string, Check>>): Check {
  const checks = new Map(Object.entries(kinds));
  return (value) =>
    isObject(value) && isId(value.type) && (checks.get(value.type)?.(value) ?? true);
}

/** Whether a value can say which descendant an event came from. */
export const isSource = kept(record({ agentId: text, depth: isIndex, path: text }));
const target = record({ task_id: isId, item_id: text, block_index: isIndex });
const annotation = typed({
  reference_to_block: record({
    reference_id: number,
    start_index: isIndex,
    end_index: isIndex,
    target: maybe(target),
  }),
});
const textBlock = record({ text, annotations: maybe(listOf(annotation)) });
const imageBlock = record({ image_url: record({ url: text }) });
const block = typed({
  text: textBlock,
  reasoning_text: textBlock,
  image: imageBlock,
  image_url: imageBlock,
  task: record({ task_id: isId }),
});
const ofType =
  (...types: readonly string[]): Check =>
  (value) =>
    block(value) && types.includes((value as { type: string }).type);

const blocks = maybe(listOf(block));
const error = record({ code: text, message: text });
const progress = { progress: number, total: maybe(number), message: maybe(text) };
const holder = { block_list: blocks, content: maybe(Array.isArray) };
const knownItem = typed({
  reasoning: record({ summary: blocks, content: blocks }),
  tool_call: record({ call_id: maybe(text), name: maybe(text), arguments: maybe(text) }),
  tool_result: record({
    ...holder,
    call_id: text,
    child_task_id: maybe(isId),
    error: maybe(error),
    progress: maybe(record(progress)),
  }),
  message: record(holder),
});
const identified = record({ id: isId, status: maybe(text) });
/** Whether a value can be an item of an output. */
export const isItem: Check = (value) => identified(value) && knownItem(value);
/** An entry of a whole output; a place that was left out has no id. */
const entry: Check = (value) => (isObject(value) && value.type === "omitted") || isItem(value);

const usage = kept(
  record({
    input_tokens: number,
    output_tokens: number,
    total_tokens: number,
    cached_input_tokens: maybe(number),
    reasoning_tokens: maybe(number),
  }),
);
const cost = kept(record({ amount: text, currency: text }));
const suspension = {
  reason: text,
  approval_ids: maybe(listOf(text)),
  waiting_on: maybe(listOf(text)),
  expires_at: maybe(number),
};
const approval = {
  approval_id: isId,
  kind: text,
  call_id: maybe(text),
  item_id: maybe(text),
  output_index: maybe(isIndex),
  name: maybe(text),
  arguments: maybe(text),
  message: maybe(text),
  options: maybe(listOf(text)),
  response_schema: maybe(isObject),
  expires_at: maybe(number),
};
const taskFields = {
  agent_id: maybe(text),
  session_id: maybe(text),
  parent_task_id: maybe(isId),
  parent_call_id: maybe(text),
  parent_item_id: maybe(text),
  parent_output_index: maybe(isIndex),
  mode: maybe(text),
  remote: maybe(flag),
  created_at: maybe(number),
  completed_at: maybe(number),
  usage: maybe(usage),
  subtree_usage: maybe(usage),
  error: maybe(error),
  reason: maybe(text),
  incomplete_details: maybe(record({ reason: text })),
  generate_reason: maybe(text),
  metadata: maybe(isObject),
  output: maybe(listOf(entry)),
};
const lifecycle = record({ task: kept(record(taskFields)) });
const snapshot = record({
  through_task_seq: isIndex,
  through_sequence_number: isIndex,
  source: maybe(isSource),
  task: kept(
    record({
      ...taskFields,
      status: text,
      approvals: maybe(listOf(record(approval))),
      cancelling: maybe(flag),
      suspension: maybe(record(suspension)),
      cost: maybe(cost),
      state: maybe(isObject),
    }),
    maxNesting + 4, // what an event brought stands a little deeper in its task
  ),
});

const onBlock = { output_index: isIndex, block_index: isIndex };
const onSummary = { output_index: isIndex, summary_index: isIndex };
const onChild = { child_task_id: isId, call_id: isId, item_id: text, output_index: isIndex };
const shapes: Readonly<Record<ShapedEvent["type"], Check>> = {
  "task.created": lifecycle,
  "task.in_progress": lifecycle,
  "task.completed": lifecycle,
  "task.failed": lifecycle,
  "task.cancelled": lifecycle,
  "task.incomplete": lifecycle,
  "task.snapshot": snapshot,
  "task.suspended": record({ ...suspension, generate_reason: maybe(text) }),
  "task.resumed": record({}),
  "task.cancelling": record({}),
  "task.output_item.added": record({ output_index: isIndex, item: kept(isItem) }),
  "task.output_item.done": record({ output_index: isIndex, item: kept(isItem) }),
  "task.output_item.discarded": record({ output_index: isIndex, item_id: isId, reason: text }),
  "task.reasoning_summary_item.added": record({ ...onSummary, item: kept(block) }),
  "task.reasoning_summary_item.done": record({ ...onSummary, item: kept(block) }),
  "task.reasoning_text.done": record({ output_index: isIndex, content_index: isIndex, text }),
  "task.tool_call_arguments.done": record({ output_index: isIndex, arguments: text }),
  "task.tool_result.progress": record({ output_index: isIndex, ...progress }),
  "task.text.added": record({ ...onBlock, item: kept(ofType("text")) }),
  "task.text.done": record({ ...onBlock, item: kept(ofType("text")) }),
  "task.text.annotation.added": record({
    ...onBlock,
    annotation_index: isIndex,
    annotation: kept(annotation),
  }),
  "task.image.added": record({ ...onBlock, item: kept(ofType("image", "image_url")) }),
  "task.image.delta": record({
    ...onBlock,
    partial_image_index: isIndex,
    item: kept(ofType("image", "image_url")),
  }),
  "task.image.done": record({ ...onBlock, item: kept(ofType("image", "image_url")) }),
  "task.block.done": record({ ...onBlock, item: kept(block) }),
  "task.child.started": record({
    ...onChild,
    mode: text,
    remote: maybe(flag),
    agent: maybe(record({ id: text })),
  }),
  "task.child.finished": record({ ...onChild, status: text, usage: maybe(usage) }),
  "task.child.promoted": record(onChild),
  "task.approval.requested": kept(
    record({ ...approval, call_id: text, name: text, arguments: text }),
  ),
  "task.approval.resolved": record({
    approval_id: isId,
    decision: text,
    by: maybe(text),
    reason: maybe((value) => value === null || text(value)),
  }),
  "task.usage": record({ usage, cost: maybe(cost) }),
  "task.custom": record({ name: isId, value: kept((value) => value !== undefined) }),
};
