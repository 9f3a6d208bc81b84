import type { Change, Frame } from "./edit-log.ts";
import {
  add,
  both,
  canonical,
  drop,
  each,
  edit,
  editAnnotation,
  editBlock,
  isOf,
  lateJoin,
  lose,
  move,
  on,
  rejoined,
  rejoinedOlder,
  renumbered,
  without,
} from "./edit-log.ts";

/** A change that leaves a stream legal, and why. */
interface LegalMutation {
  readonly reason: string;
  readonly change: Change;
}

const isDelta = (id: string) => (event: Frame) =>
  isOf(id)(event) && /\.(added|delta)$/.test(event.type) && !event.type.includes("output_item");

/** Every frame of the transport names the last event of the log. */
const knowsAll = each(
  ({ type }) => type.startsWith("stream."),
  () => ({ last_sequence_number: canonical.length - 1 }),
);

/** Changes that no rule may report. */
export const legalMutations: Readonly<Record<string, LegalMutation>> = {
  "times that go back": {
    reason: "created_at is informational and defines no order",
    change: each(
      ({ type }) => type === "task.text.delta",
      () => ({ created_at: 0 }),
    ),
  },
  "another end time than the event": {
    reason: "completed_at is informational",
    change: edit("completed", "call_station", { task: { completed_at: 5 } }),
  },
  "an approval that expired before it was asked": {
    reason: "times define no order",
    change: edit("approval.requested", "apr_measure", { expires_at: 1 }),
  },
  "an unknown event type": {
    reason: "readers ignore unknown types, because a newer version may add some",
    change: add("usage", "call_poster", { type: "task.weather.changed", sky: "grey" }),
  },
  "an unknown field": {
    reason: "readers keep unknown fields",
    change: edit("usage", "call_poster", { colour: "red", usage: { colour: "red" } }),
  },
  "an unknown item type": {
    reason: "readers keep items of unknown types",
    change: both(
      each(isOf("msg_p"), ({ item }) => ({ item: { ...(item as object), type: "poem" } })),
      without(({ type, item_id }) => type === "task.text.done" && item_id === "msg_p"),
    ),
  },
  "an unknown block type": {
    reason: "readers keep blocks of unknown types",
    change: both(
      edit("block.done", "fco_measure", { item: { type: "table" } }),
      editBlock("fco_measure", { type: "table" }, 2),
    ),
  },
  "null on optional fields": {
    reason: "null is absent (R0)",
    change: both(
      edit("usage", "task_lead", { source: null, cost: null, by_model: null }),
      edit("output_item.done", "msg_w", { item: { purpose: null } }),
      edit("created", "task_lead", { task: { parent_task_id: null, mode: null } }),
    ),
  },
  "a full source on a later event": {
    reason: "in process every event of a child carries the full source",
    change: edit("usage", "call_station", {
      source: { sessionId: "sub-2b8e6d10", taskId: "call_station" },
    }),
  },
  "another session of a parent that no task of the log has": {
    reason: "a forwarder keeps the source of an agent whose session has another id where it runs",
    change: edit("created", "call_station", { source: { parentSessionId: "sess-elsewhere" } }),
  },
  "a child that is not marked as remote": {
    reason: "remote is optional on both events",
    change: edit("child.started", "call_translate", { remote: undefined }),
  },
  "another title": {
    reason: "metadata belongs to the application",
    change: edit("created", "task_lead", { task: { metadata: { title: "Rome" } } }),
  },
  "another value of the application": {
    reason: "the value of task.custom belongs to the application",
    change: edit("custom", "task_lead", { value: 7 }),
  },
  "no event of the application": {
    reason: "no event depends on task.custom",
    change: drop("custom", "task_lead"),
  },
  "other words of a cancel": {
    reason: "the reason of a cancel is free text",
    change: both(
      edit("cancelling", "call_courier", { reason: "no" }),
      edit("cancelled", "call_courier", { task: { reason: "no" } }),
    ),
  },
  "a cancelled task without task.cancelling": {
    reason: "task.cancelling sets a flag; an end needs no announcement",
    change: drop("cancelling", "call_courier"),
  },
  "other words of an error": {
    reason: "the message of an error is free text",
    change: edit("failed", "call_translate", {
      task: { error: { message: "?", retryable: false } },
    }),
  },
  "an end without generate_reason": {
    reason: "the field is optional",
    change: edit("completed", "call_station", { task: { generate_reason: undefined } }),
  },
  "a structured output": {
    reason: "an end may carry one",
    change: edit("completed", "call_station", {
      task: { structured: { celsius: 15 }, generate_reason: "structured_output" },
    }),
  },
  "a total that is not the sum": {
    reason: "providers count tokens that are neither input nor output",
    change: both(
      edit("usage", "call_station", { usage: { total_tokens: 50 } }),
      edit("completed", "call_station", { task: { usage: { total_tokens: 50 } } }),
      edit("child.finished", "call_station", { usage: { total_tokens: 50 } }),
    ),
  },
  "another usage by model": {
    reason: "the list may leave models out",
    change: edit("usage", "call_station", { by_model: [] }),
  },
  "another usage of the descendants": {
    reason: "a log does not show the usage of every descendant that has ended",
    change: edit("completed", "task_lead", { task: { subtree_usage: { total_tokens: 7 } } }),
  },
  "no usage before the end": {
    reason: "task.usage is optional",
    change: drop("usage", "call_poster"),
  },
  "an end without usage": {
    reason: "the last task.usage counts",
    change: edit("completed", "call_poster", { task: { usage: undefined } }),
  },
  "a finished child without usage": {
    reason: "the usage is optional",
    change: edit("child.finished", "call_station", { usage: undefined }),
  },
  "a child without task.child.finished": {
    reason: "a parent that recovers after its child has ended does not write it",
    change: drop("child.finished", "call_station"),
  },
  "a child that speaks before task.child.started": {
    reason: "either event links the child (R6), and its item is open",
    change: move("child.started", "call_courier", "output_item.added", "fc_order"),
  },
  "a result that fails although its child completed": {
    reason: "a tool decides about its own result",
    change: edit("output_item.done", "fco_station", {
      item: { status: "failed", error: { code: "x", message: "x", retryable: false } },
    }),
  },
  "a child in no block": {
    reason: "a task block is optional",
    change: without(({ type, item_id }) => type === "task.block.done" && item_id === "fco_station"),
  },
  "a call of a cancelled task without a result": {
    reason: "a cancel may come before the result is opened",
    change: without(isOf("fco_order")),
  },
  "a call that was interrupted": {
    reason: "only a completed call has a result",
    change: both(
      edit("output_item.done", "fc_draw", { item: { status: "incomplete" } }),
      without(isOf("fco_draw")),
      each(isOf("msg_p"), () => ({ output_index: 1 })),
    ),
  },
  "a call that stays open until its result opens": {
    reason: "items may overlap",
    change: move("output_item.done", "fc_draw", "image.added", "fco_draw"),
  },
  "a text without its deltas": {
    reason: "a part that is sent whole needs no added (I8)",
    change: without(isDelta("msg_start")),
  },
  "two deltas in one": {
    reason: "adjacent deltas may be merged before they are appended",
    change: (events) => {
      const at = events.findIndex(
        ({ type, item_id }) => type === "task.text.delta" && item_id === "msg_w",
      );
      const [first, second] = [events[at] as Frame, events[at + 1] as Frame];
      return renumbered(
        events.toSpliced(at, 2, { ...first, delta: `${first.delta}${second.delta}` }),
      );
    },
  },
  "an empty delta": {
    reason: "it changes nothing",
    change: add("text.added", "msg_w", {
      type: "task.text.delta",
      item_id: "msg_w",
      output_index: 2,
      block_index: 0,
      delta: "",
    }),
  },
  "a text without its early annotations": {
    reason: "text.done carries all annotations",
    change: without(({ type }) => type === "task.text.annotation.added"),
  },
  "an annotation without a target": {
    reason: "the target is optional",
    change: both(
      drop("text.annotation.added", "msg_w"),
      editAnnotation("msg_w", { target: undefined }),
      editBlock("msg_w", {
        annotations: [
          {
            type: "reference_to_block",
            reference_id: 1,
            start_index: 23,
            end_index: 27,
            marker: "[^1]",
          },
        ],
      }),
    ),
  },
  "arguments that come only with the item": {
    reason: "short values are sent whole (I7)",
    change: without(({ type, item_id }) => item_id === "fc_order" && type.includes("arguments")),
  },
  "reasoning that comes only with the item": {
    reason: "short values are sent whole (I7)",
    change: without(({ item_id }) => item_id === "rs_s"),
  },
  "an image without previews": {
    reason: "previews are optional",
    change: without(({ type }) => type === "task.image.delta"),
  },
  "previews with gaps in their numbers": {
    reason: "the numbers only increase",
    change: (events) => {
      const at = events.findLastIndex(({ type }) => type === "task.image.delta");
      return events.with(at, { ...(events[at] as Frame), partial_image_index: 9 });
    },
  },
  "another image than its preview": {
    reason: "done is authoritative, and a preview is replaced",
    change: both(
      edit("image.done", "fco_draw", { item: { image_url: { url: "https://x.test/p.png" } } }),
      editBlock("fco_draw", { image_url: { url: "https://x.test/p.png" } }),
    ),
  },
  "a result whose blocks lose their number at its end": {
    reason: "a result that cannot be cited has no number",
    change: both(
      editBlock("fco_draw", { reference_id: undefined }),
      edit("output_item.done", "fco_draw", { item: {} }),
    ),
  },
  "no progress": {
    reason: "progress is optional",
    change: without(({ type }) => type === "task.tool_result.progress"),
  },
  "a progress that goes back": {
    reason: "the last one replaces the others",
    change: edit("tool_result.progress", "fco_measure", { progress: 9 }),
  },
  "another signature": {
    reason: "encrypted_content is opaque",
    change: edit("output_item.done", "rs_plan", { item: { encrypted_content: "eA==" } }),
  },
  "a message taken back after it was done": {
    reason: "discarded also retracts an item that is done",
    change: add("output_item.done", "msg_start", {
      type: "task.output_item.discarded",
      item_id: "msg_start",
      output_index: 2,
      reason: "edited",
    }),
  },
  "an approval without its item": {
    reason: "item_id and output_index are optional",
    change: edit("approval.requested", "apr_measure", {
      item_id: undefined,
      output_index: undefined,
    }),
  },
  "an approval with its arguments in another form": {
    reason: "the arguments are JSON",
    change: edit("approval.requested", "apr_measure", { arguments: '{ "city": "Paris" }' }),
  },
  "an approval of a call that a hook has edited": {
    reason: "edited says that the approval shows the call that would run",
    change: edit("approval.requested", "apr_measure", {
      edited: true,
      name: "measure_all",
      arguments: "{}",
    }),
  },
  "other words of an approval": {
    reason: "message, options, response_schema and by are for people",
    change: both(
      edit("approval.requested", "apr_measure", {
        message: "?",
        options: ["deny"],
        response_schema: {},
      }),
      edit("approval.resolved", "apr_measure", { by: "user:1", reason: "ok" }),
    ),
  },
  "another decision": {
    reason: "the log does not show what the tool would have done",
    change: edit("approval.resolved", "apr_measure", { decision: "edit" }),
  },
  "a decision before the resume": {
    reason: "an answer may arrive while the task is suspended",
    change: move("approval.resolved", "apr_measure", "resumed", "task_lead"),
  },
  "an ancestor that does not name the approvals below it": {
    reason: "waiting_on leads to them",
    change: edit("suspended", "task_lead", { approval_ids: undefined }),
  },
  "a parent that does not suspend": {
    reason: "a parent suspends only if it has nothing else to do",
    change: without(
      ({ type, task_id }) =>
        task_id === "task_lead" && (type === "task.suspended" || type === "task.resumed"),
    ),
  },
  "a stream without control frames": {
    reason: "a list of events needs no transport",
    change: on(lateJoin, (events) => events.filter(({ type }) => !type.startsWith("stream."))),
  },
  "a stream that breaks without a close": {
    reason: "the end of a transport is a disconnect (R15)",
    change: on(lateJoin, (events) => events.slice(0, -1)),
  },
  "a reader that rejoins with the same snapshots": {
    reason: "delivery is at least once",
    change: on(
      lateJoin,
      both((events) => [...events.slice(0, 15), ...events], knowsAll),
    ),
  },
  "a reader that rejoins twice with older snapshots": {
    reason: "delivery is at least once, and older snapshots are not applied (R12)",
    change: on(
      rejoinedOlder,
      both((events) => [...events, ...events], knowsAll),
    ),
  },
  "a reconnect without a lost heartbeat": {
    reason: "control frames change no task",
    change: on(rejoined, (events) =>
      events.toSpliced(1, 0, { type: "stream.heartbeat", created_at: 0, last_sequence_number: 0 }),
    ),
  },
  "a lost heartbeat": {
    reason: "control frames change no task",
    change: on(lateJoin, (events) => events.filter(({ type }) => type !== "stream.heartbeat")),
  },
  "a lost error frame": {
    reason: "error changes no task",
    change: on(lateJoin, lose("error", "task_lead")),
  },
};
