import { expect, it } from "vitest";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import type { Task, Tree } from "../protocol/task.ts";
import { readRecording } from "./recording.ts";
import type { Canvas } from "./render.ts";
import { renderRoster, shortTime } from "./roster.ts";
import { widthOf } from "./text.ts";

const events = readRecording("examples/recorded-run.jsonl");
const canvas = (columns: number): Canvas => ({ columns, style: (_, text) => text });

it("has one line per agent that fits, at every moment and width", () => {
  let tree = emptyTree();
  for (const event of events) {
    tree = reduce(tree, event);
    for (const columns of [20, 40, 80, 120]) {
      for (const isExpanded of [false, true]) {
        const options = { now: event.created_at, maxRows: 12, isExpanded };
        const lines = renderRoster(tree, canvas(columns), options);
        expect(lines.length).toBeLessThanOrEqual(12);
        for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(columns);
        if (!isExpanded) expect(lines).toHaveLength(Object.keys(tree.tasks).length);
      }
    }
  }
  const names = renderRoster(tree, canvas(80), { now: 0, maxRows: 20 }).map((line) =>
    line.slice(2, 22).trim(),
  );
  expect(names).toEqual(expect.arrayContaining(["researcher", "researcher#2", "fact-checker"]));
});

function treeOf(count: number, statusOf: (index: number) => Task["status"]): Tree {
  const root: Task = {
    ...{
      id: "root",
      status: "in_progress",
      agentId: "lead",
      output: [],
      approvals: [],
      appliedSeq: 0,
    },
    children: Array.from({ length: count }, (_, index) => `t${index}`),
  };
  const children = root.children.map(
    (id, index): Task => ({
      ...root,
      ...{
        id,
        agentId: `child-${index}`,
        parentTaskId: "root",
        children: [],
        status: statusOf(index),
      },
    }),
  );
  const tasks = Object.fromEntries([root, ...children].map((task) => [task.id, task]));
  return { ...emptyTree(), rootId: "root", tasks };
}

it("shows the agents at work and counts the others when there are too many", () => {
  const tree = treeOf(40, (index) =>
    index === 30 ? "suspended" : index > 36 ? "in_progress" : "completed",
  );
  const lines = renderRoster(tree, canvas(80), { now: 0, maxRows: 6 });
  expect(lines).toHaveLength(6);
  expect(lines[0]).toMatch(/^… 36 more: 36 completed/);
  expect(lines.slice(1).map((line) => line.slice(2, 12).trim())).toEqual([
    ...["lead", "child-30", "child-37", "child-38", "child-39"],
  ]);
});

it("formats times in at most five characters", () => {
  expect([0, 9_940, 42_500, 61_000, 125_000, 3_600_000, 90_000_000].map(shortTime)).toEqual([
    ...["0.0s", "9.9s", "42s", "61s", "2m05", "60m00", "25h"],
  ]);
});

it("leaves out agents that have ended, on request", () => {
  const tree = treeOf(4, (index) => (index === 2 ? "in_progress" : "completed"));
  const options = { now: 0, maxRows: 20, isUnfinishedOnly: true };
  const names = renderRoster(tree, canvas(80), options).map((line) => line.slice(0, 2));
  expect(names.filter((mark) => mark === "✓ ")).toEqual([]);
  expect(names).toContain("● ");
});
