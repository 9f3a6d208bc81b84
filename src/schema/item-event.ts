import { z } from "zod";
import { logEvent, onItem } from "./envelope.ts";
import { discardReason, item, itemChange, progressFields, summaryEntry } from "./item.ts";
import { count, id } from "./scalar.ts";

/** An entry of a task's output opens, fills and closes. */
export const itemEvents = {
  "task.output_item.added": logEvent(
    "task.output_item.added",
    "An item opens, its collections still empty.",
    { output_index: count, item },
  ),
  "task.output_item.done": logEvent(
    "task.output_item.done",
    "An item closes; keys that are absent keep what was assembled.",
    { output_index: count, item: itemChange },
  ),
  "task.output_item.discarded": logEvent(
    "task.output_item.discarded",
    "An item is taken back; its index is never used again.",
    { ...onItem, reason: discardReason },
  ),

  "task.reasoning_summary_item.added": logEvent(
    "task.reasoning_summary_item.added",
    "A paragraph of a reasoning's summary opens.",
    { ...onItem, summary_index: count, item: summaryEntry },
  ),
  "task.reasoning_summary_text.delta": logEvent(
    "task.reasoning_summary_text.delta",
    "Text to append to a summary's paragraph.",
    { ...onItem, summary_index: count, delta: z.string() },
  ),
  "task.reasoning_summary_item.done": logEvent(
    "task.reasoning_summary_item.done",
    "A summary's paragraph, whole.",
    { ...onItem, summary_index: count, item: summaryEntry },
  ),
  "task.reasoning_text.delta": logEvent(
    "task.reasoning_text.delta",
    "Raw reasoning to append; off by default.",
    { ...onItem, content_index: count, delta: z.string() },
  ),
  "task.reasoning_text.done": logEvent(
    "task.reasoning_text.done",
    "A piece of raw reasoning, whole.",
    { ...onItem, content_index: count, text: z.string() },
  ),

  "task.tool_call_arguments.delta": logEvent(
    "task.tool_call_arguments.delta",
    "JSON text to append to a call's arguments.",
    { ...onItem, delta: z.string() },
  ),
  "task.tool_call_arguments.done": logEvent(
    "task.tool_call_arguments.done",
    "A call's arguments, whole.",
    { ...onItem, arguments: z.string() },
  ),
  "task.tool_result.progress": logEvent(
    "task.tool_result.progress",
    "How far a running tool is; the last one wins, the final document has none.",
    { ...onItem, call_id: id, ...progressFields },
  ),
};
