import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mentionsIn } from "./attachments.ts";

describe("a mention", () => {
  it.each([
    ["@a.md", ["a.md"]],
    ["see @a.md", ["a.md"]],
    ["see @a.md.", ["a.md.", "a.md"]],
    ["(see @notes/a.md)", ["notes/a.md)", "notes/a.md"]],
    ["**@a.md**", ["a.md**", "a.md"]],
    ["'@a.md'", ["a.md'", "a.md"]],
    ['@"my notes/a.md"', ["my notes/a.md"]],
    ["请看@笔记/计划.md，然后总结", ["笔记/计划.md"]],
    ["line one\n@a.md\nline three", ["a.md"]],
    ["a `code` and @a.md", ["a.md"]],
    ["a lone ` and @a.md", ["a.md"]],
    ["```ts\ncode\n```\n@a.md", ["a.md"]],
    ["~~~~\n```\n~~~\n~~~~\n@a.md", ["a.md"]],
  ])("%s", (text, spellings) => {
    expect(mentionsIn(text)).toEqual([spellings]);
  });

  it.each([
    "",
    "@",
    "@ a.md",
    "ann@example.org",
    "ann.b+c@example.org",
    "\\@a.md",
    "https://example.org/@ann",
    "`@a.md`",
    "`` ` @a.md ``",
    "```\n@a.md\n```",
    "   ~~~ md\n@a.md",
    "```\n@a.md\n``\n@b.md",
  ])("is not in %j", (text) => {
    expect(mentionsIn(text)).toEqual([]);
  });

  it("is found in order, at most 50 per text", () => {
    const many = Array.from({ length: 60 }, (_, n) => `@f${n}`);
    expect(mentionsIn(many.join(" "))).toEqual(many.slice(0, 50).map((one) => [one.slice(1)]));
  });

  it("never comes from code, and is never changed", () => {
    const piece = fc.constantFrom("@a.md", "`", "``", "```", "~~~", "\n", " ", "x", "\\", "@");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const text = pieces.join("");
        for (const [path = ""] of mentionsIn(text)) {
          expect(text).toContain(path);
          expect(path).not.toMatch(/[\s`]/);
        }
        expect(mentionsIn(`~~~\n${text.replaceAll("~", "")}`)).toEqual([]);
      }),
    );
  });

  it.each([
    ["backticks", "`".repeat(200_000)],
    ["runs of backticks", Array.from({ length: 2_000 }, (_, n) => "`".repeat(n % 97)).join(" ")],
    ["marks", "@".repeat(200_000)],
    ["quotes", '@"'.repeat(100_000)],
    ["closing marks", `@a${".".repeat(100_000)}b`],
  ])("is found fast among many %s", (_, text) => {
    const start = performance.now();
    mentionsIn(text);
    expect(performance.now() - start).toBeLessThan(2_000);
  });
});
