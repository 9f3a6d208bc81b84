import type { AddCase } from "./cases.ts";
import {
  added,
  begin,
  call,
  delta,
  done,
  message,
  numbered,
  onBlock,
  result,
  textAdded,
  textBlock,
  textDone,
} from "./events.ts";
import type { Frame } from "./kit.ts";

const open = [...begin, added(0, message())];
const reasoning = { type: "reasoning", id: "rs_1", summary: [] };

/** Adds the vectors about items. */
export function addItems(add: AddCase): void {
  const partial = "partial";
  add(
    "done-alone",
    "An item may come whole, and what it lacks is empty.",
    numbered(
      ...begin,
      done(0, { type: "message", id: "msg_1" }),
      done(1, { type: "reasoning", id: "rs_1" }),
      done(2, { type: "tool_call", id: "fc_1", call_id: "call_1" }),
      done(3, {
        type: "tool_result",
        id: "fco_1",
        call_id: "call_1",
        status: "failed",
        error: { code: "x", message: "y" },
      }),
    ),
    partial,
  );
  add(
    "done-merges",
    "Present fields replace, absent fields keep the assembled value.",
    numbered(
      ...begin,
      added(0, call("fc_1", "call_1", { provider_call_id: "toolu_1", message_id: "m1" })),
      { type: "task.tool_call_arguments.delta", item_id: "fc_1", output_index: 0, delta: '{"a":' },
      { type: "task.tool_call_arguments.delta", item_id: "fc_1", output_index: 0, delta: "1}" },
      {
        type: "task.tool_call_arguments.done",
        item_id: "fc_1",
        output_index: 0,
        arguments: '{"a":1}',
      },
      {
        type: "task.tool_call_arguments.delta",
        item_id: "fc_1",
        output_index: 0,
        delta: "ignored",
      },
      done(0, { type: "tool_call", id: "fc_1", call_id: "call_1", name: "find" }),
    ),
    partial,
  );
  add(
    "done-status",
    "A closing item without a status, or with in_progress, is completed.",
    numbered(
      ...open,
      {
        type: "task.output_item.done",
        output_index: 0,
        item: { type: "message", id: "msg_1", status: "in_progress" },
      },
      added(1, message("msg_2")),
      { type: "task.output_item.done", output_index: 1, item: { type: "message", id: "msg_2" } },
    ),
    partial,
  );
  add(
    "done-other-type",
    "An item may close with another type if its assembled fields fit that type.",
    numbered(
      ...begin,
      added(0, message()),
      done(0, { type: "poll", id: "msg_1" }),
      added(1, { type: "poll", id: "poll_1", summary: "a text" }),
      done(1, { type: "reasoning", id: "poll_1" }),
      added(2, message("msg_2")),
      done(2, { type: "omitted", id: "msg_2" }),
    ),
    partial,
  );
  add(
    "closed",
    "A closed item does not change.",
    numbered(
      ...open,
      delta("a"),
      done(0, { type: "message", id: "msg_1" }),
      delta("b"),
      textDone("c"),
      done(0, { type: "message", id: "msg_1", block_list: [] }),
      added(0, message()),
    ),
    partial,
  );
  add(
    "added-twice",
    "An item that opens again keeps its contents.",
    numbered(...open, delta("a"), added(0, message("msg_9"))),
    partial,
  );
  add(
    "added-closed",
    "An item may open with a final status: it is closed.",
    numbered(
      ...begin,
      added(0, { ...message(), status: "completed", block_list: [textBlock("whole")] }),
      delta("ignored"),
    ),
    partial,
  );
  add(
    "by-position",
    "An item is found by its position, not by its id.",
    numbered(...open, { ...delta("a"), item_id: "another" }),
    partial,
  );
  add(
    "beyond-end",
    "An index beyond the end changes nothing.",
    numbered(
      ...open,
      added(2, message("msg_2")),
      { type: "task.output_item.discarded", output_index: 5, item_id: "x", reason: "fallback" },
      delta("a", 3),
      delta("b"),
    ),
    partial,
  );
  add(
    "filtered-holes",
    "On a filtered stream, skipped indexes become omitted items and blocks.",
    numbered(
      ...begin,
      added(3, message()),
      delta("a", 2, 3),
      added(1, call("fc_1", "call_1")),
      done(3, { type: "message", id: "msg_1" }),
      done(10_005, { type: "message", id: "too far" }),
    ),
    "filtered",
    partial,
  );
  add(
    "discarded",
    "A discarded item leaves a placeholder, open or closed, and its index is not used again.",
    numbered(
      ...open,
      delta("take this back"),
      {
        type: "task.output_item.discarded",
        output_index: 0,
        item_id: "msg_1",
        reason: "provider_retry",
      },
      delta("ignored"),
      added(0, message("msg_2")),
      added(1, message("msg_3")),
      done(1, { type: "message", id: "msg_3", block_list: [textBlock("also taken back")] }),
      { type: "task.output_item.discarded", output_index: 1, item_id: "msg_3", reason: "edited" },
      {
        type: "task.output_item.discarded",
        output_index: 2,
        item_id: "msg_4",
        reason: "recovered",
      },
      added(3, message("msg_5")),
      { ...textDone("stays", 0, 3), item_id: "msg_5" },
    ),
    partial,
  );
  add(
    "references",
    "An open item keeps all sources, in order; a closed one takes no more.",
    numbered(
      ...open,
      {
        type: "task.reference.added",
        item_id: "msg_1",
        output_index: 0,
        reference: { id: "s1", url: "https://example.com", title: null },
      },
      {
        type: "task.reference.added",
        item_id: "msg_1",
        output_index: 0,
        reference: { id: "s2", mime_type: "text/html" },
      },
      done(0, { type: "message", id: "msg_1" }),
      { type: "task.reference.added", item_id: "msg_1", output_index: 0, reference: { id: "s3" } },
    ),
    partial,
  );
  add(
    "progress",
    "The last progress counts, and a closed item has none.",
    numbered(
      ...begin,
      added(0, call("fc_1", "call_1")),
      done(0, call("fc_1", "call_1", { arguments: "{}" })),
      added(1, result("fco_1", "call_1")),
      {
        type: "task.tool_result.progress",
        item_id: "fco_1",
        output_index: 1,
        call_id: "call_1",
        progress: 1,
        total: 2,
        message: "half",
      },
      {
        type: "task.tool_result.progress",
        item_id: "fco_1",
        output_index: 1,
        call_id: "call_1",
        progress: 1.5,
      },
      added(2, result("fco_2", "call_2")),
      {
        type: "task.tool_result.progress",
        item_id: "fco_2",
        output_index: 2,
        call_id: "call_2",
        progress: -0.5,
      },
      done(2, { type: "tool_result", id: "fco_2", call_id: "call_2" }),
      {
        type: "task.tool_result.progress",
        item_id: "fc_1",
        output_index: 0,
        call_id: "call_1",
        progress: 1,
      },
    ),
    partial,
  );
}

/** Adds the vectors about parts of items. */
export function addParts(add: AddCase): void {
  const partial = "partial";
  const image = (block_index: number, type: string, url: string, more: Frame = {}) =>
    onBlock(`image.${type}`, 0, block_index, {
      item: { type: "image", image_url: { url } },
      ...more,
    });
  add(
    "text",
    "A part may open by its first delta, and a delta for a closed part changes nothing.",
    numbered(
      ...open,
      delta("a"),
      delta("b"),
      textAdded(),
      textDone("abc"),
      delta("d"),
      textAdded(),
      textDone("again"),
      textDone("whole", 1),
      delta("skipped", 4),
    ),
    partial,
  );
  add(
    "images",
    "A preview replaces, a lower number changes nothing, and the last event replaces all.",
    numbered(
      ...open,
      image(0, "added", ""),
      image(0, "delta", "data:image/png;base64,AA==", { partial_image_index: 1 }),
      image(0, "delta", "data:image/png;base64,BB==", { partial_image_index: 0 }),
      delta("not a text"),
      image(1, "delta", "data:image/png;base64,CC==", { partial_image_index: 0 }),
      image(0, "done", "task://task_r/blobs/sha256-9f2c"),
      image(0, "delta", "data:image/png;base64,DD==", { partial_image_index: 5 }),
      image(2, "added", ""),
      image(3, "added", ""),
      done(0, { type: "message", id: "msg_1", status: "incomplete" }),
    ),
    partial,
  );
  add(
    "previews",
    "A preview with a lower number than the last one changes nothing.",
    numbered(
      ...open,
      image(0, "delta", "data:image/png;base64,AA==", { partial_image_index: 1 }),
      image(0, "delta", "data:image/png;base64,BB==", { partial_image_index: 0 }),
      image(0, "delta", "data:image/png;base64,CC==", { partial_image_index: 1 }),
    ),
    partial,
  );
  const cite = (annotation_index: number, reference_id: number) =>
    onBlock("text.annotation.added", 0, 0, {
      annotation_index,
      annotation: {
        type: "reference_to_block",
        reference_id,
        start_index: 2,
        end_index: 6,
        marker: `[^${reference_id}]`,
      },
    });
  add(
    "annotations",
    "An annotation is added at the next index only, and the complete block replaces all.",
    numbered(...open, cite(0, 9), delta("A.[^1]"), cite(0, 1), cite(0, 2), cite(2, 3), cite(1, 4)),
    partial,
  );
  add(
    "reasoning",
    "Paragraphs of a summary and raw reasoning are lists of their own.",
    numbered(
      ...begin,
      added(0, reasoning),
      {
        type: "task.reasoning_summary_item.added",
        item_id: "rs_1",
        output_index: 0,
        summary_index: 0,
        item: { type: "text", text: "" },
      },
      {
        type: "task.reasoning_summary_text.delta",
        item_id: "rs_1",
        output_index: 0,
        summary_index: 0,
        delta: "Hm",
      },
      {
        type: "task.reasoning_summary_text.delta",
        item_id: "rs_1",
        output_index: 0,
        summary_index: 0,
        delta: "m.",
      },
      {
        type: "task.reasoning_summary_text.delta",
        item_id: "rs_1",
        output_index: 0,
        summary_index: 2,
        delta: "skips one",
      },
      {
        type: "task.reasoning_text.delta",
        item_id: "rs_1",
        output_index: 0,
        content_index: 0,
        delta: "raw",
      },
      {
        type: "task.reasoning_text.done",
        item_id: "rs_1",
        output_index: 0,
        content_index: 0,
        text: "raw text",
      },
      {
        type: "task.reasoning_text.done",
        item_id: "rs_1",
        output_index: 0,
        content_index: 1,
        text: "more",
      },
      {
        type: "task.reasoning_summary_item.done",
        item_id: "rs_1",
        output_index: 0,
        summary_index: 1,
        item: { type: "text", text: "Whole." },
      },
      delta("not a message"),
      done(0, { type: "reasoning", id: "rs_1", encrypted_content: "c2VjcmV0" }),
    ),
    partial,
  );
  add(
    "unicode",
    "Deltas join to the text, also when a pair of surrogates is split.",
    numbered(
      ...open,
      delta("naïve 漢字 "),
      delta("\ud83d"),
      delta("\ude00 e\u0301\u2028"),
      delta("👩‍🚀"),
    ),
    partial,
  );
  const long = "Läuft und läuft. ".repeat(240);
  add(
    "long",
    "A text of 4,080 characters in 12 deltas.",
    numbered(
      ...open,
      ...(long.match(/.{340}/gsu) ?? []).map((piece) => delta(piece)),
      textDone(long),
    ),
    partial,
  );
  add(
    "done-repairs",
    "The complete part is authoritative: it repairs deltas that differ.",
    numbered(...open, delta("wrnog"), textDone("right")),
    partial,
  );
}
