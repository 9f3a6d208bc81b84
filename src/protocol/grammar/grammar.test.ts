import { describe, expect, it } from "vitest";
import type { LogEvent, StreamFrame, TaskSnapshot } from "../event.ts";
import { materialize } from "../materialize.ts";
import { emptyTree, reduce, TaskTree } from "../reduce.ts";
import { subtreeUsage, waitingApprovals } from "../select.ts";
import { snapshotOf } from "../snapshot.ts";
import type { MessageItem, Tree } from "../task.ts";

type Sent = Record<string, unknown>;

/** A log of one task, numbered. */
function log(...events: readonly Sent[]): LogEvent[] {
  return [end("created", { status: "queued" }), ...events].map(
    (event, index) =>
      ({
        task_id: "r",
        sequence_number: index,
        task_seq: index,
        created_at: 1,
        ...event,
      }) as unknown as LogEvent,
  );
}
const fold = (...events: readonly Sent[]) => reduce(emptyTree(), log(...events));
const outputOf = (tree: Tree) => tree.tasks.r?.output ?? [];
const added = (item: Sent, output_index = 0) => ({
  type: "task.output_item.added",
  output_index,
  item: { id: "m", ...item },
});
const message = added({ type: "message", role: "assistant", block_list: [] });
const at = { item_id: "m", output_index: 0, block_index: 0 };
const block = (type: string, item: unknown) => ({ type: `task.${type}`, ...at, item });
const end = (type: string, task: Sent) => ({
  type: `task.${type}`,
  task: { id: "r", object: "task", status: type, ...task },
});
const child = { child_task_id: "c", call_id: "c", item_id: "f", output_index: 0 };
const agent = { id: "a", key: "k" };
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };

/** An object or a list within itself, more often than a stack is deep. */
function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 2 ? [value] : { value };
  return value;
}

describe("an event that does not fit the grammar is ignored and counted", () => {
  const wrong: readonly [string, ...Sent[]][] = [
    ["incomplete_details without a reason", end("incomplete", { incomplete_details: {} })],
    ["task.completed without a task", { type: "task.completed" }],
    ["an error that is a string", end("failed", { error: "no" })],
    ["a usage that is a number", end("completed", { usage: 2 })],
    ["a usage without numbers", { type: "task.usage", cumulative: true, usage: {} }],
    [
      "a child's usage that is a number",
      { type: "task.child.finished", ...child, status: "completed", usage: 2 },
    ],
    ["an output with a malformed item", end("completed", { output: [{ type: "message", id: 4 }] })],
    ["an output with null", end("completed", { output: [null] })],
    ["a summary that is an object", added({ type: "reasoning", summary: {} })],
    ["content that is a string", added({ type: "reasoning", summary: [], content: "abc" })],
    [
      "arguments that are an object",
      added({ type: "tool_call", call_id: "c", name: "n", arguments: {} }),
    ],
    ["a tool result without call_id", added({ type: "tool_result", block_list: [] })],
    ["a block that is null", added({ type: "message", role: "assistant", block_list: [null] })],
    [
      "annotations that are a number",
      message,
      block("text.added", { type: "text", text: "", annotations: 5 }),
    ],
    [
      "an annotation that is null",
      message,
      block("text.done", { type: "text", text: "", annotations: [null] }),
    ],
    ["a text block without a text", message, block("text.done", { type: "text" })],
    [
      "a text block that is an image",
      message,
      block("text.added", { type: "image", image_url: { url: "" } }),
    ],
    ["an image without its url", message, block("image.done", { type: "image" })],
    ["a task block without its task", message, block("block.done", { type: "task" })],
    [
      "a task block that would change a prototype",
      message,
      block("block.done", { type: "task", task_id: "__proto__" }),
    ],
    [
      "a child at a negative index",
      { type: "task.child.started", ...child, output_index: -5, mode: "sync", agent },
    ],
    ["a child whose mode is a number", { type: "task.child.started", ...child, mode: 7, agent }],
    ["a suspension for a number", { type: "task.suspended", reason: 5 }],
    [
      "approval_ids that are not an array",
      { type: "task.suspended", reason: "approval", approval_ids: 7 },
    ],
    ["an approval that only has an id", { type: "task.approval.requested", approval_id: "a" }],
    [
      "task.output_item.discarded without item_id",
      message,
      { type: "task.output_item.discarded", output_index: 0, reason: "fallback" },
    ],
    ["a source that is a string", { type: "task.cancelling", source: "zzz" }],
    ["a second task.created", end("in_progress", {}), end("created", {})],
    ["a value that nests too deep", { type: "task.custom", name: "n", value: nested(100_000) }],
  ];
  it.each(wrong.map(([name, ...events]) => [name, events] as const))("%s", (_, events) => {
    const before = fold(...events.slice(0, -1));
    const event = log(...events).at(-1) as LogEvent;
    const tree = reduce(before, event);
    expect(tree.ignored).toBe(1);
    const { appliedSeq, ...task } = tree.tasks.r ?? {};
    expect(appliedSeq).toBe(event.task_seq);
    expect({ ...task, appliedSeq: (appliedSeq as number) - 1 }).toEqual(before.tasks.r);
    expect(new TaskTree().apply(log(...events)).tree).toEqual(tree);
    expect(materialize(tree).task_id).toBe("r");
    expect(subtreeUsage(tree, "r").total_tokens).toBe(0);
  });

  it("accepts unknown types, fields and words", () => {
    const item = { type: "hologram", id: "h", block_list: [null, 7], summary: "short" };
    const block = { type: "smell", text: 5, annotations: "none" };
    const known = { type: "message", role: "assistant", mood: { good: [true] } };
    const tree = fold(
      added(item),
      added({ ...known, id: "m2", status: "paused", block_list: [block] }, 1),
      { type: "task.suspended", reason: "full_moon", until: { phase: 1 } },
      { type: "task.custom", name: "n", value: nested(100) },
    );
    expect(tree.ignored).toBe(0);
    expect(outputOf(tree)).toMatchObject([
      { ...item, status: "in_progress" },
      { ...known, status: "paused", block_list: [block] },
    ]);
    expect(materialize(tree, "r", { seed: true }).output).toHaveLength(2);
  });
});

it("reads null on an optional field as an absent field", () => {
  const nulls = { usage: null, error: null, incomplete_details: null, output: null };
  const text = { type: "text", text: "a", annotations: null, id: null };
  const tree = fold(
    { ...message, source: null, prev_task_seq: null },
    block("text.done", text),
    { type: "task.child.finished", ...child, status: "completed", usage: null },
    end("incomplete", { ...nulls, structured: null }),
  );
  expect(tree.ignored).toBe(0);
  expect((outputOf(tree)[0] as MessageItem).block_list).toEqual([{ type: "text", text: "a" }]);
  expect(tree.tasks.c).not.toHaveProperty("usage");
  for (const name of ["usage", "error", "incompleteReason", "source", "structured"]) {
    expect(tree.tasks.r).not.toHaveProperty(name);
  }
});

it("closes an item as a different type only if its content fits that type", () => {
  const done = (item: Sent) => ({ type: "task.output_item.done", output_index: 0, item });
  const message = { type: "message", id: "m", status: "completed" };
  const tree = fold(added({ type: "hologram", block_list: [null] }), done(message));
  expect(tree.ignored).toBe(1);
  expect(outputOf(tree)).toMatchObject([{ type: "hologram", status: "in_progress" }]);
  const whole = fold(
    added({ type: "hologram", block_list: [null] }),
    done({ ...message, block_list: [] }),
  );
  expect(outputOf(whole)).toMatchObject([{ ...message, block_list: [] }]);
});

describe("a snapshot", () => {
  const snapshot = (task: Sent) =>
    ({
      type: "task.snapshot",
      task_id: "r",
      through_sequence_number: 0,
      through_task_seq: 0,
      created_at: 1,
      task: { id: "r", object: "task", status: "in_progress", ...task },
    }) as unknown as TaskSnapshot;
  const open = (item: Sent) => ({ id: "m", status: "in_progress", ...item });

  const wrong: readonly [string, Sent][] = [
    ["approvals that are a number", { approvals: 5 }],
    ["approvals of null", { approvals: [null] }],
    [
      "a list of blocks with null in it",
      { output: [open({ type: "message", role: "assistant", block_list: [null] })] },
    ],
    ["an output that nests too deep", { output: [open({ type: "x", deep: nested(100_000) })] }],
    ["a suspension that is a string", { status: "suspended", suspension: "a while" }],
    ["no status", { status: undefined }],
  ];
  it.each(wrong)("with %s is ignored and counted", (_, task) => {
    const tree = reduce(fold(), snapshot(task));
    expect({ ...tree, ignored: 0 }).toEqual({ ...fold() });
    expect(tree.ignored).toBe(1);
    expect(waitingApprovals(tree)).toEqual([]);
  });

  it("needs the lists and texts of its items, which deltas extend", () => {
    const whole: readonly Sent[] = [
      open({ type: "reasoning", summary: [] }),
      open({ type: "tool_call", call_id: "c", name: "n", arguments: "" }),
      open({ type: "message", role: "assistant", block_list: [] }),
    ];
    const tree = reduce(emptyTree(), [
      snapshot({ output: whole }),
      ...log(
        { type: "task.reasoning_summary_text.delta", ...at, summary_index: 0, delta: "x" },
        { type: "task.tool_call_arguments.delta", ...at, output_index: 1, delta: "x" },
        { type: "task.text.delta", ...at, output_index: 2, delta: "x" },
      ).slice(1),
    ]);
    const text = { text: "x", status: "in_progress" };
    expect(tree.ignored).toBe(0);
    expect(outputOf(tree)).toMatchObject([
      { summary: [text] },
      { arguments: "x" },
      { block_list: [text] },
    ]);
    for (const [at, field] of ["summary", "arguments", "block_list"].entries()) {
      const { [field]: _, ...lacking } = whole[at] as Sent;
      expect(reduce(emptyTree(), snapshot({ output: whole.with(at, lacking) })).ignored).toBe(1);
    }
  });

  it("may contain values that cannot be cloned", () => {
    const output = [
      open({ type: "message", role: "assistant", block_list: [], render: () => "a function" }),
    ];
    expect(reduce(emptyTree(), snapshot({ output })).ignored).toBe(0);
  });
});

describe("the fold never changes an event", () => {
  const text = { type: "text", text: "a", status: "in_progress", annotations: [] };
  const delta = { type: "task.text.delta", ...at, delta: "ZZZ" };
  const annotation = {
    type: "task.text.annotation.added",
    ...at,
    annotation_index: 0,
    annotation: { type: "reference_to_block", reference_id: 1, start_index: 0, end_index: 1 },
  };
  const raw = [{ type: "reasoning_text", text: "a", status: "in_progress" }];
  const thought = added({ type: "reasoning", summary: [], content: raw });
  const cases: readonly [string, ...Sent[]][] = [
    ["a block that says it is open when it is done", message, block("text.done", text), delta],
    [
      "an item that comes with an open block",
      added({ type: "message", role: "assistant", block_list: [text] }),
      delta,
      annotation,
    ],
    ["a block that opens with a list", message, block("text.added", text), annotation],
    [
      "raw text that comes with its item",
      thought,
      { type: "task.reasoning_text.delta", ...at, content_index: 0, delta: "b" },
      { type: "task.reasoning_text.delta", ...at, content_index: 1, delta: "c" },
    ],
    ["an item of an unknown type", added({ type: "x", block_list: [text] }), delta],
  ];
  it.each(cases.map(([name, ...events]) => [name, events] as const))("%s", (_, events) => {
    const sent = log(...events);
    const copy = structuredClone(sent);
    const tree = new TaskTree().apply(sent).tree;
    expect(sent).toEqual(copy);
    expect(tree).toEqual(reduce(emptyTree(), copy));
  });

  it("closes a done block whose status is in_progress", () => {
    const tree = fold(message, block("text.done", text), delta);
    expect(tree.ignored).toBe(1);
    expect((outputOf(tree)[0] as MessageItem).block_list).toEqual([
      { type: "text", text: "a", annotations: [] },
    ]);
  });
});

describe("limits", () => {
  it("limits the placeholders of a filtered stream", () => {
    const items = Array.from({ length: 200 }, (_, index) =>
      added({ type: "x" }, (index + 1) * 9_999),
    );
    for (const options of [{ filtered: true }, { legacy: true }]) {
      const tree = reduce(emptyTree(), log(...items), options);
      expect(outputOf(tree).length).toBeGreaterThan(900_000);
      expect(outputOf(tree).length).toBeLessThanOrEqual(1_000_200);
      expect(tree.ignored).toBeGreaterThan(90);
    }
  });

  it("limits the nesting of tasks in a document", () => {
    const chain = Array.from({ length: 20_000 }, (_, index) => [
      {
        type: "task.created",
        task_id: `t${index}`,
        task: {
          id: `t${index}`,
          object: "task",
          status: "queued",
          ...(index > 0 && { parent_task_id: `t${index - 1}`, parent_call_id: `t${index}` }),
        },
      },
      added({ type: "tool_result", call_id: `t${index + 1}`, block_list: [] }),
      { type: "task.usage", cumulative: true, usage },
    ]).flat();
    const tree = reduce(
      emptyTree(),
      chain.map((event, index) => ({
        task_id: `t${Math.floor(index / 3)}`,
        sequence_number: index,
        task_seq: index % 3,
        created_at: 1,
        ...event,
      })) as unknown as StreamFrame[],
    );
    expect(tree.ignored).toBe(0);
    expect(JSON.stringify(materialize(tree)).length).toBeGreaterThan(1_000);
    expect(subtreeUsage(tree, "t0").total_tokens).toBe(40_000);
  });
});

describe("accepted values can be read and sent on", () => {
  const asked = {
    type: "task.approval.requested",
    approval_id: "a",
    kind: "tool_call",
    call_id: "c",
    name: "n",
    arguments: "{}",
  };

  it("requires a string as the reason of a decision", () => {
    const resolved = { type: "task.approval.resolved", approval_id: "a", decision: "deny" };
    expect(fold(asked, { ...resolved, reason: nested(9) }).ignored).toBe(1);
    expect(fold(asked, { ...resolved, reason: "no" }).tasks.r?.approvals[0]?.reason).toBe("no");
  });

  it("accepts an empty reason and values at the nesting limit, also in a snapshot", () => {
    const incomplete = end("incomplete", { incomplete_details: { reason: "" } });
    const tree = fold({ type: "task.custom", name: "n", value: nested(200) }, incomplete);
    expect(tree.ignored).toBe(0);
    const snapshot = snapshotOf(tree, "r", { sequenceNumber: 2, createdAt: 1 }) as TaskSnapshot;
    expect(reduce(emptyTree(), snapshot)).toMatchObject({
      ignored: 0,
      tasks: { r: { incompleteReason: "", state: tree.tasks.r?.state } },
    });
  });

  it("accepts any annotations in a block of an unknown type", () => {
    const chart = { type: "chart", annotations: [null, 4] };
    const tree = fold(message, block("block.done", chart));
    expect(tree.ignored).toBe(0);
    const { output } = materialize(tree, "r", { seed: true });
    expect(output).toMatchObject([{ block_list: [chart] }]);
  });
});
