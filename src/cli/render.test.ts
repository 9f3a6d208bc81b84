import { expect, it } from "vitest";
import { emptyTree } from "../protocol/reduce.ts";
import type { Item, Task, Tree } from "../protocol/task.ts";
import type { Canvas } from "./render.ts";
import { renderTree, renderUsage } from "./render.ts";

const canvas: Canvas = { columns: 40, style: (_, text) => text };

function task(id: string, output: readonly Item[], more: Partial<Task> = {}): Task {
  return { id, status: "in_progress", output, children: [], approvals: [], appliedSeq: 0, ...more };
}
function treeOf(...tasks: readonly Task[]): Tree {
  return { ...emptyTree(), tasks: Object.fromEntries(tasks.map((one) => [one.id, one])) };
}

it("draws a child under the call that started it", () => {
  const result: Item = { type: "tool_result", id: "fco_1", call_id: "call_1", block_list: [] };
  const said: Item = {
    type: "message",
    id: "msg_1",
    role: "assistant",
    block_list: [{ type: "text", text: "A text that is too long for one line of it." }],
  };
  const parent = task("task_1", [result], {
    agentId: "lead",
    sessionId: "s",
    children: ["call_1"],
  });
  const child = task("call_1", [said], {
    agentId: "researcher",
    parentTaskId: "task_1",
    parentOutputIndex: 0,
    source: { agentId: "researcher", depth: 1, path: "s/researcher" },
  });
  expect(renderTree(treeOf(child, parent), canvas)).toEqual([
    "lead s in_progress",
    "    researcher s/researcher in_progress",
    "      says   A text that is too long for",
    "             one line of it.",
  ]);
  expect(renderTree(treeOf(child), canvas)[0]).toBe("researcher s/researcher in_progress");
});

it("shows a waiting approval, then its decision", () => {
  const call: Item = {
    type: "tool_call",
    id: "fc",
    call_id: "call_1",
    name: "rm",
    arguments: "{}",
  };
  const approval = { approval_id: "apr_1", kind: "tool_call", call_id: "call_1" } as const;
  const lines = (approvals: Task["approvals"]) =>
    renderTree(treeOf(task("t", [call], { approvals })), canvas)[2];
  expect(lines([approval])).toBe("  asks   tool_call (waiting)");
  expect(lines([{ ...approval, decision: "deny", by: "ann" }])).toBe(
    "  asks   tool_call → deny by ann",
  );
});

it("shows progress, blocks, or the error of a result", () => {
  const result = { type: "tool_result", id: "fco", call_id: "c", block_list: [] } as const;
  const lines = (more: object) =>
    renderTree(treeOf(task("t", [{ ...result, ...more }])), canvas)[1];
  expect(lines({ progress: { progress: 1, message: "reading" } })).toBe("  works  reading");
  expect(lines({ block_list: [{ type: "image", image_url: { url: "" } }] })).toBe(
    "  result (image)",
  );
  expect(lines({ error: { code: "tool_error", message: "no", retryable: false } })).toBe(
    "  failed no",
  );
  expect(lines({ error: { code: "denied", message: "no", retryable: false } })).toBe("  denied no");
});

it("shortens a long result and counts the hidden lines", () => {
  const text = "     1\t# Title\n     2\t\n     3\tOne.\n     4\tTwo.\n     5\tThree.";
  const block_list = [{ type: "text", text } as const];
  const item: Item = { type: "tool_result", id: "fco", call_id: "c", block_list };
  expect(renderTree(treeOf(task("t", [item])), canvas).slice(1)).toEqual([
    "  result 1 # Title",
    "         3 One.",
    "         … 2 more lines",
  ]);
});

it("numbers agents with the same path", () => {
  const source = { agentId: "r", depth: 1, path: "s/r" };
  const result: Item = { type: "tool_result", id: "fco", call_id: "a", block_list: [] };
  const said: Item = {
    type: "message",
    id: "msg",
    role: "assistant",
    block_list: [{ type: "text", text: "Hello." }],
  };
  const child = (id: string, status: Task["status"]) =>
    task(id, [said], { agentId: "r", parentTaskId: "t", parentOutputIndex: 0, source, status });
  const parent = task("t", [result], { agentId: "lead", sessionId: "s", children: ["a", "b"] });
  const tree = treeOf(parent, child("a", "completed"), child("b", "in_progress"));
  expect(renderTree(tree, canvas)).toEqual([
    "lead s in_progress",
    "    r s/r completed",
    "      says   Hello.",
    "    r s/r#2 in_progress",
    "      says   Hello.",
  ]);
});

it("removes control characters from agents' text", () => {
  const item: Item = {
    type: "reasoning",
    id: "rs",
    summary: [{ type: "text", text: "a\x1b[2Jb\u009bc" }],
  };
  expect(renderTree(treeOf(task("t", [item], { agentId: "\x07x" })), canvas)).toEqual([
    "x t in_progress",
    "  thinks a[2Jbc",
  ]);
});

it("breaks a word that is wider than the canvas", () => {
  const item: Item = {
    type: "reasoning",
    id: "rs",
    summary: [{ type: "text", text: "x".repeat(40) }],
  };
  expect(renderTree(treeOf(task("t", [item])), canvas).slice(1)).toEqual([
    `  thinks ${"x".repeat(31)}`,
    `         ${"x".repeat(9)}`,
  ]);
});

it("shows the token usage of each agent", () => {
  const usage = { input_tokens: 10, output_tokens: 2, total_tokens: 12 };
  expect(renderUsage(treeOf(task("t", [], { usage }), task("u", [])), canvas)).toEqual([
    "t in      10  out       2",
  ]);
});

it("draws an approval that concerns no call", () => {
  const stop = { approval_id: "apr_1", kind: "stop", message: "Accept this reply?" } as const;
  const stopped = task("task_1", [], { agentId: "lead", status: "suspended", approvals: [stop] });
  expect(renderTree(treeOf(stopped), { ...canvas, columns: 80 })).toEqual([
    expect.stringContaining("lead"),
    "  asks   Accept this reply? (waiting)",
  ]);
});
