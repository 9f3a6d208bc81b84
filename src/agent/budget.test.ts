import { describe, expect, it } from "vitest";
import { emptyTree } from "../protocol/reduce.ts";
import type { Task, Tree } from "../protocol/task.ts";
import { ManualClock } from "../testing/index.ts";
import { BudgetMeter, usedBy } from "./budget.ts";

const usage = (total_tokens: number) => ({
  input_tokens: 0,
  output_tokens: total_tokens,
  total_tokens,
});
const nothing = { tokens: 0, cost: 0, iterations: 0 };

describe("a meter", () => {
  it.each([
    ["tokens", { tokens: 20 }],
    ["cost", { cost: 0.5 }],
    ["iterations", { iterations: 2 }],
  ])("is used up when its %s are", (_, budget) => {
    const meter = new BudgetMeter(budget, new ManualClock(), nothing);
    meter.add(usage(10), 0.25);
    expect(meter.isUsedUp).toBe(false);
    meter.add(usage(10), 0.25);
    expect(meter.isUsedUp).toBe(true);
  });

  it("is used up when its time is", async () => {
    const clock = new ManualClock();
    const meter = new BudgetMeter({ wallMs: 100 }, clock, nothing);
    await clock.advance(99);
    expect(meter.isUsedUp).toBe(false);
    await clock.advance(1);
    expect(meter.isUsedUp).toBe(true);
  });

  it("goes on with the time that was used before, and has no more left than its parent", async () => {
    const clock = new ManualClock();
    const parent = new BudgetMeter({ wallMs: 100 }, clock, { ...nothing, wallMs: 60 });
    const child = new BudgetMeter({ wallMs: 1_000 }, clock, nothing, parent);
    expect([parent.leftMs, child.leftMs]).toEqual([40, 40]);
    await clock.advance(30);
    expect([parent.wallMs, child.wallMs, child.leftMs, child.isUsedUp]).toEqual([
      90,
      30,
      10,
      false,
    ]);
    await clock.advance(10);
    expect(child.isUsedUp).toBe(true);
    expect(new BudgetMeter({}, clock, nothing).leftMs).toBe(Number.POSITIVE_INFINITY);
  });

  it("without a limit is never used up", () => {
    const meter = new BudgetMeter({}, new ManualClock(), nothing);
    meter.add(usage(1e9), 1e9);
    expect(meter.isUsedUp).toBe(false);
  });

  it("of a child counts on its parent's, and ends with it", () => {
    const parent = new BudgetMeter({ tokens: 20 }, new ManualClock(), nothing);
    const child = new BudgetMeter({ tokens: 100 }, new ManualClock(), nothing, parent);
    child.add(usage(20), 0);
    expect([parent.isUsedUp, child.isUsedUp]).toEqual([true, true]);
  });

  it("goes on from what was used before, which its parent knows already", () => {
    const parent = new BudgetMeter({ tokens: 25 }, new ManualClock(), { ...nothing, tokens: 10 });
    const child = new BudgetMeter(
      { tokens: 15 },
      new ManualClock(),
      { ...nothing, tokens: 10 },
      parent,
    );
    child.add(usage(5), 0);
    expect([parent.isUsedUp, child.isUsedUp]).toEqual([false, true]);
  });
});

it("what a subtree has used is the sum of its tasks, and of no other", () => {
  const task = (tokens: number, cost: string, ...children: string[]) =>
    ({
      usage: usage(tokens),
      cost: { amount: cost, currency: "USD" },
      children,
    }) as unknown as Task;
  const tree: Tree = {
    ...emptyTree(),
    tasks: {
      root: task(1, "0.5", "a", "b"),
      a: task(10, "1", "c"),
      b: task(100, "2"),
      c: task(1_000, "4"),
    },
  };
  const calls = new Map([
    ["root", 1],
    ["a", 2],
    ["c", 3],
  ]);
  expect(usedBy(tree, "root", calls)).toEqual({ tokens: 1_111, cost: 7.5, iterations: 6 });
  expect(usedBy(tree, "a", calls)).toEqual({ tokens: 1_010, cost: 5, iterations: 5 });
  expect(usedBy(tree, "unknown", calls)).toEqual(nothing);
});
