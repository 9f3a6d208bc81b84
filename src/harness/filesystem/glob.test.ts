import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileGlob } from "./glob.ts";

describe("compileGlob", () => {
  it.each([
    ["*", ["a", ".env", "a.b"], ["a/b", "a/"]],
    ["*.md", ["a.md", ".md"], ["a.mdx", "d/a.md", "amd"]],
    ["**/*.md", ["a.md", "d/a.md", "d/e/a.md"], ["a.txt"]],
    ["**", ["a", "a/b/c"], []],
    ["a/**", ["a/b", "a/b/c", "a"], ["b/a", "ab"]],
    ["a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["a/b", "z", "a/zz"]],
    ["**/b/**/d", ["b/d", "a/b/c/b/c/d"], ["a/d", "b/d/e"]],
    ["a?c", ["abc", "a😀c"], ["ac", "abbc", "a/c"]],
    ["[a-c]x", ["ax", "cx"], ["dx", "x"]],
    ["[!a-c]x", ["dx", "-x"], ["ax"]],
    ["[^a]", ["b"], ["a"]],
    ["[]a]", ["]", "a"], ["b"]],
    ["[a-]", ["a", "-"], ["b"]],
    ["{a,b}.{md,txt}", ["a.md", "b.txt"], ["c.md", "a.js"]],
    ["{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x"]],
    ["x{,y}", ["x", "xy"], ["xyy"]],
    ["{a}", ["{a}"], ["a"]],
    ["a{b", ["a{b"], ["ab"]],
    ["\\*\\{a,b}", ["*{a,b}"], ["xa"]],
    ["./a/./b", ["a/b"], ["./a"]],
    ["*a*b*c*", ["abc", "xaxbxcx"], ["acb"]],
  ])("%s", (pattern, matching, other) => {
    const { matches } = compileGlob(pattern);
    for (const path of matching) expect(matches(path), path).toBe(true);
    for (const path of other) expect(matches(path), path).toBe(false);
  });

  it("returns the names that every match starts with", () => {
    expect(compileGlob("a/b/*.md").prefix).toEqual(["a", "b"]);
    expect(compileGlob("a/b").prefix).toEqual(["a"]);
    expect(compileGlob("**/a").prefix).toEqual([]);
    expect(compileGlob("{a,b}/c").prefix).toEqual([]);
    expect(compileGlob("a").prefix).toEqual([]);
  });

  it.each(["", "/a", "../a", "a/../b", "{a,../b}", "[a", "a\\", "a\0", "x".repeat(1_001), "."])(
    "refuses %j",
    (pattern) => {
      expect(() => compileGlob(pattern)).toThrow(
        expect.objectContaining({ code: "invalid_pattern" }),
      );
    },
  );

  it("agrees with an equivalent regular expression", () => {
    const part = fc.string({
      unit: fc.constantFrom("a", "b", "*", "?"),
      minLength: 1,
      maxLength: 5,
    });
    const name = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 6 });
    const parts = fc.array(fc.oneof(part, fc.constant("**")), { minLength: 1, maxLength: 4 });
    const names = fc.array(name, { minLength: 1, maxLength: 5 });
    const property = fc.property(parts, names, (parts, names) => {
      const source = parts
        .map((text) => (/^\*{2,}$/.test(text) ? "(?:[^/]+/)*" : `${asExpression(text)}/`))
        .join("");
      const path = names.join("/");
      expect(compileGlob(parts.join("/")).matches(path)).toBe(
        new RegExp(`^${source}$`).test(`${path}/`),
      );
    });
    fc.assert(property, { numRuns: 5_000 });
  });
});

function asExpression(part: string): string {
  return part.replaceAll(/\*+/g, "[^/]*").replaceAll("?", "[^/]");
}
