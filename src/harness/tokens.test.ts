import fc from "fast-check";
import { expect, it } from "vitest";
import { estimateTokens, fittingCharacters } from "./tokens.ts";

it("counts four characters as one, and a Chinese one as one by itself", () => {
  expect(estimateTokens("")).toBe(0);
  expect(estimateTokens("word")).toBe(1);
  expect(estimateTokens("words")).toBe(2);
  expect(estimateTokens("今天下雨")).toBe(4);
});

it("what fits is the longest beginning that does", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.nat(30), (text, tokens) => {
      const length = fittingCharacters(text, tokens);
      expect(estimateTokens(text.slice(0, length))).toBeLessThanOrEqual(tokens);
      if (length < text.length) {
        expect(estimateTokens(text.slice(0, length + 1))).toBeGreaterThan(tokens);
      }
    }),
  );
  expect(fittingCharacters("text", -1)).toBe(0);
});
