import { readFileSync } from "node:fs";
import type { AddCase } from "./cases.ts";
import {
  added,
  begin,
  call,
  childCreated,
  created,
  custom,
  delta,
  done,
  end,
  lifecycle,
  message,
  numbered,
  onBlock,
  result,
  textBlock,
  textDone,
} from "./events.ts";
import type { Frame } from "./kit.ts";

/** Adds the vectors about tasks as a whole. */
export function addTasks(add: AddCase): void {
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  add(
    "ended",
    "After an end, nothing changes the task.",
    numbered(
      ...begin,
      lifecycle("failed", {
        error: { code: "provider_error", message: "529", retryable: true },
        completed_at: 9,
      }),
      custom(1),
      lifecycle("in_progress"),
      { type: "task.unknown" },
      lifecycle("completed"),
    ),
  );
  add(
    "created-late",
    "task.created is the first event of a task or changes nothing.",
    numbered(...begin, created("task_r", { agent_id: "other" }), end),
  );
  add(
    "suspended",
    "Suspension, resume, cancel.",
    numbered(
      ...begin,
      {
        type: "task.suspended",
        reason: "stop_requested",
        generate_reason: "acting_stop_requested",
        expires_at: 9,
      },
      { type: "task.cancelling", requested_by: "ann", reason: "enough" },
    ),
    "partial",
  );
  add(
    "resumed",
    "A resume ends the suspension and its reason.",
    numbered(
      ...begin,
      { type: "task.suspended", reason: "external", generate_reason: "tool_suspended" },
      { type: "task.resumed", reason: "continued" },
      { type: "task.cancelling" },
      lifecycle("cancelled", { reason: "enough", usage, subtree_usage: usage }),
    ),
  );
  add(
    "values",
    "Hints are a list; the last custom value of each name and the last usage count.",
    numbered(
      ...begin,
      { type: "task.hint.added", hint: { id: "h1", text: "a", from_task_id: "call_9" } },
      { type: "task.hint.added", hint: { id: "h1", text: "b" } },
      custom(1, "a"),
      custom({ attempt: 1 }, "rivulet.retry"),
      custom([2], "a"),
      { type: "task.usage", cumulative: true, usage, cost: { amount: "0.1", currency: "USD" } },
      { type: "task.usage", cumulative: true, usage: { ...usage, total_tokens: 4 } },
      lifecycle("incomplete", {
        incomplete_details: { reason: "budget" },
        generate_reason: "budget",
        structured: { a: [1] },
        metadata: { k: 1 },
      }),
    ),
  );
  add(
    "output",
    "A lifecycle event may carry the output of a task that has none.",
    numbered(
      ...begin,
      lifecycle("in_progress", { output: [{ ...message(), status: "completed" }] }),
      added(1, message("msg_2")),
      lifecycle("completed", { output: [] }),
    ),
    "partial",
  );
  const snapshot = (through: number, task: Frame, more: Frame = {}): Frame => ({
    type: "task.snapshot",
    task_id: "task_r",
    through_sequence_number: through,
    through_task_seq: through,
    created_at: 1,
    task: { id: "task_r", object: "task", ...task },
    ...more,
  });
  const waiting = numbered(
    ...begin,
    { type: "task.hint.added", hint: { id: "h1", text: "a" } },
    custom(1),
    { type: "task.usage", cumulative: true, usage, cost: { amount: "1", currency: "EUR" } },
    { type: "task.suspended", reason: "external", generate_reason: "tool_suspended" },
    { type: "task.cancelling" },
  );
  add(
    "snapshot-replaces",
    "A snapshot replaces the record; of what it lacks, only links, mode, agent and usage stay.",
    [...waiting, snapshot(9, { status: "in_progress", mode: "sync" }, { final: true })],
    "partial",
  );
  add(
    "snapshot-equal",
    "A snapshot of the same number replaces the record as well.",
    [...waiting, snapshot(6, { status: "suspended", hints: [], state: { b: null } })],
    "partial",
  );
  add(
    "snapshot-misfit",
    "A snapshot that does not fit, or that names the task as its own parent, changes nothing.",
    [
      ...waiting,
      snapshot(9, { status: "in_progress", hints: 5 }),
      snapshot(9, { status: "in_progress", parent_task_id: "task_r" }),
      snapshot(9, { status: "in_progress" }, { through_task_seq: -1 }),
    ],
    "partial",
  );
  add(
    "snapshot-fields",
    "Lifecycle events do not have the fields of snapshots.",
    numbered(
      created("task_r", { hints: 5, state: "abc", cost: 7, suspension: 1, cancelling: true }),
      lifecycle("in_progress", { parent_task_id: "task_p", parent_output_index: "x" }),
    ),
    "partial",
  );
  add(
    "wrong-source",
    "An event with a source that does not fit changes nothing.",
    numbered(
      created("task_r"),
      { ...custom(1), source: { agentId: "x" } },
      { ...custom(2), source: { agentId: "x", depth: 0, path: "a/b" } },
      { ...custom(3), source: { agentId: "x", depth: 1, path: "a/x", agentName: null } },
      { ...custom(4), source: { agentId: "y", depth: 1, path: "a/y" } },
    ),
    "partial",
  );
  add("control", "Control frames and errors change nothing.", [
    {
      type: "stream.opened",
      protocol: "rivulet.task-stream/1",
      root_task_id: "task_r",
      oldest_sequence_number: 0,
      last_sequence_number: 2,
      heartbeat_ms: 15_000,
    },
    ...numbered(...begin),
    { type: "stream.heartbeat", created_at: 1, last_sequence_number: 1 },
    { type: "error", code: "overloaded", message: "Busy.", retryable: true, task_id: "task_r" },
    { type: "stream.something" },
    ...numbered(...begin, end).slice(2),
    { type: "stream.closed", reason: "terminal", final: true, last_sequence_number: 2 },
  ]);
}

/** Adds the vectors about approvals. */
export function addApprovals(add: AddCase): void {
  const asked = (approval_id: string, more: Frame = {}) => ({
    type: "task.approval.requested",
    approval_id,
    kind: "tool_call",
    call_id: "call_1",
    item_id: "fc_1",
    output_index: 0,
    name: "search",
    arguments: "{}",
    ...more,
  });
  const resolved = (approval_id: string, decision: string, more: Frame = {}) => ({
    type: "task.approval.resolved",
    approval_id,
    decision,
    ...more,
  });
  const start = [
    ...begin,
    added(0, call("fc_1", "call_1")),
    done(0, call("fc_1", "call_1", { arguments: "{}" })),
  ];
  add(
    "answered",
    "A call waits, the task is suspended, a person answers.",
    numbered(
      ...start,
      asked("apr_1", {
        message: "Search?",
        options: ["approve", "deny"],
        response_schema: { type: "object" },
        expires_at: 99,
      }),
      {
        type: "task.suspended",
        reason: "approval",
        approval_ids: ["apr_1"],
        generate_reason: "approval_required",
      },
      resolved("apr_1", "approve", { by: "ann", reason: null }),
      { type: "task.resumed", reason: "approval_resolved" },
      added(1, result("fco_1", "call_1")),
      done(1, {
        type: "tool_result",
        id: "fco_1",
        call_id: "call_1",
        block_list: [textBlock("Found.")],
      }),
      end,
    ),
  );
  add(
    "repeated",
    "A second request and a second decision change nothing; a decision needs a request.",
    numbered(
      ...start,
      asked("apr_1"),
      asked("apr_1", { name: "other" }),
      resolved("apr_2", "approve"),
      resolved("apr_1", "deny", { reason: "No." }),
      resolved("apr_1", "approve", { by: "bob" }),
    ),
    "partial",
  );
  add(
    "stop",
    "A stop may concern no call, and an edited call says so.",
    numbered(
      ...start,
      { type: "task.approval.requested", approval_id: "apr_1", kind: "stop", message: "Go on?" },
      asked("apr_2", { name: "find", edited: true }),
      asked("apr_3", { edited: false }),
    ),
    "partial",
  );
}

/** Adds the vectors about the first form of the protocol. */
export function addLegacy(add: AddCase): void {
  const corpus = (name: string) =>
    readFileSync(new URL(`../corpus/seed-004/${name}.jsonl`, import.meta.url), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Frame);
  add(
    "response",
    "The first form: one agent calls a tool and answers.",
    corpus("response"),
    "legacy",
    "seed",
  );
  add(
    "response-now",
    "The same with the additions of today's document.",
    corpus("response"),
    "legacy",
  );
  add("child", "The first form: the same as a child.", corpus("child"), "legacy", "seed");
  add(
    "embedded",
    "The first form: a child inside its parent, without the parent's first items.",
    corpus("embedded"),
    "legacy",
    "filtered",
    "seed",
  );
  const bare = (...events: readonly Frame[]) =>
    events.map((event) => ({ type: event.type, task_id: event.task_id ?? "task_r", ...event }));
  add(
    "repeated",
    "Without numbers, a repeated delta counts twice.",
    bare(added(0, message()), delta("a"), delta("a")),
    "legacy",
    "partial",
  );
  add(
    "part-first",
    "A part without an item creates the item that it implies.",
    bare(
      delta("a"),
      { type: "task.tool_call_arguments.delta", item_id: "fc_1", output_index: 1, delta: "{}" },
      {
        type: "task.reasoning_summary_text.delta",
        item_id: "rs_1",
        output_index: 2,
        summary_index: 0,
        delta: "Hm",
      },
      {
        type: "task.tool_result.progress",
        item_id: "fco_1",
        output_index: 4,
        call_id: "call_1",
        progress: 1,
      },
    ),
    "legacy",
    "partial",
  );
  add(
    "links",
    "The call id of a tool result in another task is the id of the child.",
    bare(
      added(0, result("fco_1", "call_1")),
      { ...added(0, message()), task_id: "call_1" },
      { ...textDone("inside"), task_id: "call_1" },
      added(1, result("fco_2", "task_r")),
    ),
    "legacy",
    "partial",
  );
  add(
    "block-ids",
    "Numbers as ids of blocks are reference numbers; images may be image_url.",
    bare(
      added(0, result("fco_1", "call_1")),
      onBlock("text.done", 0, 0, { item: { type: "text", text: "a", id: 1 } }),
      onBlock("image.done", 0, 1, {
        item: {
          type: "image_url",
          image_url: { url: "https://example.com/a.png" },
          id: 2,
          reference_id: 7,
        },
      }),
      added(1, message()),
      onBlock("text.done", 1, 0, { item: { type: "text", text: "b", id: 1 } }),
    ),
    "legacy",
    "partial",
  );
  add(
    "mixed",
    "Numbers count where they are there.",
    [
      ...numbered(...begin, added(0, message()), delta("a"), delta("a")).flatMap((event) => [
        event,
        event,
      ]),
      ...bare(delta("b"), childCreated("call_1", "fco_1")),
    ],
    "legacy",
    "partial",
  );
}
