import type { Task, Tree } from "rivulet/protocol";
import { describe, expect, it } from "vitest";
import { flameOf, ownUse } from "./flame.ts";
import type { Lane } from "./spans.ts";

const task = (id: string, total_tokens: number, children: string[], more: Partial<Task> = {}) => ({
  ...{ id, status: "completed", output: [], approvals: [], appliedSeq: 0, children },
  usage: { input_tokens: total_tokens, output_tokens: 0, total_tokens },
  ...more,
});
const tree = {
  rootId: "root",
  tasks: {
    root: task("root", 20, ["a", "b", "c"]),
    a: task("a", 10, ["deep"], { cost: { amount: "0.5", currency: "EUR" } }),
    deep: task("deep", 20, [], { cost: { amount: "2", currency: "USD" } }),
    b: task("b", 50, []),
    c: task("c", 0, []),
  },
} as unknown as Tree;
const none = new Map<string, Lane>();

describe("flameOf", () => {
  it("places each task below its parent, as wide as what its subtree has used", () => {
    const flames = flameOf(tree, ownUse(tree, "tokens", none, 0));
    expect(flames).toEqual([
      { taskId: "root", depth: 0, from: 0, size: 1, total: 100 },
      { taskId: "a", depth: 1, from: 0, size: 0.3, total: 30 },
      { taskId: "b", depth: 1, from: 0.3, size: 0.5, total: 50 },
      { taskId: "deep", depth: 2, from: 0, size: 0.2, total: 20 },
    ]);
  });

  it("counts money in one currency", () => {
    const flames = flameOf(tree, ownUse(tree, { currency: "EUR" }, none, 0));
    expect(flames.map(({ taskId, total }) => [taskId, total])).toEqual([
      ["root", 0.5],
      ["a", 0.5],
    ]);
    expect(flameOf(tree, ownUse(tree, { currency: "GBP" }, none, 0))).toEqual([]);
  });

  it("counts the time of models and tools, up to now", () => {
    const spans = [
      { kind: "model", from: 10, to: 40, at: 1 },
      { kind: "wait", from: 40, to: 90, at: 2 },
      { kind: "tool", from: 90, at: 3 },
    ] as const;
    const lane = { taskId: "b", startedAt: 0, at: 0, spans: [...spans], hints: new Map() };
    const own = ownUse(tree, "time", new Map([["b", lane]]), 100);
    expect([own("b"), own("a")]).toEqual([40, 0]);
    expect(ownUse(tree, "time", new Map([["b", lane]]), 20)("b")).toBe(10);
  });
});
