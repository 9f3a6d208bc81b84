import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { mutations } from "./mutations.ts";
import { readTable, root } from "./table.ts";

const rows = readTable();
const read = (file: string) => readFileSync(new URL(file, root), "utf8");

describe("the table of the seeds", () => {
  it("has at least 200 behaviours of four seeds", () => {
    expect(rows.length).toBeGreaterThanOrEqual(200);
    expect(new Set(rows.map(({ seed }) => seed)).size).toBe(4);
    expect(new Set(rows.map(({ seed, behaviour }) => `${seed} ${behaviour}`)).size).toBe(
      rows.length,
    );
  });

  it("has at most six rows that are deliberately different, each with its place in the guide", () => {
    const different = rows.filter(({ behaviour }) => behaviour.includes("deliberately different"));
    const explained = Array.from(
      read("test/seeds/README.md").matchAll(/^\| (\d{3}):(\d+) \| .*\.md(?:#[\w-]+)?\) \|$/gm),
      ([, seed, line]) => `${seed}:${line}`,
    );
    expect(different.map(({ seed, line }) => `${seed}:${line}`)).toEqual(explained);
    expect(explained.length).toBeLessThanOrEqual(6);
  });

  it("names tests that exist", () => {
    const missing = rows.filter(({ file, title }) => {
      const source = read(file);
      return ![title, title.replaceAll('"', '\\"')].some((text) => source.includes(text));
    });
    expect(missing).toEqual([]);
  });
});

describe("the mutations", () => {
  it("are at least 60, each of a test in the table", () => {
    expect(mutations.length).toBeGreaterThanOrEqual(60);
    const tests = new Set(rows.map(({ file, title }) => `${file}: ${title}`));
    expect(mutations.filter(({ test }) => !tests.has(test)).map(({ test }) => test)).toEqual([]);
  });

  it("apply to one place of the source", () => {
    const misplaced = mutations.filter(
      ({ file, from, to }) => from === to || read(file).split(from).length !== 2,
    );
    expect(misplaced).toEqual([]);
  });
});
