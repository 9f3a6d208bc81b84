import fc from "fast-check";
import { expect, it } from "vitest";
import { estimateTokens, fittingCharacters } from "./context-files.ts";

it("counts four characters as one token, and a Chinese character as one", () => {
  expect(estimateTokens("")).toBe(0);
  expect(estimateTokens("word")).toBe(1);
  expect(estimateTokens("words")).toBe(2);
  expect(estimateTokens("今天下雨")).toBe(4);
});

it("returns the longest beginning that fits", () => {
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
