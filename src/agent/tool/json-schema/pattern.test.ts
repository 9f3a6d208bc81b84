import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compilePattern } from "./pattern.ts";

const test = (source: string, text: string) => compilePattern(source).test(text);

/** Generated expressions without references and look-arounds. */
const { source } = fc.letrec<{ source: string; term: string; group: string }>((tie) => ({
  source: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.array(tie("term"), { maxLength: 4 }).map((terms) => terms.join("")),
    fc.tuple(tie("source"), tie("source")).map((options) => options.join("|")),
  ),
  term: fc
    .tuple(
      fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        fc.constantFrom(
          ...["a", "b", "é", "😀", ".", "\\d", "\\w", "[ab]", "[^a]", "\\.", "\\n", "\\u0061"],
        ),
        fc.constantFrom("\\p{Lu}", "[\\]\\-a]", "\\x62", "\\u{1F600}"),
        tie("group"),
      ),
      fc.constantFrom("", "", "*", "+", "?", "{2}", "{1,3}", "{1,}", "*?", "{0}"),
    )
    .map((parts) => parts.join("")),
  group: fc.oneof(
    tie("source").map((inner) => `(${inner})`),
    tie("source").map((inner) => `(?:${inner})`),
    fc.constantFrom("(?:^|a)", "(?:b|$)", "(?:\\b)", "(?:\\B)"),
  ),
}));
const text = fc
  .array(fc.constantFrom(..."aabbé😀.1A\n-]_ "), { maxLength: 12 })
  .map((chars) => chars.join(""));

describe("a linear pattern", () => {
  it("agrees with the engine of the platform", () => {
    fc.assert(
      fc.property(source, text, (source, text) => {
        // V8 also looks for \\B inside a surrogate pair, which the standard does not.
        fc.pre(!source.includes("\\B") || !text.includes("😀"));
        expect(test(source, text)).toBe(new RegExp(source, "u").test(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ["^(a+)+$", "b"],
    ["^(a|a)*$", "b"],
    ["(a*)*(a*)*$", "b"],
    ["^([a-z]+)*\\d", "!"],
    ["(x+x+)+y", "z"],
  ])("reads each character once: %s", (source, end) => {
    const { states, test } = compilePattern(source);
    expect(states).toBeLessThan(20);
    expect(test(`${"a".repeat(20_000)}${end}`)).toBe(new RegExp(source, "u").test(end));
  });

  it.each([
    ["(?=a)", "look-around"],
    ["(?<!a)b", "look-around"],
    ["(a)\\1", "reference"],
    ["(?<x>a)\\k<x>", "reference"],
    ["a{3000}", "too large"],
    ["(a{50}){50}", "too large"],
    ["((((a{9}){9}){9}){9}){9}", "too large"],
    ["(", "Invalid regular expression"],
    ["[", "Invalid regular expression"],
    ["a{2,1}", "Invalid regular expression"],
  ])("refuses %s", (source, reason) => {
    expect(() => compilePattern(source)).toThrow(reason);
  });
});
