import type { ControlFrame, TaskEvent } from "../protocol/event.ts";
import * as grammar from "../protocol/grammar.ts";
import type { Shape } from "../protocol/shape.ts";
import { isCursor, isId, isIndex, isOffset, isTime } from "../protocol/shape.ts";

/** The name and the sentence of every shape that has a definition of its own in the generated documents. */
export const definitions: readonly (readonly [Shape, name: string, description: string])[] = [
  [isId, "Id", "An opaque identifier; compare it as it is."],
  [isIndex, "Count", "A whole number from 0."],
  [isCursor, "Cursor", "The position of an event, or -1 for the position before the first event."],
  [isTime, "Time", "Milliseconds since 1970-01-01T00:00:00Z."],
  [isOffset, "TextIndex", "An offset in UTF-16 code units, as in JavaScript, Java and C#."],
  [grammar.source, "Source", "The descendant that an event came from."],
  [
    grammar.sourceRef,
    "SourceRef",
    "The descendant that an event came from; task.created has all fields, other events have agentId, depth and path.",
  ],
  [
    grammar.errorShape,
    "Error",
    "An error: a code to branch on, a message, and whether a retry may help.",
  ],
  [grammar.usage, "Usage", "The tokens that a task has used so far, without its children."],
  [grammar.modelUsage, "ModelUsage", "One model's share of a usage."],
  [grammar.cost, "Cost", "An amount of money; a decimal string avoids rounding."],
  [
    grammar.annotation,
    "Annotation",
    "A citation: the half-open range [start_index, end_index) of the block's text is its marker.",
  ],
  [grammar.blockAddress, "BlockAddress", "One block of one item of one task."],
  [grammar.textBlock, "TextBlock", "Text with its citations."],
  [grammar.imageBlock, "ImageBlock", "An image; an empty url means that it has not arrived yet."],
  [grammar.fileBlock, "FileBlock", "A file or a recording, by reference."],
  [grammar.taskBlock, "TaskBlock", "The position of a child's output in a list of blocks."],
  [
    grammar.omittedBlock,
    "OmittedBlock",
    "A placeholder for a block that a filtered stream left out.",
  ],
  [grammar.opaqueBlock, "OpaqueBlock", "A block of an unknown type; readers keep it as it is."],
  [grammar.block, "Block", "A piece of an item that people see."],
  [grammar.reference, "Reference", "A source that a provider names: a page or a document."],
  [grammar.hint, "Hint", "A note for the model that is not its input."],
  [grammar.summaryEntry, "SummaryEntry", "One paragraph of a reasoning's summary."],
  [grammar.reasoningText, "ReasoningText", "One piece of raw reasoning."],
  [
    grammar.reasoningItem,
    "ReasoningItem",
    "The reasoning of the model: a summary, and the raw text on request.",
  ],
  [
    grammar.toolCallItem,
    "ToolCallItem",
    "A tool call; arguments is JSON text, which may not parse before it is complete.",
  ],
  [
    grammar.toolResultItem,
    "ToolResultItem",
    "The result of a tool call; child_task_id links a child to it.",
  ],
  [grammar.messageItem, "MessageItem", "A message of the agent."],
  [grammar.discardedItem, "DiscardedItem", "A placeholder for a discarded item."],
  [
    grammar.omittedItem,
    "OmittedItem",
    "A placeholder for an item that a filtered stream left out; its id is unknown.",
  ],
  [grammar.opaqueItem, "OpaqueItem", "An item of an unknown type; readers keep it as it is."],
  [grammar.item, "Item", "An entry of a task's output."],
  [
    grammar.itemChange,
    "ItemChange",
    "The item of task.output_item.done: its identity, its status, and the fields that replace assembled values.",
  ],
  [
    grammar.approvalState,
    "ApprovalState",
    "An approval in a snapshot; it is pending until it has a decision.",
  ],
  [grammar.taskObject, "Task", "A task; lifecycle events carry the fields that changed."],
  [
    grammar.snapshotTask,
    "SnapshotTask",
    "A task with its complete state, from which a reader can continue.",
  ],
];

/** The description of every frame, by type. */
export const sentences: Readonly<Record<TaskEvent["type"] | ControlFrame["type"], string>> = {
  "task.created": "A task was created; a child names its parent, call and item.",
  "task.in_progress": "A task started to work.",
  "task.suspended": "A task waits for an approval, an external result or a suspended child.",
  "task.resumed": "A suspended or recovered task continues.",
  "task.cancelling": "A cancel was requested; the status of the task does not change yet.",
  "task.completed": "A task finished.",
  "task.failed": "A task failed; the task carries the error.",
  "task.cancelled": "A task was cancelled.",
  "task.incomplete": "A task ended before it was finished; incomplete_details has the reason.",
  "task.output_item.added": "An item opens; its lists are empty.",
  "task.output_item.done": "An item closes; absent fields keep the assembled value.",
  "task.output_item.discarded": "An item is discarded; its index is not used again.",
  "task.reference.added": "The provider names a source of an item, which keeps all of them.",
  "task.reasoning_summary_item.added": "A paragraph of a reasoning's summary opens.",
  "task.reasoning_summary_text.delta": "Text to append to a summary's paragraph.",
  "task.reasoning_summary_item.done": "A complete paragraph of a summary.",
  "task.reasoning_text.delta": "Text to append to the raw reasoning; not sent by default.",
  "task.reasoning_text.done": "A complete piece of raw reasoning.",
  "task.tool_call_arguments.delta": "JSON text to append to a call's arguments.",
  "task.tool_call_arguments.done": "The complete arguments of a call.",
  "task.tool_result.progress":
    "The progress of a running tool; the last one replaces the others, and done removes it.",
  "task.text.added": "A text block opens.",
  "task.text.delta": "Text to append; it never splits a surrogate pair.",
  "task.text.annotation.added": "A citation, sent as soon as its marker is complete.",
  "task.text.done": "A complete text block.",
  "task.image.added": "An image block opens, without the image.",
  "task.image.delta":
    "A complete preview, which REPLACES the previous one; a lower partial_image_index is ignored.",
  "task.image.done": "A complete image block.",
  "task.block.done": "A complete block of any other type.",
  "task.child.started": "On the parent: a call started a child.",
  "task.child.finished": "On the parent: a synchronous child ended.",
  "task.child.promoted":
    "On the parent: it stops waiting, and the child continues in the background.",
  "task.approval.requested":
    "A call waits for a decision; a stop may concern no call, and edited says that the call was changed.",
  "task.approval.resolved": "The decision about an approval.",
  "task.hint.added": "The model gets a note that is not its input; the task keeps all of them.",
  "task.usage": "The usage of a task so far, without its children.",
  "task.custom": "A value of the application; names that start with rivulet. belong to Rivulet.",
  "task.snapshot":
    "The state of a task at a number, made by a server; not in the log. The last one is final.",
  error: "An error of the stream; it does not change a task.",
  "stream.opened":
    "The first frame of a stream: the protocol, the range of the log and the filter.",
  "stream.heartbeat": "A heartbeat, for transports without comments.",
  "stream.closed": "The last frame of a stream; all reasons except terminal can be resumed.",
};
