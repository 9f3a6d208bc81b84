import { expect, it } from "vitest";
import type { TaskRecord } from "../protocol/store.ts";
import { driverOf, isAbove } from "./drivers.ts";

function record(taskId: string, parentTaskId?: string, more: Partial<TaskRecord> = {}): TaskRecord {
  return {
    taskId,
    rootTaskId: "root",
    ...(parentTaskId !== undefined && { parentTaskId }),
    agentId: taskId,
    agentName: taskId,
    agentKey: taskId,
    sessionId: `s-${taskId}`,
    depth: 0,
    path: taskId,
    createdAt: 0,
    mode: "sync",
    status: "suspended",
    committedOutput: 0,
    ...more,
  };
}

it("drives the topmost of those that wait in turn, up to a background task", () => {
  const root = record("root");
  const background = record("background", "root", { mode: "background" });
  const child = record("child", "background");
  const grandchild = record("grandchild", "child");
  const other = record("other", "root");
  const tree = [root, background, child, grandchild, other];
  expect(driverOf(tree, "s-grandchild")).toBe(background);
  expect(driverOf(tree, "s-background")).toBe(background);
  expect(driverOf(tree, "s-other")).toBe(root);
  // A parent that has ended waits for nobody.
  expect(driverOf([child, grandchild], "s-grandchild")).toBe(child);
  expect(driverOf(tree, "s-unknown")).toBeUndefined();
});

it("of two tasks on one session, the first is the one to drive", () => {
  const first = record("first", "root", { sessionId: "s", mode: "background" });
  const second = record("second", "root", { sessionId: "s", mode: "background", status: "queued" });
  expect(driverOf([first, second], "s")).toBe(first);
});

it("knows who is above whom", () => {
  const tree = [record("root"), record("a", "root"), record("b", "a")];
  const byId = new Map(tree.map((one) => [one.taskId, one]));
  expect(isAbove(byId, "root", record("b", "a"))).toBe(true);
  expect(isAbove(byId, "b", record("a", "root"))).toBe(false);
  expect(isAbove(byId, "b", record("b", "a"))).toBe(false);
});
