import { existsSync, globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { layers } from "../../scripts/import-direction.ts";

const architecture = readFileSync("ARCHITECTURE.md", "utf8");
const tests = readFileSync("test/README.md", "utf8");

/** The rows of the first table below a heading, as cells. */
function rowsBelow(document: string, heading: string): readonly (readonly string[])[] {
  const [, section = ""] = document.split(`\n${heading}\n`);
  const [, table = ""] = section.match(/\n\|---.*\n((?:\|.*\n)+)/) ?? [];
  return table
    .trim()
    .split("\n")
    .map((row) => row.split(" | ").map((cell) => cell.replaceAll(/^\| | \|$/g, "")));
}

/** The files that a document names: TypeScript in backticks. */
function namedFiles(document: string): readonly string[] {
  return Array.from(document.matchAll(/`([^` ]+\.tsx?)`/g), ([, name = ""]) => name);
}

it("ARCHITECTURE.md has a row for every layer, with the layers it may import", () => {
  const table = architecture.matchAll(/^\| `(\w+)` \| (.*?) \| .*? \|$/gm);
  const rows = new Map(
    Array.from(table, ([, name, below = ""]) => [
      name,
      Array.from(below.matchAll(/`(\w+)`/g), (match) => match[1]),
    ]),
  );
  expect([...rows.keys()]).toEqual(Object.keys(layers));
  for (const [name, below] of Object.entries(layers)) {
    if (name !== "cli") expect(rows.get(name), name).toEqual(below);
  }
});

it("every file that ARCHITECTURE.md names exists, and its name fits no other file", () => {
  const problems = namedFiles(architecture).flatMap((name) => {
    if (existsSync(name)) return [];
    const files = globSync(`{src,playground/src}/**/${name}`);
    if (files.length === 0) return [`${name}: no such file`];
    return files.length > 1 && !name.includes("*") ? [`${name}: ${files.join(" or ")}?`] : [];
  });
  expect(problems).toEqual([]);
});

it("every law of ARCHITECTURE.md has a row with a test in test/README.md", () => {
  const laws = rowsBelow(architecture, "## Laws").map(([name]) => name);
  const rows = rowsBelow(tests, "## Laws");
  expect(laws.length).toBeGreaterThan(10);
  expect(rows.map(([name]) => name)).toEqual(laws);
  for (const [name, files = ""] of rows) expect(files, name).toMatch(/\.test\.ts`/);
});

it("every file that test/README.md names exists", () => {
  const missing = namedFiles(tests).filter(
    (name) => !existsSync(name) && !existsSync(`test/${name}`),
  );
  expect(missing).toEqual([]);
});
