import type { CheckRule } from "../../../src/protocol/check/check.ts";
import {
  add,
  both,
  type Change,
  drop,
  each,
  edit,
  editAnnotation,
  editBlock,
  isOf,
  lateJoin,
  move,
  on,
  place,
  renumbered,
} from "./edit-log.ts";
import type { Kills } from "./kills.ts";

type ItemRule = Extract<
  CheckRule,
  | "I2"
  | "I3"
  | "I4"
  | "I5"
  | "I6"
  | "I8"
  | "I9"
  | "I10"
  | "I11"
  | "I12"
  | "A1"
  | "A3"
  | "A5"
  | "A9"
  | "A16"
  | "A17"
  | "A20"
  | "A23"
  | "surrogate"
>;

const target = (fields: object) => ({ target: { ...fields } });
const otherText = { type: "text", text: "Another text." };

/** Sends a delta in two parts. */
function cut(id: string, at: (delta: string) => number): Change {
  return (events) => {
    const from = events.findIndex(
      ({ type, item_id, delta }) =>
        type === "task.text.delta" && item_id === id && at(String(delta)) >= 0,
    );
    const event = events[from] as (typeof events)[number];
    const delta = String(event.delta);
    const middle = at(delta) + 1;
    const halves = [delta.slice(0, middle), delta.slice(middle)];
    return renumbered(
      events.toSpliced(from, 1, ...halves.map((half) => ({ ...event, delta: half }))),
    );
  };
}

/** Mistakes in items, their parts and citations. */
export const itemKills: Kills<ItemRule> = {
  I2: {
    "a hole in the output": each(isOf("msg_p"), () => ({ output_index: 3 })),
    "an index that was used": each(isOf("msg_p"), () => ({ output_index: 1 })),
    "the index of a discarded item": each(isOf("msg_sum"), () => ({ output_index: 0 })),
    "a hole between blocks": edit("block.done", "fco_measure", { block_index: 3 }),
    "a hole between summaries": each(
      ({ summary_index }) => summary_index === 1,
      () => ({ summary_index: 2 }),
    ),
    "raw reasoning that begins at 1": each(
      ({ content_index }) => content_index !== undefined,
      () => ({ content_index: 1 }),
    ),
  },
  I3: {
    "a delta of another item": edit("text.delta", "msg_start", { item_id: "msg_answer" }),
    "a delta at another index": edit("text.delta", "msg_answer", { output_index: 2 }),
    "an item that closes under another id": edit("output_item.done", "msg_w", {
      item: { id: "msg_other" },
    }),
    "an item that closes as another type": edit("output_item.done", "msg_w", {
      item: { type: "tool_result", call_id: "call_measure" },
    }),
    "another item discarded": edit("output_item.discarded", "msg_broken", { item_id: "msg_start" }),
    "a text in a reasoning": add("reasoning_summary_item.added", "rs_s", {
      type: "task.text.done",
      item_id: "rs_s",
      output_index: 0,
      block_index: 0,
      item: otherText,
    }),
    "the progress of another call": edit("tool_result.progress", "fco_order", {
      call_id: "call_draw",
    }),
    "a call whose tool changes": edit("output_item.done", "fc_measure", {
      item: { name: "erase" },
    }),
    "a call whose id changes": edit("output_item.done", "fc_measure", {
      item: { call_id: "call_other" },
    }),
    "a result whose call changes": edit("output_item.done", "fco_measure", {
      item: { call_id: "call_order" },
    }),
    "two results that swap their calls at the end": both(
      edit("output_item.done", "fco_courier", { item: { call_id: "call_translate" } }),
      edit("output_item.done", "fco_translate", { item: { call_id: "call_courier" } }),
    ),
    "a message whose purpose changes": edit("output_item.added", "msg_sum", {
      item: { purpose: undefined },
    }),
    "a call whose provider id changes": both(
      edit("output_item.added", "fc_measure", { item: { provider_call_id: "toolu_1" } }),
      edit("output_item.done", "fc_measure", { item: { provider_call_id: "toolu_2" } }),
    ),
    "a child started on a call": edit("child.started", "call_archive", {
      item_id: "fc_archive",
      output_index: 4,
    }),
    "a child started on another result": edit("child.started", "call_archive", {
      item_id: "fco_courier",
      output_index: 12,
    }),
    "a child started at another index": edit("child.started", "call_archive", { output_index: 12 }),
    "a child finished on another item": edit("child.finished", "call_station", {
      item_id: "fc_station",
    }),
    "a child finished at another index": edit("child.finished", "call_station", {
      output_index: 1,
    }),
    "a child promoted on another item": edit("child.promoted", "call_poster", {
      item_id: "fco_archive",
    }),
    "an approval of an item at another index": edit("approval.requested", "apr_measure", {
      output_index: 1,
    }),
  },
  I4: {
    "an item that was never opened": drop("output_item.added", "msg_p"),
    "an item closed twice": add("output_item.done", "msg_p", {
      type: "task.output_item.done",
      output_index: 2,
      item: { type: "message", id: "msg_p", status: "completed", block_list: [] },
    }),
    "an item closed after it was discarded": add("output_item.discarded", "msg_broken", {
      type: "task.output_item.done",
      output_index: 1,
      item: { type: "message", id: "msg_broken", status: "completed", block_list: [] },
    }),
    "an item discarded twice": add("output_item.discarded", "msg_broken", {
      type: "task.output_item.discarded",
      output_index: 1,
      item_id: "msg_broken",
      reason: "fallback",
    }),
    "a delta after the item": move("output_item.done", "msg_w", "text.delta", "msg_w"),
    "a delta after its text": move("text.done", "msg_start", "text.delta", "msg_start"),
    "a progress after the result": move(
      "output_item.done",
      "fco_order",
      "tool_result.progress",
      "fco_order",
    ),
    "an annotation after its text": move("text.done", "msg_w", "text.annotation.added", "msg_w"),
    "an annotation of an image": edit("text.annotation.added", "msg_w", {
      output_index: 1,
      item_id: "fco_measure",
      block_index: 1,
    }),
    "a text that becomes an image": edit("text.done", "msg_start", {
      type: "task.image.done",
      item: { type: "image", image_url: { url: "task://x" } },
    }),
    "an image that becomes a text": edit("image.done", "fco_draw", {
      type: "task.text.done",
      item: { type: "text", text: "A poster." },
    }),
    "a text delta for an image": add("image.delta", "fco_draw", {
      type: "task.text.delta",
      item_id: "fco_draw",
      output_index: 1,
      block_index: 0,
      delta: "x",
    }),
    "a block whose id changes": edit("text.done", "fco_measure", { item: { id: "blk_other" } }),
    "a block whose number changes": edit("text.done", "fco_measure", { item: { reference_id: 2 } }),
    "an image whose id changes": edit("image.done", "fco_draw", { item: { id: "blk_other" } }),
    "a finished text that says it is open": edit("text.done", "msg_p", {
      item: { status: "in_progress" },
    }),
    "a finished image that is a preview": edit("image.done", "fco_draw", {
      item: { partial_image_index: 2 },
    }),
    "an item that opens with a text": edit("output_item.added", "msg_p", {
      item: { block_list: [otherText] },
    }),
    "a call that opens with arguments": edit("output_item.added", "fc_measure", {
      item: { arguments: "{}" },
    }),
    "a reasoning that opens with a summary": edit("output_item.added", "rs_s", {
      item: { summary: [otherText] },
    }),
    "a result that opens with a child": edit("output_item.added", "fco_courier", {
      item: { child_task_id: "call_courier" },
    }),
    "a result that opens with an error": edit("output_item.added", "fco_order", {
      item: { error: { code: "x", message: "x", retryable: false } },
    }),
  },
  I5: {
    "a delta with another text": edit("text.delta", "msg_w", { delta: "It snows in Paris, " }),
    "a lost delta": drop("text.delta", "msg_answer"),
    "two deltas in the wrong order": move("text.delta", "msg_w", "text.annotation.added", "msg_w"),
    "a text with another end": edit("text.done", "msg_start", { item: { text: "I will not." } }),
    "a delta of a summary with another text": edit("reasoning_summary_text.delta", "rs_s", {
      delta: "No station ",
    }),
    "another summary": edit("reasoning_summary_item.done", "rs_s", { item: { text: "No." } }),
    "other raw reasoning": edit("reasoning_text.done", "rs_plan", { text: "museums first" }),
    "a delta of arguments with another text": edit("tool_call_arguments.delta", "fc_measure", {
      delta: '{"city":"Rome',
    }),
    "other arguments": edit("tool_call_arguments.done", "fc_measure", {
      arguments: '{"city":"Rome"}',
    }),
    "a text after a snapshot with another beginning": on(
      lateJoin,
      edit("text.delta", "msg_sum", { delta: "I filed nothing " }),
    ),
  },
  I6: {
    "an item with another text": editBlock("msg_w", { text: "It snows." }),
    "an item with a block less": edit("output_item.done", "fco_measure", (event) => ({
      item: {
        block_list: (event.item as { block_list: readonly object[] }).block_list.slice(0, 2),
      },
    })),
    "an item with a block more": edit("output_item.done", "msg_p", (event) => ({
      item: {
        block_list: [...(event.item as { block_list: readonly object[] }).block_list, otherText],
      },
    })),
    "an item without its blocks": edit("output_item.done", "msg_p", {
      item: { block_list: undefined },
    }),
    "an item with another summary": edit("output_item.done", "rs_s", {
      item: { summary: [otherText] },
    }),
    "an item without its summary": edit("output_item.done", "rs_s", {
      item: { summary: undefined },
    }),
    "an item with other raw reasoning": edit("output_item.done", "rs_plan", {
      item: { content: [{ type: "reasoning_text", text: "museums" }] },
    }),
    "an item without its raw reasoning": edit("output_item.done", "rs_plan", {
      item: { content: undefined },
    }),
    "a call with other arguments": edit("output_item.done", "fc_order", {
      item: { arguments: '{"umbrellas":20}' },
    }),
    "a call without its arguments": edit("output_item.done", "fc_order", {
      item: { arguments: undefined },
    }),
    "an item with another annotation": both(
      editAnnotation("msg_w", {}),
      editBlock("msg_w", { annotations: [] }),
    ),
    "an item whose annotation has another target": editBlock("msg_w", {
      annotations: [
        {
          type: "reference_to_block",
          reference_id: 1,
          start_index: 23,
          end_index: 27,
          marker: "[^1]",
          target: { task_id: "call_station", item_id: "fco_measure", block_index: 1 },
        },
      ],
    }),
    "an item with another file": editBlock(
      "fco_measure",
      { url: "task://call_station/blobs/x" },
      2,
    ),
    "an item whose file has another name": editBlock("fco_measure", { filename: "secrets.csv" }, 2),
    "an item whose file has another type": editBlock("fco_measure", { mime_type: "text/html" }, 2),
    "an item with another image": editBlock("fco_measure", { image_url: { url: "task://x" } }, 1),
    "an item whose image has another size": editBlock("fco_draw", { width: 1 }),
    "an item whose block has another id": editBlock("fco_measure", { id: "blk_other" }),
    "an item whose block has another number": editBlock("fco_measure", { reference_id: 2 }),
    "an item whose block has another type": editBlock("fco_measure", { type: "audio" }, 2),
    "an interrupted item with another text": editBlock("msg_t", { text: "Il pleut" }),
    "a result with its progress": edit("output_item.done", "fco_order", {
      item: { progress: { progress: 1 } },
    }),
  },
  I8: {
    "a delta for a text that was not opened": drop("text.added", "msg_start"),
    "a delta for a summary that was not opened": drop("reasoning_summary_item.added", "rs_s"),
    "a preview for an image that was not opened": drop("image.added", "fco_draw"),
  },
  I9: {
    "previews that go back": edit("image.delta", "fco_draw", { partial_image_index: 1 }),
    "a preview without an image": edit("image.delta", "fco_draw", {
      item: { image_url: { url: "" } },
    }),
    "an image without a url": edit("image.done", "fco_draw", { item: { image_url: { url: "" } } }),
  },
  I10: {
    "a result with content": edit("output_item.done", "fco_order", {
      item: { content: [otherText] },
    }),
    "a message with content": edit("output_item.done", "msg_w", { item: { content: [otherText] } }),
    "an opening message with content": edit("output_item.added", "msg_w", {
      item: { content: [] },
    }),
  },
  I11: {
    "a result that does not name its child": edit("output_item.done", "fco_courier", {
      item: { child_task_id: undefined },
    }),
    "a result that names another child": edit("output_item.done", "fco_courier", {
      item: { child_task_id: "call_poster" },
    }),
    "a result that repeats its child's output": edit("output_item.done", "fco_courier", {
      item: { block_list: [{ type: "message", id: "msg_c" }] },
    }),
  },
  I12: {
    "a block of an unknown task": edit("block.done", "fco_station", {
      item: { task_id: "call_other" },
    }),
    "a block of another task's child": edit("block.done", "fco_station", {
      item: { task_id: "call_poster" },
    }),
    "a block of its own task": edit("block.done", "fco_station", {
      item: { task_id: "call_research" },
    }),
    "a block of another call's child": add("child.started", "call_archive", {
      type: "task.block.done",
      item_id: "fco_archive",
      output_index: 9,
      block_index: 0,
      item: { type: "task", task_id: "call_research" },
    }),
    "two children in one result": edit("child.started", "call_archive", {
      item_id: "fco_research",
      output_index: 8,
      call_id: "call_research",
    }),
  },
  A1: {
    "a range that begins too early": editAnnotation("msg_w", { start_index: 22 }),
    "a range that ends too late": editAnnotation("msg_w", { end_index: 28 }),
    "a range beyond the text": editAnnotation("msg_w", { start_index: 90, end_index: 94 }),
    "another marker": editAnnotation("msg_w", { marker: "[^9]" }),
    "another number without a marker": editAnnotation("msg_w", {
      marker: undefined,
      reference_id: 9,
    }),
    "a range that is wrong while the text grows": edit("text.annotation.added", "msg_answer", {
      annotation: { start_index: 75, end_index: 79 },
    }),
    "a citation before its text": move("text.annotation.added", "msg_w", "text.delta", "msg_w"),
  },
  A3: {
    "an image of the first form": edit("image.done", "fco_measure", {
      item: { type: "image_url" },
    }),
    "an image of the first form in the item": editBlock("fco_measure", { type: "image_url" }, 1),
  },
  A5: {
    "a text opened twice": add("text.added", "msg_start", {
      type: "task.text.added",
      item_id: "msg_start",
      output_index: 2,
      block_index: 0,
      item: { type: "text", text: "" },
    }),
    "a text opened after it was done": move("text.done", "msg_w", "text.added", "msg_w"),
    "a file sent twice": (events) => {
      const at = place(events, "block.done", "fco_measure");
      return renumbered(events.toSpliced(at, 0, events[at] as (typeof events)[number]));
    },
    "arguments done twice": (events) => {
      const at = place(events, "tool_call_arguments.done", "fc_order");
      return renumbered(events.toSpliced(at, 0, events[at] as (typeof events)[number]));
    },
  },
  A9: {
    "two items of one id": each(isOf("msg_p"), ({ item_id }) =>
      item_id ? { item_id: "fc_draw" } : { item: { id: "fc_draw" } },
    ),
    "two calls of one id": each(isOf("fc_order"), ({ item }) =>
      item ? { item: { call_id: "call_draw" } } : {},
    ),
    "a snapshot with two items of one id": on(
      lateJoin,
      edit("snapshot", "call_poster", ({ task }) => {
        const { output } = task as { output: readonly object[] };
        return { task: { output: [output[0], { ...output[1], id: "fc_draw" }] } };
      }),
    ),
  },
  A16: {
    "a number as the id of a block": edit("text.done", "fco_measure", { item: { id: 1 } }),
    "a number as the id of an image": edit("image.done", "fco_draw", { item: { id: 1 } }),
  },
  A17: {
    "a target that does not exist": both(
      drop("text.annotation.added", "msg_w"),
      editAnnotation("msg_w", target({ item_id: "fco_other" })),
    ),
    "a block that does not exist": both(
      drop("text.annotation.added", "msg_w"),
      editAnnotation("msg_w", target({ block_index: 9 })),
    ),
    "a target that was discarded": both(
      drop("text.annotation.added", "msg_w"),
      editAnnotation("msg_w", target({ task_id: "task_lead", item_id: "msg_broken" })),
    ),
    "a target with another number": both(
      edit("text.added", "fco_measure", { item: { reference_id: 4 } }),
      edit("text.done", "fco_measure", { item: { reference_id: 4 } }),
      editBlock("fco_measure", { reference_id: 4 }),
    ),
    "a call as the target": both(
      drop("text.annotation.added", "msg_w"),
      editAnnotation("msg_w", target({ item_id: "fc_measure" })),
    ),
  },
  A20: {
    "an annotation that is lost": edit("text.done", "msg_w", { item: { annotations: [] } }),
    "an annotation at the wrong index": edit("text.annotation.added", "msg_w", {
      annotation_index: 1,
    }),
    "two annotations in the wrong order": edit("text.done", "msg_s", (event) => ({
      item: {
        annotations: (event.item as { annotations: readonly object[] }).annotations.toReversed(),
      },
    })),
    "an annotation whose target changes": editAnnotation("msg_w", target({ block_index: 1 })),
    "an annotation whose target's item changes": editAnnotation(
      "msg_s",
      target({ item_id: "fco_station", task_id: "call_research" }),
    ),
    "an annotation that loses its target": editAnnotation("msg_w", { target: undefined }),
    "an annotation that loses its marker": editAnnotation("msg_w", { marker: undefined }),
    "an annotation whose number changes": editAnnotation("msg_w", { reference_id: 2 }),
  },
  A23: {
    "an item that opens as completed": edit("output_item.added", "msg_w", {
      item: { status: "completed" },
    }),
    "an item that opens without a status": edit("output_item.added", "msg_w", {
      item: { status: undefined },
    }),
    "an item that closes as in progress": edit("output_item.done", "msg_w", {
      item: { status: "in_progress" },
    }),
    "an item that closes without a status": edit("output_item.done", "msg_w", {
      item: { status: undefined },
    }),
  },
  surrogate: {
    "a delta that splits an emoji": cut("msg_start", (delta) => delta.search(/[\ud800-\udbff]/)),
    "a delta that splits the last character": cut("msg_s", (delta) =>
      delta.search(/[\ud800-\udbff]/),
    ),
  },
};
