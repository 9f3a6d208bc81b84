import fc from "fast-check";
import { expect, it } from "vitest";
import type { FoundFile, GrepQuery } from "./filesystem.ts";
import { grepFiles } from "./grep.ts";

const limits = { grepMatches: 10_000, grepMs: 20_000 };

function search(query: GrepQuery, texts: readonly string[], ripgrep: boolean | string) {
  const files = texts.map(
    (text, index): FoundFile => ({
      path: `f${String(index).padStart(3, "0")}`,
      read: async () => new TextEncoder().encode(text),
    }),
  );
  return grepFiles(query, { limits, ripgrep, walk: (visit) => visit(files) });
}

it("finds the same lines with ripgrep and with the fallback", async () => {
  const line = fc.string({ unit: fc.constantFrom("a", "b", " ", ".", "é", "\t"), maxLength: 8 });
  const text = fc.array(line, { maxLength: 6 }).map((lines) => lines.join("\n"));
  const texts = fc.array(fc.tuple(text, fc.constantFrom("", "\n", "\r\n")), { maxLength: 6 });
  const query = fc.record({
    pattern: fc.constantFrom(
      "a",
      "a+b",
      "^b",
      "b$",
      "[ab].",
      "(a|é)b",
      "^$",
      ".",
      "A",
      "a.b",
      "\\s",
    ),
    literal: fc.boolean(),
    ignoreCase: fc.boolean(),
  });
  const property = fc.asyncProperty(texts, query, async (texts, query) => {
    const joined = texts.map(([text, end]) => text + end);
    const [one, other] = await Promise.all([
      search(query, joined, true),
      search(query, joined, false),
    ]);
    expect(one).toEqual(other);
  });
  await fc.assert(property, { numRuns: 40 });
});

it("falls back when ripgrep cannot be started", async () => {
  const { matches } = await search({ pattern: "b" }, ["a\nb"], "/nowhere/rg");
  expect(matches).toEqual([{ path: "f000", line: 2, text: "b" }]);
});

it("starts no search when there are no files", async () => {
  expect(await search({ pattern: "(" }, [], true)).toEqual({ matches: [], tooLarge: 0 });
});

it("searches more data than a pipe holds", async () => {
  const texts = Array.from({ length: 20 }, (_, i) => `${"x".repeat(99)}\n`.repeat(20_000) + i);
  for (const ripgrep of [true, false]) {
    const { matches } = await search({ pattern: "^\\d+$" }, texts, ripgrep);
    expect(matches.map(({ line, text }) => [line, text])).toEqual(
      texts.map((_, i) => [20_001, String(i)]),
    );
  }
});

it("rejects when the signal aborts during the search", async () => {
  const stop = new AbortController();
  const walk = async () => {
    stop.abort(new Error("enough"));
    await new Promise(() => {});
  };
  const work = grepFiles({ pattern: "a" }, { limits, ripgrep: true, signal: stop.signal, walk });
  await expect(work).rejects.toThrow("enough");
});
