import { expect, it } from "vitest";
import { cycleProblems } from "../../scripts/import-cycles.ts";
import { sourceFiles } from "../../scripts/repository-files.ts";

/** One file per entry, with the statements it starts with. */
function files(texts: Readonly<Record<string, string>>) {
  return Object.entries(texts).map(([path, text]) => ({ path, text }));
}

it("src has no cycle of value imports", () => {
  expect(cycleProblems(sourceFiles())).toEqual([]);
});

it("prints a cycle as the shortest path from a file back to itself", () => {
  expect(
    cycleProblems(
      files({
        "src/a.ts": 'import "./below/b.ts"; import "./below/c.ts";',
        "src/below/b.ts": 'export * from "./c.ts";',
        "src/below/c.ts": 'import { d } from "./d.ts"; import "node:fs"; import "zod";',
        "src/below/d.ts": 'const load = () => import("../a.ts");',
        "src/main.ts": 'import "./a.ts";',
      }),
    ),
  ).toEqual([
    "src/a.ts -> src/below/c.ts -> src/below/d.ts -> src/a.ts",
    "src/below/b.ts -> src/below/c.ts -> src/below/d.ts -> src/a.ts -> src/below/b.ts",
  ]);
});

it("finds a file that imports itself", () => {
  expect(cycleProblems(files({ "src/a.ts": 'import { b } from "./a.ts";' }))).toEqual([
    "src/a.ts -> src/a.ts",
  ]);
});

it("ignores type-only imports", () => {
  expect(
    cycleProblems(
      files({
        "src/a.ts": 'import "./b.ts";',
        "src/b.ts": 'import type { A } from "./a.ts"; type B = import("./a.ts").B;',
        "src/c.ts": 'import "./d.ts";',
        "src/d.ts": 'export type { C } from "./c.ts";',
      }),
    ),
  ).toEqual([]);
});

it("counts an import of inline types, which loads the module", () => {
  const cycle = { "src/a.ts": 'import "./b.ts";', "src/b.ts": 'import { type A } from "./a.ts";' };
  expect(cycleProblems(files(cycle))).toHaveLength(1);
});
