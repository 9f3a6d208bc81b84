import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import type { LogEvent, StreamFrame, TaskSnapshot } from "./event.ts";
import { emptyTree, reduce, TaskTree } from "./reduce.ts";
import { snapshotOf } from "./snapshot.ts";
import type { MessageItem, ToolCallItem, ToolResultItem, Tree } from "./task.ts";

/** Numbers events as a log would: `sequence_number` over all, `task_seq` per task. */
function log(...events: readonly Record<string, unknown>[]): LogEvent[] {
  const perTask = new Map<unknown, number>();
  return events.map((event, index) => {
    const taskId = event.task_id ?? "task_r";
    const taskSeq = perTask.get(taskId) ?? 0;
    perTask.set(taskId, taskSeq + 1);
    return {
      task_id: taskId,
      sequence_number: index,
      task_seq: taskSeq,
      created_at: 1,
      ...event,
    } as unknown as LogEvent;
  });
}

const created = (id = "task_r", more: Record<string, unknown> = {}) => ({
  type: "task.created",
  task_id: id,
  task: { id, object: "task", status: "queued", agent_id: "main", session_id: "s", ...more },
});
const message = (output_index = 0, id = "msg_1") => ({
  type: "task.output_item.added",
  output_index,
  item: { type: "message", id, role: "assistant", status: "in_progress", block_list: [] },
});
const at = { item_id: "msg_1", output_index: 0, block_index: 0 };
const text = (delta: string) => ({ type: "task.text.delta", ...at, delta });
const textAdded = { type: "task.text.added", ...at, item: { type: "text", text: "" } };
const root = (tree: Tree) => tree.tasks.task_r as Tree["tasks"][string];
const fold = (events: readonly StreamFrame[], options = {}) => reduce(emptyTree(), events, options);
/** What a server would send in place of these events. */
const snapshotAt = (events: readonly LogEvent[]) =>
  snapshotOf(fold(events), "task_r", {
    sequenceNumber: events.length - 1,
    createdAt: 1,
  }) as TaskSnapshot;

describe("numbers", () => {
  const events = log(created(), message(), textAdded, text("Hel"), text("lo"));

  it("R1: a repeated event changes nothing", () => {
    const once = fold(events);
    expect(fold(events.flatMap((event) => [event, event]))).toEqual(once);
    expect((root(once).output[0] as MessageItem).block_list[0]).toMatchObject({ text: "Hello" });
  });

  it("is a callback for Array.prototype.reduce", () => {
    expect(events.reduce(reduce, emptyTree())).toEqual(fold(events));
  });

  it("R2: an event after a gap waits, is reported, and is applied when the gap is filled", () => {
    const [a, b, c, d, e] = events as [LogEvent, LogEvent, LogEvent, LogEvent, LogEvent];
    const gap = fold([a, b, e, d]);
    expect(gap.gaps).toEqual([{ taskId: "task_r", after: 1, before: 3 }]);
    expect(root(gap).parked).toEqual([d, e]);
    expect(gap.safeCursor).toBe(1);
    expect(gap.ahead).toEqual([[3, 4]]);
    expect(reduce(gap, c)).toEqual(fold(events));
  });

  it("R3: the safe cursor stops before a missing number, even of an unknown task", () => {
    const tree = fold([...events.slice(0, 3), { ...events[3], sequence_number: 9 } as LogEvent]);
    expect(tree.gaps).toEqual([]);
    expect(tree.safeCursor).toBe(2);
  });

  it("R3: a filtered stream may skip numbers", () => {
    const sparse = events.map((event) => ({
      ...event,
      sequence_number: event.sequence_number * 3,
    }));
    expect(fold(sparse, { filtered: true }).safeCursor).toBe(12);
    expect(fold(sparse).safeCursor).toBe(0);
  });

  it("prev_task_seq prevents a false gap on a filtered stream", () => {
    const left = [events[0], { ...events[3], prev_task_seq: 0 }] as LogEvent[];
    expect(fold(left, { filtered: true }).gaps).toEqual([]);
    expect(fold([events[0], events[3]] as LogEvent[], { filtered: true }).gaps).toHaveLength(1);
  });

  it("reports a gap if the event that prev_task_seq names is missing", () => {
    const sent = [events[0], { ...events[4], prev_task_seq: 3 }] as LogEvent[];
    expect(fold(sent, { filtered: true }).gaps).toEqual([
      { taskId: "task_r", after: 0, before: 4 },
    ]);
  });

  it("applies events in the order of task_seq; a lower sequence_number does not move the cursor", () => {
    const backwards = events.map((event, index) =>
      index === 3 ? { ...event, sequence_number: 1 } : event,
    );
    const tree = fold(backwards);
    expect(tree.tasks).toEqual(fold(events).tasks);
    expect(tree).toMatchObject({ ignored: 0, gaps: [], safeCursor: 2, ahead: [[4, 4]] });
    expect(reduce(tree, events[3] as LogEvent)).toMatchObject({ safeCursor: 4, ahead: [] });
  });

  it("treats an event without a sequence_number as lost", () => {
    for (const sequence_number of [undefined, null, Number.NaN, "3", 0.5, -2]) {
      const damaged = { ...events[3], sequence_number } as LogEvent;
      const tree = fold([...events.slice(0, 3), damaged, ...events.slice(4)]);
      expect(tree).toMatchObject({ ignored: 1, gaps: [{ after: 2, before: 4 }], safeCursor: 2 });
      expect(reduce(tree, events[3] as LogEvent)).toEqual({ ...fold(events), ignored: 1 });
    }
  });

  it("applies an event with the sequence_number -1 without moving the cursor", () => {
    const own = events.map((event) => ({ ...event, sequence_number: -1 }));
    expect(fold(own)).toMatchObject({ tasks: fold(events).tasks, safeCursor: -1, ahead: [] });
  });

  it("R12: an older snapshot is ignored", () => {
    const early = snapshotAt(events.slice(0, 3));
    const tree = fold(events);
    expect(reduce(tree, early)).toEqual(tree);
    const same = snapshotAt(events);
    expect(reduce(tree, same).tasks).toEqual(tree.tasks);
  });

  it("moves the cursor with the last snapshot, without an event after it", () => {
    const both = log(created(), created("c", { parent_task_id: "task_r" }), message(), textAdded);
    const at = { sequenceNumber: 3, createdAt: 1 };
    const whole = fold(both);
    const [first, second] = ["task_r", "c"].map((id) => snapshotOf(whole, id, at) as TaskSnapshot);
    const half = fold([first as TaskSnapshot]);
    expect(half).toMatchObject({ safeCursor: -1, snapshotCursor: 3 });
    const last = { ...second, final: true } as TaskSnapshot;
    expect(reduce(half, last)).toEqual(whole);
    // A reader that knows more of the last task still knows that all snapshots have arrived.
    const later = {
      ...created("c"),
      type: "task.in_progress",
      task: { id: "c", object: "task", status: "in_progress" },
    };
    const [, begun, running] = log(created(), created("c", { parent_task_id: "task_r" }), later);
    const ahead = fold(
      [begun, running].map((event) => ({ ...event, sequence_number: 9 }) as LogEvent),
    );
    expect(reduce(ahead, [first as TaskSnapshot, last])).toMatchObject({ safeCursor: 3 });
  });

  it("R12: a snapshot drops older parked events and applies newer ones", () => {
    const gap = fold([events[0], events[2], events[4]] as LogEvent[]);
    expect(root(gap).parked).toEqual([events[2], events[4]]);
    const later = reduce(gap, snapshotAt(events.slice(0, 3)));
    expect(root(later)).toMatchObject({ appliedSeq: 2, parked: [events[4]] });
    expect(later.gaps).toEqual([{ taskId: "task_r", after: 2, before: 4 }]);
    const joined = reduce(gap, snapshotAt(events.slice(0, 4)));
    expect(joined.tasks).toEqual(fold(events).tasks);
    expect(joined.gaps).toEqual([]);
    const past = reduce(gap, snapshotAt(events));
    expect(past.tasks).toEqual(fold(events).tasks);
    expect(past).toMatchObject({ gaps: [], ignored: 0 });
  });

  it("R4: events without numbers require `legacy`", () => {
    const legacy = events.map(({ sequence_number, task_seq, ...event }) => event as LogEvent);
    expect(fold(legacy)).toMatchObject({ ignored: 5, tasks: {} });
    const tree = fold(legacy, { legacy: true });
    expect((root(tree).output[0] as MessageItem).block_list[0]).toMatchObject({ text: "Hello" });
  });
});

describe("items and parts", () => {
  it("R5: counts an unknown type and continues", () => {
    const tree = fold(log(created(), { type: "task.from_the_future" }, message()));
    expect(tree.unknown).toBe(1);
    expect(root(tree)).toMatchObject({ appliedSeq: 2, output: [{ id: "msg_1" }] });
  });

  it("R5: unknown fields and block types are kept", () => {
    const block = { type: "hologram", depth: 3 };
    const tree = fold(log(created(), message(), { type: "task.block.done", ...at, item: block }));
    expect((root(tree).output[0] as MessageItem).block_list).toEqual([block]);
  });

  it("R7: a part before its item creates the item in legacy mode", () => {
    const delta = { type: "task.tool_call_arguments.delta", item_id: "fc", output_index: 0 };
    const tree = fold([{ ...delta, task_id: "task_r", delta: "{" } as unknown as LogEvent], {
      legacy: true,
    });
    expect(root(tree).output).toMatchObject([{ type: "tool_call", id: "fc", arguments: "{" }]);
    expect(fold(log(created(), { ...delta, delta: "{" })).ignored).toBe(1);
  });

  it("R8: added on an open entry is ignored, on a closed one also counted", () => {
    const done = { type: "task.text.done", ...at, item: { type: "text", text: "x" } };
    expect(fold(log(created(), message(), message(), textAdded, textAdded)).ignored).toBe(0);
    expect(fold(log(created(), message(), textAdded, done, textAdded)).ignored).toBe(1);
  });

  it("R9: text appends, a higher preview replaces, a closed part does not change", () => {
    const image = (type: string, url: string, more = {}) => ({
      type: `task.image.${type}`,
      ...at,
      item: { type: "image", image_url: { url } },
      ...more,
    });
    const start = [created(), message(), image("added", "")];
    const previews = [
      image("delta", "b", { partial_image_index: 1 }),
      image("delta", "a", { partial_image_index: 0 }),
    ];
    const open = fold(log(...start, ...previews));
    expect((root(open).output[0] as MessageItem).block_list[0]).toMatchObject({
      image_url: { url: "b" },
    });
    const closed = fold(log(...start, image("done", "z"), ...previews));
    expect(closed.ignored).toBe(2);
    expect((root(closed).output[0] as MessageItem).block_list).toEqual([
      { type: "image", image_url: { url: "z" } },
    ]);
  });

  it("R10: item done merges; absent fields keep the assembled value", () => {
    const result = { type: "tool_result", id: "fco_1", call_id: "call_1" };
    const events = log(
      created(),
      {
        type: "task.output_item.added",
        output_index: 0,
        item: { ...result, status: "in_progress", block_list: [] },
      },
      {
        type: "task.tool_result.progress",
        item_id: "fco_1",
        output_index: 0,
        call_id: "call_1",
        progress: 1,
        total: 2,
      },
      textAdded,
      text("out"),
      {
        type: "task.output_item.done",
        output_index: 0,
        item: { ...result, status: "completed", child_task_id: "call_1" },
      },
    );
    const half = root(fold(events.slice(0, 3))).output[0] as ToolResultItem;
    expect(half.progress).toEqual({ progress: 1, total: 2 });
    expect(root(fold(events)).output[0]).toEqual({
      ...result,
      status: "completed",
      child_task_id: "call_1",
      block_list: [{ type: "text", text: "out" }],
    });
  });

  it("does not reuse the index of a discarded item", () => {
    const discarded = {
      type: "task.output_item.discarded",
      item_id: "msg_1",
      output_index: 0,
      reason: "provider_retry",
    };
    const tree = fold(log(created(), message(), discarded, message(), message(1, "msg_2")));
    expect(root(tree).output.map((item) => item.type)).toEqual(["discarded", "message"]);
    expect(tree.ignored).toBe(1);
  });

  it("ignores deltas after the arguments are done", () => {
    const call = {
      type: "task.output_item.added",
      output_index: 0,
      item: { type: "tool_call", id: "fc", call_id: "c", name: "t", arguments: "" },
    };
    const part = { item_id: "fc", output_index: 0 };
    const tree = fold(
      log(
        created(),
        call,
        { type: "task.tool_call_arguments.delta", ...part, delta: '{"a"' },
        { type: "task.tool_call_arguments.done", ...part, arguments: '{"a":1}' },
        { type: "task.tool_call_arguments.delta", ...part, delta: "!" },
      ),
    );
    expect((root(tree).output[0] as ToolCallItem).arguments).toBe('{"a":1}');
    expect(tree.ignored).toBe(1);
  });

  it("refuses indexes beyond the end, so that a number cannot exhaust the memory", () => {
    expect(fold(log(created(), message(2_000_000_000))).ignored).toBe(1);
    expect(fold(log(created(), message(2_000_000_000)), { filtered: true }).ignored).toBe(1);
    const hole = fold(log(created(), message(2)), { filtered: true });
    expect(root(hole).output.map((item) => item.type)).toEqual(["omitted", "omitted", "message"]);
  });
});

describe("tasks", () => {
  it("R11: nothing follows a terminal event", () => {
    const end = {
      type: "task.completed",
      task: { id: "task_r", object: "task", status: "completed" },
    };
    const tree = fold(log(created(), message(), end, message(1), end));
    expect(tree.ignored).toBe(2);
    expect(root(tree)).toMatchObject({ status: "completed", output: [{ id: "msg_1" }] });
  });

  it("R6: links a child that arrives before its parent, from either side", () => {
    const child = log(created("call_1", { parent_task_id: "task_r", parent_item_id: "fco_1" }));
    const parent = log(created(), {
      type: "task.output_item.added",
      output_index: 0,
      item: { type: "tool_result", id: "fco_1", call_id: "call_1", block_list: [] },
    });
    const childFirst = fold([...child, ...parent]);
    expect(childFirst.rootId).toBe("task_r");
    expect(childFirst.tasks).toEqual(fold([...parent, ...child]).tasks);
    expect(childFirst.tasks.call_1).toMatchObject({ parentOutputIndex: 0 });
    expect(root(childFirst).children).toEqual(["call_1"]);
    const orphan = fold(child);
    expect(orphan).toMatchObject({ rootId: "call_1", tasks: { task_r: { status: "unknown" } } });
  });

  it("orders children by their items, in any order of arrival and with duplicates", () => {
    const result = (call: string, output_index: number) => ({
      type: "task.output_item.added",
      output_index,
      item: { type: "tool_result", id: `fco_${call}`, call_id: call, block_list: [] },
    });
    const started = (call: string, output_index: number) => ({
      type: "task.child.started",
      child_task_id: call,
      call_id: call,
      item_id: `fco_${call}`,
      output_index,
      mode: "sync",
      agent: { id: "main", key: "k" },
    });
    const calls = ["z", "b", "m", "a", "y"];
    const parent = log(
      created(),
      ...calls.map((call, index) => result(call, index)),
      ...calls.map((call, index) => started(call, index)),
    );
    const children = ["a", "z", "m", "y", "b"].flatMap((call) =>
      log(created(call, { parent_task_id: "task_r", parent_call_id: call })),
    );
    const expected = fold([...parent, ...children]);
    expect(root(expected).children).toEqual(calls);
    for (const half of [1, 3, 4, 6, 8, parent.length]) {
      const mixed = [...parent.slice(0, half), ...children, ...parent.slice(half)];
      expect(fold(mixed).tasks, `children after ${half}`).toEqual(expected.tasks);
      expect(new TaskTree().apply(mixed).tree.tasks).toEqual(expected.tasks);
      const stored = JSON.parse(JSON.stringify(fold(mixed.slice(0, half + 3)))) as Tree;
      expect(reduce(stored, mixed.slice(half + 3)).tasks).toEqual(expected.tasks);
    }
    const itemsOnly = fold([...children, ...parent.slice(0, 6)]);
    expect(root(itemsOnly).children).toEqual(calls);
    const again = reduce(expected, {
      ...(children[0] as LogEvent),
      type: "task.in_progress",
      task_seq: 1,
    } as LogEvent);
    expect(root(again)).toBe(root(expected));
  });

  it("links a child to an item of this tree, not of a different version of it", () => {
    const result = (id: string) => ({
      type: "task.output_item.added",
      output_index: 0,
      item: { type: "tool_result", id, call_id: id, block_list: [] },
    });
    const [start, item] = log(created(), result("c")) as [LogEvent, LogEvent];
    const child = log(created("c", { parent_task_id: "task_r", parent_item_id: "c" }));
    const base = fold([start]);
    expect(reduce(base, [item, ...child]).tasks.c?.parentOutputIndex).toBe(0);
    const other = reduce(base, child);
    expect(other.tasks.c?.parentOutputIndex).toBeUndefined();
    const elsewhere = reduce(other, log(created(), result("d")).slice(1));
    expect(elsewhere.tasks.c?.parentOutputIndex).toBeUndefined();
  });

  it("keeps a promotion in any order of arrival", () => {
    const child = log(created("call_1", { parent_task_id: "task_r", mode: "sync" }));
    const link = { child_task_id: "call_1", call_id: "call_1", item_id: "f", output_index: 0 };
    const parent = log(
      created(),
      { type: "task.child.started", ...link, mode: "sync", agent: { id: "main", key: "k" } },
      { type: "task.child.promoted", ...link, mode: "background", reason: "sync_timeout" },
    );
    expect(fold([...parent, ...child]).tasks.call_1?.mode).toBe("background");
    expect(fold([...child, ...parent]).tasks.call_1?.mode).toBe("background");
  });

  it("suspension, approval and resume", () => {
    const asked = { type: "task.approval.requested", approval_id: "apr_1", kind: "tool_call" };
    const events = log(
      created(),
      { ...asked, call_id: "c", name: "t", arguments: "{}" },
      { type: "task.suspended", reason: "approval", approval_ids: ["apr_1"] },
      { type: "task.approval.resolved", approval_id: "apr_1", decision: "deny", reason: null },
      { type: "task.resumed", reason: "approval_resolved" },
    );
    expect(root(fold(events.slice(0, 3)))).toMatchObject({
      status: "suspended",
      suspension: { reason: "approval", approval_ids: ["apr_1"] },
    });
    const after = root(fold(events));
    expect(after.status).toBe("in_progress");
    expect(after.suspension).toBeUndefined();
    expect(after.approvals).toMatchObject([{ approval_id: "apr_1", decision: "deny" }]);
  });
});

describe("purity", () => {
  const events = log(
    created(),
    message(),
    textAdded,
    created("call_1", { parent_task_id: "task_r" }),
    text("a"),
  );

  it("R13: the old tree stays and untouched branches keep their identity", () => {
    const before = fold(events.slice(0, 4));
    const copy = structuredClone(before);
    const after = reduce(before, events[4] as LogEvent);
    expect(before).toEqual(copy);
    expect(after.tasks.call_1).toBe(before.tasks.call_1);
    expect(root(after)).not.toBe(root(before));
    expect(root(after).children).toBe(root(before).children);
  });

  it("never changes an event or a tree that TaskTree returned", () => {
    const frozen = structuredClone(events);
    const tree = new TaskTree().apply(events.slice(0, 3));
    const handedOut = tree.tree;
    const copy = structuredClone(handedOut);
    tree.apply(events.slice(3));
    expect(handedOut).toEqual(copy);
    expect(events).toEqual(frozen);
    expect(tree.tree).toEqual(fold(events));
  });

  it("reads one task of a TaskTree as it stands, and leaves earlier trees unchanged", () => {
    const tree = new TaskTree();
    let handedOut = tree.tree;
    for (const [index, event] of events.entries()) {
      const copy = structuredClone(handedOut);
      tree.apply(event);
      expect(handedOut).toEqual(copy);
      expect(tree.task("task_r")).toEqual(root(fold(events.slice(0, index + 1))));
      if (index % 2 === 0) handedOut = tree.tree;
    }
    expect(tree.task("none")).toBeUndefined();
    expect(tree.task("__proto__")).toBeUndefined();
  });

  it("a tree is plain data: it can be stringified, cloned and printed, and a copy can be folded", () => {
    const half = fold(events.slice(0, 3));
    const copy = JSON.parse(JSON.stringify(half)) as Tree;
    expect(reduce(copy, events.slice(3))).toEqual(fold(events));
    expect(new TaskTree({ from: copy }).apply(events.slice(3)).tree).toEqual(fold(events));
    expect(copy).toEqual(JSON.parse(JSON.stringify(half)));
    expect(inspect(half)).toContain("task_r: {");
  });

  it("two versions of one tree are independent", () => {
    const base = fold(events.slice(0, 1));
    const one = reduce(base, log(created(), created("call_a")).slice(1));
    const other = reduce(base, log(created(), created("call_b")).slice(1));
    expect(Object.keys(one.tasks)).toEqual(["task_r", "call_a"]);
    expect(Object.keys(other.tasks)).toEqual(["task_r", "call_b"]);
  });

  it("holds thousands of tasks", () => {
    const ids = Array.from({ length: 2_100 }, (_, index) => `call_${index}`);
    const many = log(created(), ...ids.map((id) => created(id, { parent_task_id: "task_r" })));
    const tree = fold(many);
    expect(Object.keys(tree.tasks)).toHaveLength(2_101);
    expect(tree.tasks.call_2099?.parentTaskId).toBe("task_r");
  });
});

describe("bad input", () => {
  const bad: readonly [string, unknown][] = [
    ["null", null],
    ["a number", 7],
    ["a string", "task.created"],
    ["no type", { task_id: "task_r", task_seq: 1 }],
    ["no task id", { type: "task.in_progress", task_seq: 1 }],
    ["a numeric task id", { type: "task.in_progress", task_id: 4, task_seq: 1 }],
    ["__proto__ as a task id", { type: "task.in_progress", task_id: "__proto__", task_seq: 0 }],
    ["a task_seq of the wrong type", { type: "task.custom", task_id: "task_r", task_seq: "1" }],
    ["a negative task_seq", { type: "task.custom", task_id: "task_r", task_seq: -1 }],
    [
      "prev_task_seq ahead",
      { type: "task.custom", task_id: "task_r", task_seq: 1, prev_task_seq: 1 },
    ],
    [
      "a snapshot without a task",
      { type: "task.snapshot", task_id: "task_r", through_task_seq: 9, through_sequence_number: 9 },
    ],
  ];
  it.each(bad)("%s is ignored and counted", (_, event) => {
    const tree = reduce(fold(log(created())), event as StreamFrame);
    expect(tree.ignored).toBe(1);
    expect(root(tree)).toMatchObject({ status: "queued", appliedSeq: 0 });
  });

  const wrong: readonly [string, Record<string, unknown>][] = [
    ["an item that is a string", { type: "task.output_item.added", output_index: 0, item: "x" }],
    [
      "an item without an id",
      { type: "task.output_item.added", output_index: 0, item: { type: "message" } },
    ],
    ["a fractional index", { ...message(), output_index: 0.5 }],
    ["a delta that is an object", { ...text("x"), delta: {} }],
    ["a part of no item", { ...text("x"), output_index: 4 }],
    ["usage that is a list", { type: "task.usage", usage: [] }],
    ["__proto__ as a custom name", { type: "task.custom", name: "__proto__", value: { evil: 1 } }],
    ["itself as its parent", created("task_r", { parent_task_id: "task_r" })],
    [
      "itself as its child",
      {
        type: "task.child.started",
        child_task_id: "task_r",
        call_id: "c",
        item_id: "f",
        output_index: 0,
        mode: "sync",
        agent: { id: "main", key: "k" },
      },
    ],
    [
      "an approval nobody asked for",
      { type: "task.approval.resolved", approval_id: "apr_9", decision: "approve" },
    ],
  ];
  it.each(wrong)("ignores and counts %s and continues", (_, event) => {
    const task = { id: "task_r", object: "task", status: "in_progress" };
    const tree = fold(log(created(), event, { type: "task.in_progress", task }));
    expect(tree.ignored).toBe(1);
    expect(root(tree)).toMatchObject({ status: "in_progress", appliedSeq: 2 });
    expect(({} as Record<string, unknown>).evil).toBeUndefined();
  });

  it("accepts an event of 10 MB", () => {
    const tree = fold(log(created(), message(), textAdded, text("x".repeat(10_000_000))));
    expect(tree.ignored).toBe(0);
  });

  it.each([{ hints: 5 }, { state: "abc" }, { parent_task_id: "task_p", parent_output_index: "x" }])(
    "reads the fields of snapshots from snapshots only: %o",
    (fields) => {
      const tree = fold(log(created("task_r", fields)));
      expect(root(tree)).not.toHaveProperty("hints");
      expect(root(tree)).not.toHaveProperty("state");
      expect(root(tree)).not.toHaveProperty("parentOutputIndex");
    },
  );

  it("refuses __proto__ as a call id", () => {
    const item = { type: "tool_result", id: "fco", call_id: "__proto__", block_list: [] };
    const added = { type: "task.output_item.added", task_id: "task_r", output_index: 0, item };
    const tree = fold([added as unknown as LogEvent], { legacy: true });
    expect(tree.ignored).toBe(1);
    expect(root(tree)).toMatchObject({ output: [], children: [] });
    expect(Object.getPrototypeOf(tree.tasks)).toBe(Object.prototype);
  });

  it("folds two tasks that name each other as parent", () => {
    const tree = fold(
      log(created("a", { parent_task_id: "b" }), created("b", { parent_task_id: "a" })),
    );
    expect(Object.keys(tree.tasks).sort()).toEqual(["a", "b"]);
  });

  it("control frames and stream errors change nothing", () => {
    const before = fold(log(created()));
    const frames = [
      { type: "stream.heartbeat", created_at: 1, last_sequence_number: 3 },
      { type: "error", code: "cursor_expired", message: "gone", retryable: true },
    ] as StreamFrame[];
    expect(reduce(before, frames)).toEqual(before);
  });
});

describe("hints and references", () => {
  const hint = (id: string) => ({ type: "task.hint.added", hint: { id, text: `hint ${id}` } });
  const reference = (id: string) => ({
    type: "task.reference.added",
    item_id: "msg_1",
    output_index: 0,
    reference: { id, url: `https://example.com/${id}` },
  });
  const done = {
    type: "task.output_item.done",
    output_index: 0,
    item: { type: "message", id: "msg_1", status: "completed" },
  };

  const events = log(
    created(),
    hint("1"),
    message(),
    reference("a"),
    reference("b"),
    hint("2"),
    done,
  );

  it("keeps all of them, in order, also in a snapshot", () => {
    const tree = fold(events);
    expect(tree.ignored).toBe(0);
    expect(root(tree).hints?.map(({ id }) => id)).toEqual(["1", "2"]);
    expect(root(tree).output[0]?.references?.map(({ id }) => id)).toEqual(["a", "b"]);
    expect(fold([snapshotAt(events)]).tasks).toEqual(tree.tasks);
    const joined = new TaskTree().apply(snapshotAt(events.slice(0, 5)));
    expect(joined.apply(events.slice(5)).tree.tasks).toEqual(tree.tasks);
  });

  it("does not change the events", () => {
    const snapshot = snapshotAt(events.slice(0, 5));
    const before = structuredClone({ events, snapshot });
    new TaskTree().apply(snapshot).apply(events.slice(5));
    expect({ events, snapshot }).toEqual(before);
  });

  it("ignores a reference of a closed item", () => {
    expect(fold(log(created(), message(), done, reference("a"))).ignored).toBe(1);
  });
});

describe("a child and its parent", () => {
  const on = { child_task_id: "c", call_id: "c", item_id: "fco", output_index: 0 };
  const usage = (n: number) => ({ input_tokens: n, output_tokens: 0, total_tokens: n });
  const item = {
    type: "tool_result",
    id: "fco",
    call_id: "c",
    status: "in_progress",
    block_list: [],
  };
  const parent = log(
    created(),
    { type: "task.output_item.added", output_index: 0, item },
    {
      type: "task.child.started",
      ...on,
      mode: "background",
      remote: true,
      agent: { id: "a", key: "k" },
    },
    { type: "task.child.finished", ...on, status: "completed", usage: usage(7) },
  );
  const link = {
    parent_task_id: "task_r",
    parent_call_id: "other",
    parent_item_id: "other",
    mode: "sync",
  };
  const bare = {
    type: "task.created",
    task: { id: "c", object: "task", status: "queued", ...link },
  };
  const end = (more = {}) => ({
    type: "task.completed",
    task: { id: "c", object: "task", status: "completed", ...more },
  });
  const child = (...events: readonly Record<string, unknown>[]) =>
    log(...events.map((event) => ({ ...event, task_id: "c" }))).map(
      (event, at) => ({ ...event, sequence_number: 4 + at }) as LogEvent,
    );

  it.each([
    ["without a usage of its own", child(bare, end()), usage(7)],
    ["with a usage of its own", child(bare, end({ usage: usage(9) })), usage(9)],
    ["that has not ended", child(bare), usage(7)],
  ])("agree in any order: a child %s", (_, own, used) => {
    const orders = [
      [...parent, ...own],
      [...own, ...parent],
      [...parent.slice(0, 3), ...own, ...parent.slice(3)],
    ].map((events) => fold(events));
    for (const tree of orders) expect(tree).toEqual(orders[0]);
    expect(orders[0]?.tasks.c).toMatchObject({
      mode: "background",
      remote: true,
      agentId: "a",
      callId: "c",
      parentItemId: "fco",
      usage: used,
    });
  });

  it("agree with a snapshot of the child, before or after", () => {
    const own = child(bare, end());
    const snapshot = snapshotOf(fold(own), "c", {
      sequenceNumber: 5,
      createdAt: 1,
    }) as TaskSnapshot;
    expect(fold([snapshot, ...parent]).tasks).toEqual(fold([...parent, snapshot]).tasks);
  });
});
