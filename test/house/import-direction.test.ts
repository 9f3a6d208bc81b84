import { describe, expect, it } from "vitest";
import { importProblems, importsOf, layers } from "../../scripts/import-direction.ts";
import { sourceFiles } from "../../scripts/repository-files.ts";

it("no file of src imports upwards or sideways", () => {
  expect(sourceFiles().length).toBeGreaterThan(10);
  expect(sourceFiles().flatMap(importProblems)).toEqual([]);
});

it("every layer may import only what stands before it in the list", () => {
  const names = Object.keys(layers);
  for (const [name, below] of Object.entries(layers))
    for (const other of below) expect(names.indexOf(other)).toBeLessThan(names.indexOf(name));
});

it("sees every way to import", () => {
  const text = `
import a from "./a.ts";
import type { B } from "./b.ts";
import "./c.ts";
export * from "./d.ts";
export type { E } from "./e.ts";
export const local = 1;
const f = await import("./f.ts");
type G = import("./g.ts").G;
import h = require("./h.ts");
const i = require("./i.ts");
const j = import(\`./\${local}.ts\`);
// import "./comment.ts";
const text = 'import "./text.ts"';
`;
  expect(importsOf("src/agent/x.ts", text)).toEqual([
    { line: 2, name: "./a.ts" },
    { line: 3, name: "./b.ts" },
    { line: 4, name: "./c.ts" },
    { line: 5, name: "./d.ts" },
    { line: 6, name: "./e.ts" },
    { line: 8, name: "./f.ts" },
    { line: 9, name: "./g.ts" },
    { line: 10, name: "./h.ts" },
    { line: 11, name: "./i.ts" },
    { line: 12, name: undefined },
  ]);
});

describe("an import is refused when it goes", () => {
  const refused = [
    ["up", "src/store/memory.ts", "../agent/loop.ts", "store must not import agent"],
    [
      "up by its type",
      "src/protocol/a.ts",
      "../schema/event.ts",
      "protocol must not import schema",
    ],
    ["sideways", "src/store/memory.ts", "../client/reader.ts", "store must not import client"],
    [
      "sideways, to testing",
      "src/harness/a.ts",
      "../testing/b.ts",
      "harness must not import testing",
    ],
    [
      "up from a subfolder",
      "src/agent/tool/a.ts",
      "../../harness/b.ts",
      "agent must not import harness",
    ],
    ["to the root's index", "src/agent/a.ts", "../index.ts", "agent must not import src/index.ts"],
    ["out of src", "src/cli/main.ts", "../../test/b.ts", "../../test/b.ts is outside src"],
    [
      "to the package itself",
      "src/agent/a.ts",
      "rivulet/protocol",
      "rivulet/protocol is this package",
    ],
    ["to a package, in protocol", "src/protocol/a.ts", "zod", "protocol imports the package zod"],
    ["to Node, in protocol", "src/protocol/a.ts", "node:fs", "the Node built-in node:fs"],
    ["to Node without its prefix", "src/protocol/a.ts", "crypto", "the Node built-in crypto"],
    [
      "to the command line, in the index",
      "src/index.ts",
      "./cli/main.ts",
      "src must not import cli",
    ],
  ] as const;
  it.each(refused)("%s", (_, path, name, problem) => {
    const text = `export {};\nexport type A = import("${name}").A;`;
    expect(importProblems({ path, text })).toEqual([expect.stringContaining(`${path}:2: `)]);
    expect(importProblems({ path, text })[0]).toContain(problem);
  });

  it("to something without a fixed name, in protocol", () => {
    const text = "export const load = (name: string) => import(name);";
    expect(importProblems({ path: "src/protocol/a.ts", text })).toHaveLength(1);
    expect(importProblems({ path: "src/agent/a.ts", text })).toEqual([]);
  });

  it("from a folder that is no layer", () => {
    expect(importProblems({ path: "src/utils/a.ts", text: "" })).toEqual([
      expect.stringContaining("src/utils is not a layer"),
    ]);
  });
});

it.each([
  ["src/protocol/reduce.ts", "./task.ts"],
  ["src/harness/subagents/remote.ts", "../../client/remote-agent.ts"],
  ["src/agent/tool/tool.ts", "../../protocol/index.ts"],
  ["src/index.ts", "./agent/react-agent.ts"],
  ["src/store/sqlite.ts", "node:sqlite"],
  ["src/schema/event.ts", "zod"],
])("%s may import %s", (path, name) => {
  expect(importProblems({ path, text: `import {} from "${name}";` })).toEqual([]);
});
