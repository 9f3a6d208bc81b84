import { emptyTree, type Task, type Tree } from "rivulet/protocol";
import { expect, it } from "vitest";
import { announcementsOf } from "./announcements.ts";

const task = (id: string, more: Partial<Task> = {}): Task => ({
  ...{ id, agentId: id, status: "in_progress", output: [], children: [], approvals: [] },
  ...{ appliedSeq: 0, ...(id !== "lead" && { parentTaskId: "lead" }), ...more },
});
const treeOf = (...tasks: readonly Task[]): Tree => ({
  ...emptyTree(),
  rootId: "lead",
  tasks: Object.fromEntries(tasks.map((one) => [one.id, one])),
});
const asks = (kind: "tool_call" | "question", more: object) => ({
  approvals: [{ approval_id: "a", kind, ...more }] as Task["approvals"],
});
const running = treeOf(task("lead", { children: ["critic"] }), task("critic"));
const lead = (more: Partial<Task>) => task("lead", { children: ["critic"], ...more });

it.each([
  [
    "an approval",
    task("critic", asks("tool_call", { name: "edit" })),
    "critic asks for your approval of edit.",
  ],
  [
    "a question",
    task("critic", asks("question", { message: "Which river?" })),
    "critic asks: Which river?",
  ],
  [
    "a failed child",
    task("critic", {
      status: "failed",
      error: { code: "x", message: "No key.", retryable: false },
    }),
    "critic has failed: No key.",
  ],
  ["the answer", lead({ status: "completed" }), "lead has answered."],
  ["a cancelled run", lead({ status: "cancelled" }), "lead was cancelled."],
  [
    "an incomplete run",
    lead({ status: "incomplete", incompleteReason: "max_iterations" }),
    "lead stopped early: max iterations.",
  ],
])("announces %s once", (_, changed, said) => {
  const after = { ...running, tasks: { ...running.tasks, [changed.id]: changed } };
  expect(announcementsOf(running, after)).toEqual([said]);
  expect(announcementsOf(after, { ...after, tasks: { ...after.tasks } })).toEqual([]);
});

it("says nothing about words, tools and children that complete", () => {
  const item = { type: "reasoning" as const, id: "r", status: "in_progress" as const, summary: [] };
  const written = treeOf(lead({ output: [item] }), task("critic", { status: "completed" }));
  expect(announcementsOf(running, written)).toEqual([]);
});
