import fc from "fast-check";
import { expect, it } from "vitest";
import type { Cost } from "../protocol/task.ts";
import { addCost, priceOf, rounded } from "./price.ts";

const currency = "USD";
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };

function total(...amounts: readonly number[]): string | undefined {
  const price = (amount: number) => priceOf(() => ({ amount, currency }), usage, "p/m");
  return amounts.reduce<Cost | undefined>((cost, one) => addCost(cost, price(one)), undefined)
    ?.amount;
}

it("a sum of decimals reads as people write it", () => {
  expect(total(0.1, 0.2)).toBe("0.3");
  expect(total(0.1 * 3)).toBe("0.3");
  expect(total(0.7, 0.1)).toBe("0.8");
  expect(total(0, 0)).toBe("0");
  expect(total(12, 8)).toBe("20");
  expect(total(1e-7, 2e-7)).toBe("0.0000003");
  expect(total(1e21, 1)).toBe("1000000000000000000001");
});

it("small amounts are not lost beside large ones", () => {
  expect(total(1_000_000, 1e-9, 1e-9)).toBe("1000000.000000002");
});

it("amounts of whole units add up to as many, at any scale and in any order", () => {
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

it("rounding takes away what binary fractions add", () => {
  expect(rounded(0.7 + 0.1)).toBe(0.8);
  expect(rounded(123_456_789_012)).toBe(123_456_789_012);
});
