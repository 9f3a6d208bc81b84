import type { CheckRule } from "../../../src/protocol/check/check.ts";
import {
  add,
  both,
  type Change,
  drop,
  each,
  edit,
  isOf,
  lateJoin,
  move,
  on,
  place,
  without,
} from "./edit-log.ts";
import type { Kills } from "./kills.ts";

type TaskRule = Extract<
  CheckRule,
  "L3" | "edge" | "link" | "child" | "I14" | "call" | "approval" | "reason" | "usage"
>;

const low = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const asked = (type: string, fields: object): Change =>
  edit(`approval.${type}`, "apr_measure", { ...fields });

/** Repeats the events of a result under another id: its call has two results. */
const secondResult: Change = (events) => {
  const at = place(events, "output_item.added", "msg_w");
  const result = events
    .filter(isOf("fco_measure"))
    .filter(({ type }) => type.includes("output_item"));
  const again = result.map((event) => ({
    ...event,
    output_index: 2,
    item: { ...(event.item as object), id: "fco_again", block_list: [] },
  }));
  const shifted = events
    .slice(at)
    .map((event) =>
      event.task_id === "call_station" && event.output_index === 2
        ? { ...event, output_index: 3 }
        : event,
    );
  return drop("usage", "call_poster")([...events.slice(0, at), ...again, ...shifted]);
};

/** Mistakes in the lifecycle of tasks, in their links, calls and approvals. */
export const taskKills: Kills<TaskRule> = {
  L3: {
    "a task without an end": drop("completed", "call_poster"),
    "a root without an end": drop("completed", "task_lead"),
    "an event after the end": add("completed", "call_poster", {
      type: "task.custom",
      name: "app.late",
      value: 1,
    }),
    "a second end": add("completed", "call_poster", {
      type: "task.failed",
      task: {
        id: "call_poster",
        object: "task",
        status: "failed",
        error: { code: "x", message: "x", retryable: false },
      },
    }),
    "an item that is never closed": drop("output_item.done", "msg_answer"),
    "an item that opens after the end": move(
      "completed",
      "call_poster",
      "output_item.added",
      "msg_p",
    ),
    "a text that is never done": drop("text.done", "msg_answer"),
    "an image that is never done": drop("image.done", "fco_draw"),
    "a summary that is never done": drop("reasoning_summary_item.done", "rs_s"),
    "a failure without an error": edit("failed", "call_translate", { task: { error: undefined } }),
    "a completed task with an error": edit("completed", "call_station", {
      task: { error: { code: "x", message: "x", retryable: false } },
    }),
    "an incomplete task without a reason": edit("incomplete", "call_archive", {
      task: { incomplete_details: undefined },
    }),
    "a completed task with a reason to be incomplete": edit("completed", "call_station", {
      task: { incomplete_details: { reason: "timeout" } },
    }),
    "a failed result without an error": edit("output_item.done", "fco_translate", {
      item: { error: undefined },
    }),
    "a completed result with an error": edit("output_item.done", "fco_translate", {
      item: { status: "completed" },
    }),
    "a snapshot of an ended task with an open item": on(
      lateJoin,
      edit("snapshot", "task_lead", ({ task }) => {
        const { output } = task as { output: readonly object[] };
        return { task: { output: output.with(-1, { ...output.at(-1), status: "in_progress" }) } };
      }),
    ),
  },
  edge: {
    "a task that is not created": drop("created", "call_poster"),
    "a task created twice": add("in_progress", "call_poster", {
      type: "task.created",
      task: { id: "call_poster", object: "task", status: "queued" },
    }),
    "a task that never starts": drop("in_progress", "call_poster"),
    "a task that starts twice": add("in_progress", "call_poster", {
      type: "task.in_progress",
      task: { id: "call_poster", object: "task", status: "in_progress" },
    }),
    "a start before the creation": move("in_progress", "call_poster", "created", "call_poster"),
    "output before the start": move("in_progress", "call_poster", "text.done", "msg_p"),
    "a resume without a suspension": drop("suspended", "call_station"),
    "a suspension without a resume": drop("resumed", "call_station"),
    "a suspension twice": add("suspended", "call_station", {
      type: "task.suspended",
      reason: "approval",
      approval_ids: ["apr_measure"],
    }),
    "a text while the task is suspended": move(
      "resumed",
      "call_station",
      "image.done",
      "fco_measure",
    ),
    "an item while the task is suspended": move("resumed", "task_lead", "text.added", "msg_answer"),
    "a child while the task is suspended": move(
      "suspended",
      "call_research",
      "child.started",
      "call_station",
    ),
    "an approval while the task is queued": move(
      "in_progress",
      "call_station",
      "suspended",
      "call_station",
    ),
    "a completed task that was suspended": move(
      "completed",
      "call_station",
      "resumed",
      "call_station",
    ),
  },
  link: {
    "the object of another task": edit("completed", "call_station", {
      task: { id: "call_research" },
    }),
    "a child without a parent": edit("created", "call_station", {
      task: { parent_task_id: undefined },
    }),
    "a child without its call": edit("created", "call_station", {
      task: { parent_call_id: undefined },
    }),
    "a child without its item": edit("created", "call_station", {
      task: { parent_item_id: undefined },
    }),
    "a child without a mode": edit("created", "call_station", { task: { mode: undefined } }),
    "another call than the child's id": edit("created", "call_station", {
      task: { parent_call_id: "call_measure" },
    }),
    "another item than the parent started the child on": edit("created", "call_station", {
      task: { parent_item_id: "fc_station" },
    }),
    "another parent than the one that started the child": edit("created", "call_station", {
      task: { parent_task_id: "task_lead" },
    }),
    "two children that swap their items": both(
      edit("created", "call_poster", { task: { parent_item_id: "fco_courier" } }),
      edit("created", "call_courier", { task: { parent_item_id: "fco_poster" } }),
    ),
    "its own parent": edit("created", "call_station", { task: { parent_task_id: "call_station" } }),
    "its child as its parent": edit("created", "call_research", {
      task: { parent_task_id: "call_station" },
    }),
    "an unknown parent": edit("created", "call_station", {
      task: { parent_task_id: "task_other" },
    }),
    "another mode than the parent started": edit("created", "call_station", {
      task: { mode: "background" },
    }),
    "a child that no parent started": drop("child.started", "call_archive"),
    "a started child without events": without(({ task_id }) => task_id === "call_poster"),
    "another child than the call": edit("child.started", "call_archive", {
      call_id: "call_poster",
    }),
    "a second root": add("in_progress", "task_lead", {
      type: "task.created",
      task_id: "task_two",
      task: { id: "task_two", object: "task", status: "queued" },
    }),
    "a parent that changes at the end": edit("completed", "call_station", {
      task: { parent_task_id: "task_lead" },
    }),
    "a session that changes at the end": edit("completed", "call_station", {
      task: { session_id: "sub-other" },
    }),
    "an agent that changes at the end": edit("completed", "call_station", {
      task: { agent_id: "thermometer" },
    }),
    "a result that names a child that was not started": edit("output_item.done", "fco_measure", {
      item: { child_task_id: "call_measure" },
    }),
    "a suspension that waits for an unknown task": edit("suspended", "call_research", {
      waiting_on: ["call_other"],
    }),
    "a suspension that waits for another task's child": edit("suspended", "task_lead", {
      waiting_on: ["call_station"],
    }),
    "a suspension that waits for a child that has ended": edit("suspended", "task_lead", {
      waiting_on: ["call_courier"],
    }),
    "a snapshot of a child on another item": on(
      lateJoin,
      edit("snapshot", "call_poster", { task: { parent_item_id: "fco_archive" } }),
    ),
  },
  child: {
    "a child started twice": add("child.started", "call_archive", {
      type: "task.child.started",
      child_task_id: "call_archive",
      call_id: "call_archive",
      item_id: "fco_archive",
      output_index: 9,
      mode: "background",
      agent: { id: "archivist", key: "agent:archivist:1" },
    }),
    "a child finished without a start": drop("child.started", "call_courier"),
    "a child finished before its end": move(
      "child.finished",
      "call_station",
      "output_item.added",
      "msg_w",
    ),
    "a child finished with another status": edit("child.finished", "call_courier", {
      status: "completed",
    }),
    "a failed child that is said to be cancelled": edit("child.finished", "call_translate", {
      status: "cancelled",
    }),
    "a background child finished": add("child.promoted", "call_poster", {
      type: "task.child.finished",
      child_task_id: "call_poster",
      call_id: "call_poster",
      item_id: "fco_poster",
      output_index: 10,
      status: "completed",
    }),
    "two children that swap their ends": both(
      edit("child.finished", "call_courier", { status: "failed" }),
      edit("child.finished", "call_translate", { status: "cancelled" }),
    ),
    "a child promoted twice": add("child.promoted", "call_poster", {
      type: "task.child.promoted",
      child_task_id: "call_poster",
      call_id: "call_poster",
      item_id: "fco_poster",
      output_index: 10,
      mode: "background",
      reason: "sync_timeout",
    }),
    "a child promoted after its end": edit("child.promoted", "call_poster", {
      child_task_id: "call_courier",
      call_id: "call_courier",
      item_id: "fco_courier",
      output_index: 12,
    }),
    "a background child promoted": edit("child.promoted", "call_poster", {
      child_task_id: "call_archive",
      call_id: "call_archive",
      item_id: "fco_archive",
      output_index: 9,
    }),
  },
  I14: {
    "an item that closes before its child ends": move(
      "output_item.done",
      "fco_research",
      "usage",
      "call_research",
    ),
    "a child whose item opens later": move(
      "output_item.added",
      "fco_courier",
      "output_item.added",
      "fc_draw",
    ),
    "a child that outlives its parent's wait": drop("child.promoted", "call_poster"),
    "a child started on a closed item": move(
      "child.started",
      "call_archive",
      "child.started",
      "call_poster",
    ),
  },
  call: {
    "a call without a result": without(isOf("fco_draw")),
    "a call without a result before an early end": both(
      edit("completed", "call_poster", {
        type: "task.incomplete",
        task: {
          status: "incomplete",
          generate_reason: "max_iterations",
          incomplete_details: { reason: "max_iterations" },
        },
      }),
      without(isOf("fco_draw")),
    ),
    "a result without a call": without(isOf("fc_draw")),
    "a result of a call of another task": each(isOf("fco_draw"), ({ call_id, item }) => ({
      ...(call_id !== undefined && { call_id: "call_order" }),
      ...("call_id" in ((item ?? {}) as object) && { item: { call_id: "call_order" } }),
    })),
    "a result whose call is discarded": add("output_item.done", "fco_draw", {
      type: "task.output_item.discarded",
      item_id: "fc_draw",
      output_index: 0,
      reason: "recovered",
    }),
    "two results of one call": secondResult,
    "a result before its call": move(
      "output_item.added",
      "fco_order",
      "output_item.added",
      "fc_order",
    ),
    "a discarded result that never comes again": add("output_item.done", "fco_draw", {
      type: "task.output_item.discarded",
      item_id: "fco_draw",
      output_index: 1,
      reason: "tool_retry",
    }),
    "a snapshot of an ended task with a call without a result": on(
      lateJoin,
      edit("snapshot", "task_lead", ({ task }) => {
        const { output } = task as { output: readonly object[] };
        return { task: { output: output.slice(0, 8) } };
      }),
    ),
  },
  approval: {
    "other arguments than the call": asked("requested", { arguments: '{"city":"London"}' }),
    "more arguments than the call": asked("requested", {
      arguments: '{"city":"Paris","force":true}',
    }),
    "no arguments": asked("requested", { arguments: "{}" }),
    "another tool than the call": asked("requested", { name: "erase" }),
    "no call": asked("requested", {
      call_id: "call_none",
      item_id: undefined,
      output_index: undefined,
    }),
    "a call of another task": asked("requested", { call_id: "call_order" }),
    "the item of the result": asked("requested", { item_id: "fco_measure", output_index: 1 }),
    "a call that has its result": move(
      "approval.requested",
      "apr_measure",
      "output_item.added",
      "msg_w",
    ),
    "an approval requested twice": add("approval.requested", "apr_measure", {
      type: "task.approval.requested",
      approval_id: "apr_measure",
      kind: "tool_call",
      call_id: "call_measure",
      name: "measure",
      arguments: '{"city":"Paris"}',
    }),
    "a decision without a request": drop("approval.requested", "apr_measure"),
    "a decision before its request": move(
      "approval.resolved",
      "apr_measure",
      "approval.requested",
      "apr_measure",
    ),
    "two decisions": add("approval.resolved", "apr_measure", {
      type: "task.approval.resolved",
      approval_id: "apr_measure",
      decision: "deny",
    }),
    "a decision in another task": edit("approval.resolved", "apr_measure", ({ source }) => ({
      task_id: "call_research",
      task_seq: 18,
      source: {
        ...(source as object),
        agentId: "researcher",
        depth: 1,
        path: "sess-paris/researcher",
      },
    })),
    "a decision of another approval": asked("resolved", { approval_id: "apr_other" }),
    "an end without a decision": drop("approval.resolved", "apr_measure"),
    "a suspension for an unknown approval": edit("suspended", "call_station", {
      approval_ids: ["apr_other"],
    }),
    "a suspension for an approval that is not named": edit("suspended", "call_station", {
      approval_ids: undefined,
    }),
    "a parent that waits for nothing": edit("suspended", "task_lead", {
      approval_ids: undefined,
      waiting_on: undefined,
    }),
    "a suspension for an approval that has its decision": move(
      "approval.resolved",
      "apr_measure",
      "suspended",
      "call_station",
    ),
    "a snapshot of an ended task with an open approval": on(
      lateJoin,
      edit("snapshot", "task_lead", {
        task: { approvals: [{ approval_id: "apr_lead", kind: "tool_call" }] },
      }),
    ),
  },
  reason: {
    "an unknown reason to resume": edit("resumed", "call_station", { reason: "bored" }),
    "no reason to resume": edit("resumed", "task_lead", { reason: "" }),
    "an unknown reason to promote": edit("child.promoted", "call_poster", { reason: "bored" }),
    "a completed task that was interrupted": edit("completed", "call_station", {
      task: { generate_reason: "interrupted" },
    }),
    "a completed task that waits for an approval": edit("completed", "task_lead", {
      task: { generate_reason: "approval_required" },
    }),
    "a cancelled task whose model stopped": edit("cancelled", "call_courier", {
      task: { generate_reason: "model_stop" },
    }),
    "a failed task whose model stopped": edit("failed", "call_translate", {
      task: { generate_reason: "model_stop" },
    }),
    "a suspended task whose model stopped": edit("suspended", "call_station", {
      generate_reason: "model_stop",
    }),
    "two reasons to be incomplete": edit("incomplete", "call_archive", {
      task: { generate_reason: "budget" },
    }),
  },
  usage: {
    "a usage that shrinks": add("usage", "call_poster", {
      type: "task.usage",
      cumulative: true,
      usage: low,
    }),
    "a last usage that shrinks": edit("completed", "call_poster", { task: { usage: low } }),
    "input that shrinks": edit("completed", "call_poster", {
      task: { usage: { input_tokens: 40, output_tokens: 13 } },
    }),
    "a child's usage that the child does not have": edit("child.finished", "call_station", {
      usage: low,
    }),
    "a usage after a snapshot that shrinks": on(
      lateJoin,
      edit("snapshot", "call_poster", {
        task: { usage: { input_tokens: 99, output_tokens: 9, total_tokens: 108 } },
      }),
    ),
  },
};
