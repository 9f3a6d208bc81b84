import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { emptyTree } from "../../protocol/reduce.ts";
import type { Cost, Task, Tree } from "../../protocol/task.ts";
import { ManualClock } from "../../testing.ts";
import { addCost, BudgetMeter, priceOf, rounded, usedBy } from "./budget.ts";

const usage = (total_tokens: number) => ({
  input_tokens: 0,
  output_tokens: total_tokens,
  total_tokens,
});
const nothing = { tokens: 0, cost: 0, iterations: 0 };

describe("BudgetMeter", () => {
  it.each([
    ["tokens", { tokens: 20 }],
    ["cost", { cost: 0.5 }],
    ["iterations", { iterations: 2 }],
  ])("is used up when its %s are used", (_, budget) => {
    const meter = new BudgetMeter(budget, new ManualClock(), nothing);
    meter.add(usage(10), 0.25);
    expect(meter.isUsedUp).toBe(false);
    meter.add(usage(10), 0.25);
    expect(meter.isUsedUp).toBe(true);
  });

  it("is used up when its time is over", async () => {
    const clock = new ManualClock();
    const meter = new BudgetMeter({ wallMs: 100 }, clock, nothing);
    await clock.advance(99);
    expect(meter.isUsedUp).toBe(false);
    await clock.advance(1);
    expect(meter.isUsedUp).toBe(true);
  });

  it("counts earlier time, and has at most the time of its parent", async () => {
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

  it("is never used up without a limit", () => {
    const meter = new BudgetMeter({}, new ManualClock(), nothing);
    meter.add(usage(1e9), 1e9);
    expect(meter.isUsedUp).toBe(false);
  });

  it("counts on its parent and is used up with it", () => {
    const parent = new BudgetMeter({ tokens: 20 }, new ManualClock(), nothing);
    const child = new BudgetMeter({ tokens: 100 }, new ManualClock(), nothing, parent);
    child.add(usage(20), 0);
    expect([parent.isUsedUp, child.isUsedUp]).toEqual([true, true]);
  });

  it("starts from earlier usage, which its parent has counted already", () => {
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

it("usedBy adds up the tasks of a subtree only", () => {
  const task = (id: string, tokens: number, cost: string, ...children: string[]) =>
    ({
      id,
      usage: usage(tokens),
      cost: { amount: cost, currency: "USD" },
      children,
    }) as unknown as Task;
  const tree: Tree = {
    ...emptyTree(),
    tasks: {
      root: task("root", 1, "0.5", "a", "b"),
      a: task("a", 10, "1", "c"),
      b: task("b", 100, "2"),
      c: task("c", 1_000, "4"),
    },
  };
  const calls = new Map([
    ["root", 1],
    ["a", 2],
    ["c", 3],
  ]);
  const all = { tokens: 1_111, cost: 7.5, iterations: 6, agents: 4 };
  expect(usedBy(tree, "root", calls)).toEqual(all);
  const below = { tokens: 1_010, cost: 5, iterations: 5, agents: 2 };
  expect(usedBy(tree, "a", calls)).toEqual(below);
  expect(usedBy(tree, "unknown", calls)).toEqual({ ...nothing, agents: 0 });
});

describe("prices", () => {
  const currency = "USD";
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };

  function total(...amounts: readonly number[]): string | undefined {
    const price = (amount: number) => priceOf(() => ({ amount, currency }), usage, "p/m");
    return amounts.reduce<Cost | undefined>((cost, one) => addCost(cost, price(one)), undefined)
      ?.amount;
  }

  it("adds decimals exactly", () => {
    expect(total(0.1, 0.2)).toBe("0.3");
    expect(total(0.1 * 3)).toBe("0.3");
    expect(total(0.7, 0.1)).toBe("0.8");
    expect(total(0, 0)).toBe("0");
    expect(total(12, 8)).toBe("20");
    expect(total(1e-7, 2e-7)).toBe("0.0000003");
    expect(total(1e21, 1)).toBe("1000000000000000000001");
  });

  it("keeps small amounts beside large ones", () => {
    expect(total(1_000_000, 1e-9, 1e-9)).toBe("1000000.000000002");
  });

  it("adds units exactly, at any scale and in any order", () => {
    const units = fc.array(fc.integer({ min: 0, max: 1e9 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(units, fc.integer({ min: 0, max: 12 }), (amounts, scale) => {
        const whole = amounts.reduce((one, other) => one + other, 0);
        expect(total(...amounts.map((amount) => Number(`${amount}e-${scale}`)))).toBe(
          total(0, Number(`${whole}e-${scale}`)),
        );
      }),
    );
  });

  it("rounds away binary artefacts", () => {
    expect(rounded(0.7 + 0.1)).toBe(0.8);
    expect(rounded(123_456_789_012)).toBe(123_456_789_012);
  });
});
