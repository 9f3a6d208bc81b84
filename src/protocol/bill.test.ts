import { describe, expect, it } from "vitest";
import { addBills, billOf, billOfTree } from "./bill.ts";
import { priceBy } from "./prices.ts";
import { emptyTree } from "./reduce.ts";
import type { Usage } from "./task.ts";

const tokens = (input_tokens: number, output_tokens: number, more: Partial<Usage> = {}): Usage => ({
  ...{ input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
  ...more,
});
const euro = (amount: string) => ({ amount, currency: "EUR" });
const share = (model: string, input: number, output: number) => ({
  ...{ provider: "demo", model, input_tokens: input, output_tokens: output },
});

describe("billOf", () => {
  it("adds up tasks by agent and model, those with the most tokens first", () => {
    const bill = billOf([
      { agent: "lead", usage: tokens(3, 1), byModel: [share("big", 3, 1)], cost: euro("0.1") },
      { agent: "helper", usage: tokens(9, 2), byModel: [share("small", 9, 2)] },
      { agent: "lead", usage: tokens(2, 0), byModel: [share("big", 2, 0)], cost: euro("0.2") },
    ]);
    expect(bill.rows).toEqual([
      {
        ...{ agent: "helper", model: "demo/small", usage: tokens(9, 2), retried: tokens(0, 0) },
        ...{ costs: [], unpriced_tokens: 11, unmetered_calls: 0 },
      },
      {
        ...{ agent: "lead", model: "demo/big", usage: tokens(5, 1), retried: tokens(0, 0) },
        ...{ costs: [euro("0.3")], unpriced_tokens: 0, unmetered_calls: 0 },
      },
    ]);
    expect(bill.total).toMatchObject({ usage: tokens(14, 3), costs: [euro("0.3")] });
    expect(bill.total.unpriced_tokens).toBe(11);
  });

  it("keeps retried calls, unmetered calls and currencies apart", () => {
    const byModel = [
      { ...share("a", 4, 0), cost: { amount: "1", currency: "USD" } },
      { ...share("a", 2, 1), retried: true as const, unmetered: 2, cost: euro("0.5") },
    ];
    const { total } = billOf([{ usage: tokens(6, 1), byModel }], { by: [] });
    expect(total).toEqual({
      usage: tokens(6, 1),
      retried: tokens(2, 1),
      costs: [euro("0.5"), { amount: "1", currency: "USD" }],
      unpriced_tokens: 0,
      unmetered_calls: 2,
    });
  });

  it("prices only calls whose cost is not recorded, by their model", () => {
    const byModel = [{ ...share("a", 1_000_000, 0), cost: euro("9") }, share("b", 500_000, 0)];
    const price = priceBy({ b: { input: 2, output: 0 }, a: { input: 100, output: 0 } });
    const task = { usage: tokens(1_500_000, 0), byModel, cost: euro("9") };
    const { rows } = billOf([task], { by: ["model"], price });
    expect(rows.map(({ model, costs }) => [model, costs])).toEqual([
      ["demo/a", [euro("9")]],
      ["demo/b", [{ amount: "1", currency: "USD" }]],
    ]);
  });

  it("gives the recorded cost of a whole task to its only model, and to no model among several", () => {
    const price = priceBy({ demo: { input: 1, output: 1 } });
    const one = { usage: tokens(1, 1), byModel: [share("a", 1, 1)], cost: euro("3") };
    expect(billOf([one], { price }).rows).toMatchObject([{ model: "demo/a", costs: [euro("3")] }]);
    const two = { ...one, byModel: [share("a", 1, 0), share("b", 0, 1)] };
    const [row, ...others] = billOf([two], { price }).rows;
    expect(others).toEqual([]);
    expect(row).not.toHaveProperty("model");
    expect(row).toMatchObject({ usage: tokens(1, 1), costs: [euro("3")], unpriced_tokens: 0 });
  });

  it("counts what no share accounts for, and no share that contradicts the usage", () => {
    const part = { usage: tokens(5, 5), byModel: [share("a", 2, 2)] };
    expect(billOf([part], { by: ["model"] }).rows).toMatchObject([
      { usage: tokens(3, 3) },
      { model: "demo/a", usage: tokens(2, 2) },
    ]);
    const wrong = { usage: tokens(1, 1), byModel: [share("a", 2, 0)] };
    expect(billOf([wrong], { by: ["model"] }).rows).toEqual([
      {
        ...{ usage: tokens(1, 1), retried: tokens(0, 0), costs: [] },
        ...{ unpriced_tokens: 2, unmetered_calls: 0 },
      },
    ]);
  });

  it("ignores a cost that is no amount", () => {
    const usage = tokens(1, 1);
    for (const amount of ["NaN", "-1", "1e999999999", "", "0x10"])
      expect(billOf([{ usage, cost: euro(amount) }]).total.costs).toEqual([]);
  });

  it("takes the days from the shares, else from the start of the task", () => {
    const byModel = [{ ...share("a", 1, 0), day: "2026-01-02" }];
    const task = { usage: tokens(3, 0), byModel, createdAt: Date.UTC(2026, 0, 1) };
    const by = ["day"] as const;
    expect(billOf([task], { by }).rows.map(({ day, usage }) => [day, usage.total_tokens])).toEqual([
      ["2026-01-01", 2],
      ["2026-01-02", 1],
    ]);
    expect(billOf([task], { by, from: "2026-01-02" }).total.usage.total_tokens).toBe(1);
    expect(billOf([task], { by, to: "2026-01-01" }).total.usage.total_tokens).toBe(2);
  });

  it("is empty for an empty tree, and names a wrong key", () => {
    expect(billOfTree(emptyTree()).rows).toEqual([]);
    expect(() => billOf([], { by: ["agents" as "agent"] })).toThrow(
      "`options` must be an object whose `by`",
    );
  });
});

describe("addBills", () => {
  it("gives the bill of all tasks", () => {
    const a = { agent: "a", usage: tokens(1, 2), cost: euro("0.1") };
    const b = { agent: "b", usage: tokens(5, 0) };
    expect(addBills([billOf([a, b]), billOf([a])])).toEqual(billOf([a, b, a]));
  });
});

describe("priceBy", () => {
  const usage = tokens(3_000_000, 1_000_000, {
    cached_input_tokens: 1_000_000,
    cache_write_tokens: 1_000_000,
  });
  const cost = (model: string, prices = {}) => priceBy(prices)(usage, model)?.amount;

  it("counts fresh, cached and written input and output", () => {
    const prices = { input: 1, cachedInput: 0.1, cacheWrite: 1.25, output: 5 };
    expect(priceBy({ m: { ...prices, currency: "EUR" } })(usage, "p/m")).toEqual(euro("7.35"));
    expect(cost("p/m", { m: { input: 1, output: 5 } })).toBe("8");
  });

  it("takes the exact name, then the longest beginning, then the list", () => {
    const at = (input: number) => ({ input, output: 0 });
    const prices = { "openai:gpt": at(1), "gpt-9": at(2), "openai.responses/gpt-9-mini": at(3) };
    expect(cost("openai.responses/gpt-9-mini", prices)).toBe("9");
    expect(cost("openai.responses/gpt-9-max", prices)).toBe("3");
    expect(cost("openai.chat/gpt-1", prices)).toBe("3");
    expect(cost("anthropic.messages/claude-opus-4-5-20251101")).toBe("36.75");
    expect(cost("anthropic.messages/claude-opus-4-5-turbo")).toBeUndefined();
    expect(cost("proxy/claude-opus-4-5")).toBeUndefined();
    expect(cost("", prices)).toBeUndefined();
  });
});
