import { describe, expect, it } from "vitest";
import { RivuletError } from "../base/error.ts";
import type { TaskEvent } from "./event.ts";
import { materialize } from "./materialize.ts";
import { emptyTree, reduce } from "./reduce.ts";
import {
  addUsage,
  childrenOf,
  openItems,
  rootTask,
  subtreeUsage,
  waitingApprovals,
} from "./select.ts";
import { snapshotOf } from "./snapshot.ts";
import type { Item, Task, Tree } from "./task.ts";

const result = (call: string, block_list: Item extends never ? never : unknown[] = []) =>
  ({
    type: "tool_result",
    id: `fco_${call}`,
    call_id: call,
    status: "completed",
    block_list,
  }) as Item;
const message = (text: string, more = {}) =>
  ({
    type: "message",
    id: "msg",
    role: "assistant",
    status: "completed",
    block_list: [{ type: "text", text, ...more }],
  }) as Item;

function tree(tasks: readonly (Partial<Task> & { id: string })[], rootId = "task_r"): Tree {
  const full = tasks.map((task) => ({
    status: "completed" as const,
    output: [],
    children: [],
    approvals: [],
    appliedSeq: 0,
    ...task,
  }));
  return { ...emptyTree(), rootId, tasks: Object.fromEntries(full.map((task) => [task.id, task])) };
}
const child = (id: string, parentTaskId: string, more: Partial<Task> = {}) => ({
  id,
  parentTaskId,
  parentOutputIndex: 0,
  ...more,
});

describe("materialize", () => {
  it("nests the output of a child in the tool result, after its own blocks", () => {
    const nested = tree([
      { id: "task_r", output: [result("c1", [{ type: "text", text: "log" }])], children: ["c1"] },
      child("c1", "task_r", { output: [result("c2"), message("child")], children: ["c2"] }),
      child("c2", "c1", { output: [message("grandchild")] }),
    ]);
    expect(materialize(nested)).toMatchObject({
      task_id: "task_r",
      output: [
        {
          call_id: "c1",
          block_list: [
            { type: "text", text: "log" },
            {
              type: "tool_result",
              task_id: "c1",
              block_list: [{ type: "message", task_id: "c2" }],
            },
            { type: "message", task_id: "c1" },
          ],
        },
      ],
    });
    expect(materialize(nested).output[0]).not.toHaveProperty("task_id");
    expect(materialize(nested, "c2").output).toHaveLength(1);
  });

  it("puts a child at the position of its task block", () => {
    const blocks = [
      { type: "text", text: "before" },
      { type: "task", task_id: "c1" },
      { type: "text", text: "after" },
    ];
    const { output } = materialize(
      tree([
        { id: "task_r", output: [result("c1", blocks)], children: ["c1"] },
        child("c1", "task_r", { output: [message("child")] }),
      ]),
    );
    const types = (output[0] as unknown as { block_list: { type: string }[] }).block_list;
    expect(types.map((block) => block.type)).toEqual(["text", "message", "text"]);
  });

  it("expands a task once, inside the item that holds it", () => {
    const reference = { type: "task", task_id: "c1" };
    const { output } = materialize(
      tree(
        [
          {
            id: "task_r",
            output: [result("c1", [reference, reference]), result("c2", [reference])],
          },
          child("c1", "task_r", { output: [message("child")] }),
        ].map((task) => (task.id === "task_r" ? { ...task, children: ["c1"] } : task)),
      ),
    );
    expect(output).toMatchObject([
      { block_list: [{ type: "message", task_id: "c1" }, reference] },
      { block_list: [reference] },
    ]);
  });

  it("is as large as the events, however often tasks reference each other", () => {
    const ids = Array.from({ length: 40 }, (_, at) => `c${at}`);
    const references = ids.flatMap((task_id) => [
      { type: "task", task_id },
      { type: "task", task_id },
    ]);
    const chain = ids.map((id, at) =>
      child(id, at === 0 ? "task_r" : `c${at - 1}`, {
        output: [result(`c${at + 1}`, references)],
        children: [`c${at + 1}`].filter((next) => ids.includes(next)),
      }),
    );
    const all = tree([
      { id: "task_r", output: [result("c0", references)], children: ["c0"] },
      ...chain,
    ]);
    const sent = Object.values(all.tasks).flatMap((task) => task.output);
    const text = JSON.stringify(materialize(all));
    expect(text.length).toBeLessThan(1.1 * JSON.stringify(sent).length);
    for (const id of ids) expect(text.split(`"id":"fco_${id}"`).length - 1).toBe(1);
  });

  it("does not nest a task in itself", () => {
    const loop = tree([
      {
        id: "task_r",
        output: [result("c1")],
        children: ["c1"],
        parentTaskId: "c1",
        parentOutputIndex: 0,
      },
      child("c1", "task_r", { output: [result("x")], children: ["task_r"] }),
    ]);
    expect(materialize(loop).output).toHaveLength(1);
  });

  it("leaves out discarded items, and content unless it is requested", () => {
    const output = [
      { type: "discarded", id: "msg_0", reason: "fallback" },
      { ...message("said"), content: [{ type: "text", text: "secret" }] },
    ] as Item[];
    const one = tree([{ id: "task_r", output }]);
    expect(materialize(one).output).toEqual([message("said")]);
    expect(materialize(one, "task_r", { include: ["content"] }).output[0]).toHaveProperty(
      "content",
    );
  });

  it("returns the first form of the protocol with `seed`", () => {
    const annotation = {
      type: "reference_to_block",
      reference_id: 1,
      start_index: 0,
      end_index: 4,
    };
    const cited = message("[^1]", {
      id: "blk_1",
      annotations: [{ ...annotation, marker: "[^1]" }],
    });
    const one = tree([
      {
        id: "task_r",
        output: [result("c", [{ type: "text", text: "x", reference_id: 1 }]), cited],
      },
    ]);
    expect(materialize(one, undefined, { seed: true }).output).toEqual([
      {
        type: "tool_result",
        id: "fco_c",
        call_id: "c",
        block_list: [{ type: "text", text: "x", id: 1 }],
      },
      {
        type: "message",
        id: "msg",
        role: "assistant",
        block_list: [{ type: "text", text: "[^1]", annotations: [annotation] }],
      },
    ]);
  });

  it("does not find inherited properties as tasks", () => {
    const names = ["constructor", "toString", "__proto__"];
    const blocks = names.map((task_id) => ({ type: "task", task_id }));
    const one = tree([{ id: "task_r", output: [result("c", blocks)] }]);
    expect(materialize(one).output).toMatchObject([{ block_list: blocks }]);
    for (const name of names) {
      expect(() => materialize(one, name)).toThrow(`The tree has no task ${name}.`);
      expect(snapshotOf(one, name, { sequenceNumber: 1, createdAt: 1 })).toBeUndefined();
      expect(subtreeUsage(one, name).total_tokens).toBe(0);
      expect(childrenOf(one, name, 0)).toEqual([]);
      expect(rootTask(tree([], name))).toBeUndefined();
    }
  });

  it("throws for an unknown task", () => {
    expect(() => materialize(emptyTree())).toThrow(RivuletError);
    expect(() => materialize(emptyTree(), "task_x")).toThrow("The tree has no task task_x.");
  });
});

describe("selectors", () => {
  const usage = (total: number) => ({
    input_tokens: 1,
    output_tokens: total - 1,
    total_tokens: total,
  });
  const open = { type: "reasoning", id: "rs", status: "in_progress", summary: [] } as Item;
  const approval = { approval_id: "apr_1", kind: "tool_call" as const };
  const some = tree([
    { id: "task_r", output: [result("c1")], children: ["c1"], usage: usage(10) },
    child("c1", "task_r", {
      output: [open],
      usage: usage(5),
      subtreeUsage: usage(3),
      approvals: [
        { ...approval, decision: "deny" },
        { ...approval, approval_id: "apr_2" },
      ],
    }),
  ]);

  it("find the root, children, open items and pending approvals", () => {
    expect(rootTask(some)?.id).toBe("task_r");
    expect(childrenOf(some, "task_r", 0).map((task) => task.id)).toEqual(["c1"]);
    expect(childrenOf(some, "task_r", 1)).toEqual([]);
    expect(openItems(some)).toEqual([{ taskId: "c1", outputIndex: 0, item: open }]);
    expect(waitingApprovals(some).map(({ approval }) => approval.approval_id)).toEqual(["apr_2"]);
  });

  it("sum the usage of a subtree, including descendants that are not in the tree", () => {
    expect(subtreeUsage(some, "task_r").total_tokens).toBe(18);
    expect(subtreeUsage(some, "nobody").total_tokens).toBe(0);
    const root = { id: "task_r", children: ["c1"], usage: usage(5) };
    const shallow = tree([{ ...root, subtreeUsage: usage(100) }, child("c1", "task_r")]);
    expect(subtreeUsage(shallow, "task_r").total_tokens).toBe(105);
    const outlived = child("c1", "task_r", { usage: usage(70), subtreeUsage: usage(60) });
    const full = tree([{ ...root, subtreeUsage: usage(40) }, outlived]);
    expect(subtreeUsage(full, "task_r").total_tokens).toBe(135);
    expect(addUsage(usage(2), { ...usage(2), reasoning_tokens: 4 })).toEqual({
      input_tokens: 2,
      output_tokens: 2,
      total_tokens: 4,
      reasoning_tokens: 4,
    });
  });
});

describe("the first form", () => {
  const run = [
    '{"type":"task.created","task_id":"t","sequence_number":0,"task_seq":0,"created_at":1,"task":{"id":"t","object":"task","status":"queued","agent_id":"a","session_id":"s","created_at":1}}',
    '{"type":"task.output_item.added","task_id":"t","sequence_number":1,"task_seq":1,"created_at":1,"output_index":0,"item":{"type":"tool_result","id":"fco_1","message_id":"msg_1","call_id":"call_1","status":"in_progress","block_list":[]}}',
    '{"type":"task.text.done","task_id":"t","sequence_number":2,"task_seq":2,"created_at":1,"item_id":"fco_1","output_index":0,"block_index":0,"item":{"type":"text","text":"15C","reference_id":1}}',
    '{"type":"task.image.done","task_id":"t","sequence_number":3,"task_seq":3,"created_at":1,"item_id":"fco_1","output_index":0,"block_index":1,"item":{"type":"image","image_url":{"url":"data:,"},"mime_type":"image/png","reference_id":1}}',
    '{"type":"task.output_item.added","task_id":"t","sequence_number":4,"task_seq":4,"created_at":1,"output_index":1,"item":{"type":"message","id":"msg_1","message_id":"m","role":"assistant","status":"in_progress","block_list":[]}}',
    '{"type":"task.text.done","task_id":"t","sequence_number":5,"task_seq":5,"created_at":1,"item_id":"msg_1","output_index":1,"block_index":0,"item":{"type":"text","text":"Mild.[^1]","annotations":[{"type":"reference_to_block","reference_id":1,"start_index":5,"end_index":9,"block":{}}]}}',
  ];
  const tree = () =>
    reduce(
      emptyTree(),
      run.map((line) => JSON.parse(line) as TaskEvent),
    );
  const picture = { type: "image", image_url: { url: "data:," }, id: 1 };
  const text = { type: "text", text: "15C", id: 1 };
  const mark = (words: string) => ({
    type: "text",
    text: words,
    id: 1,
    tags: ["added_by_reference_manager"],
  });
  const annotation = { type: "reference_to_block", reference_id: 1, start_index: 5, end_index: 9 };

  it("has only the fields that the protocol had first", () => {
    expect(materialize(tree(), undefined, { seed: true }).output).toEqual([
      { type: "tool_result", id: "fco_1", call_id: "call_1", block_list: [text, picture] },
      {
        type: "message",
        id: "msg_1",
        role: "assistant",
        block_list: [{ type: "text", text: "Mild.[^1]", annotations: [annotation] }],
      },
    ]);
  });

  it("has the model's side where it is asked for", () => {
    const [result, message] = materialize(tree(), undefined, {
      seed: true,
      include: ["content"],
    }).output;
    expect(result?.content).toEqual([
      mark("<referencable-item>\nID: 1"),
      text,
      picture,
      mark("</referencable-item>"),
    ]);
    expect(message?.content).toEqual([{ type: "text", text: "Mild.[^1]" }]);
  });
});
