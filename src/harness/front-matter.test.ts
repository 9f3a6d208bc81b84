import { describe, expect, it } from "vitest";
import { readFrontMatter, splitFrontMatter } from "./front-matter.ts";

describe("splitFrontMatter", () => {
  it.each([
    ["---\na: 1\n---\nbody\n", "a: 1", "body\n"],
    ["---\na: 1\n---", "a: 1", ""],
    ["---\n---\nbody", "", "body"],
    ["\uFEFF---\na: 1\n---\nbody", "a: 1", "body"],
    ["---\r\na: 1\r\nb: 2\r\n---\r\nbody\r\n", "a: 1\r\nb: 2\r", "body\r\n"],
    ["---\na: x --- y\n ---\n----\n--- \n---\nbody", "a: x --- y\n ---\n----\n--- ", "body"],
    ["---\na: x\u2028---\n---\nbody", "a: x\u2028---", "body"],
    ["---\na: 1\n---\nbody\n---\nmore", "a: 1", "body\n---\nmore"],
  ])("splits %j at the fences", (text, data, body) => {
    expect(splitFrontMatter(text)).toEqual({ data, body });
  });

  it.each(["", "body", "\n---\na: 1\n---\n", " ---\na: 1\n---\n", "----\n---\n", "--- \na\n---\n"])(
    "takes %j for a text without settings",
    (text) => {
      expect(splitFrontMatter(text)).toEqual({ data: undefined, body: text });
    },
  );

  it.each(["---", "---\na: 1\n", "---\na: 1\n--- \n", "---\na: 1 ---\n"])(
    "finds no end in %j",
    (text) => {
      expect(splitFrontMatter(text)).toMatchObject({ problem: expect.stringContaining("no end") });
    },
  );
});

describe("readFrontMatter", () => {
  const read = (yaml: string) => readFrontMatter(`---\n${yaml}\n---\nbody`);
  const problemOf = async (yaml: string) => ((await read(yaml)) as { problem?: string }).problem;

  it("reads plain data", async () => {
    const yaml = "a: x --- y\nb: {c: [1, '2', yes, null]}\nd: >\n  two\n  lines";
    const data = { a: "x --- y", b: { c: [1, "2", "yes", null] }, d: "two lines\n" };
    expect(await read(yaml)).toEqual({ data, body: "body" });
    expect(await read("")).toEqual({ data: {}, body: "body" });
    expect(await readFrontMatter("body")).toEqual({ data: undefined, body: "body" });
    expect(await readFrontMatter("---\na: 1")).toHaveProperty("problem");
  });

  it("reads inherited property names as ordinary keys", async () => {
    const { data } = (await read("__proto__: {polluted: true}")) as { data: object };
    expect(Object.keys(data)).toEqual(["__proto__"]);
    expect(data).not.toHaveProperty("polluted");
  });

  it("reports the line of a YAML error", async () => {
    expect(await problemOf("a: 1\nb: [1\nc: 2")).toMatch(/^Line 4: [^\n]*\.$/);
    expect(await problemOf("a: 1\n\tb: 2")).toMatch(/^Line 3: /);
  });

  it.each([
    ["a tag", "a: !!js/function 'x'", "Unresolved tag"],
    ["a local tag", "a: !run x", "Unresolved tag"],
    ["a binary", "a: !!binary aGk=", "Unresolved tag"],
    ["a key twice", "a: 1\na: 2", 'The key "a" is duplicated.'],
    ["a key twice further down", "a: {b: 1, b: 2}", 'The key "b" is duplicated.'],
    ["a key that is not a string", "? {a: 1}\n: 2", "all keys must be strings"],
    ["an alias of itself", "a: &a [*a]", "aliases are not followed"],
    ["an alias", "a: *b", "aliases are not followed"],
    ["a second document", "a: 1\n...\nb: 2", "Source contains multiple documents"],
    ["a list", "- a", "must be keys with values"],
    ["a text", "a", "must be keys with values"],
    ["too much", `a: ${"x".repeat(65_536)}`, "larger than 65536 bytes"],
  ])("refuses %s", async (_, yaml, problem) => {
    expect(await problemOf(yaml)).toContain(problem);
  });

  it("refuses aliases that expand without limit, and deep nesting", async () => {
    const line = (name: string, of: string) => `${name}: &${name} [${Array(9).fill(of).join(",")}]`;
    const bomb = ["x", "*a", "*b", "*c", "*d", "*e", "*f", "*g", "*h"]
      .map((of, index) => line("abcdefghi".charAt(index), of))
      .join("\n");
    expect(await problemOf(bomb)).toContain("aliases are not followed");
    expect(await problemOf(`a: ${"[".repeat(60_000)}`)).toMatch(/^Line 2: /);
    expect(await problemOf("? ".repeat(30_000))).toMatch(/^Line 2: /);
  });

  it("reads many keys", async () => {
    const yaml = Array.from({ length: 2_000 }, (_, index) => `key-${index}: ${index}`).join("\n");
    expect(await read(yaml)).toMatchObject({ data: { "key-1999": 1999 } });
  });
});
