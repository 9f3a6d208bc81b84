import { describe, expect, it } from "vitest";
import {
  agentLayers,
  importProblems,
  importsOf,
  layers,
  pageImportProblems,
} from "../../scripts/import-direction.ts";
import { pageFiles, sourceFiles } from "../../scripts/repository-files.ts";

it("no file of src imports a layer above or beside its own", () => {
  expect(sourceFiles().length).toBeGreaterThan(10);
  expect(sourceFiles().flatMap(importProblems)).toEqual([]);
});

it("the page imports only its own files, React, and what a page may use of the package", () => {
  expect(pageFiles().flatMap(pageImportProblems)).toEqual([]);
  const path = "playground/src/app.tsx";
  for (const name of ["rivulet", "rivulet/server", "../../src/client/index.ts", "lodash"]) {
    const text = `import "${name}";`;
    expect(pageImportProblems({ path, text })).toEqual([
      `${path}:1: the page must not import ${name}`,
    ]);
  }
});

it.each([
  ["src", layers],
  ["src/agent", agentLayers],
])("a layer of %s may import only layers listed before it", (_, table) => {
  const names = Object.keys(table);
  for (const [name, below] of Object.entries(table))
    for (const imported of below) {
      expect(names).toContain(imported);
      expect(names.indexOf(imported)).toBeLessThan(names.indexOf(name));
    }
});

it("finds every form of import and tells types from values", () => {
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
import { type K } from "./k.ts";
import type l = require("./l.ts");
export type * from "./m.ts";
// import "./comment.ts";
const text = 'import "./text.ts"';
`;
  const value = { isTypeOnly: false };
  const type = { isTypeOnly: true };
  expect(importsOf("src/agent/x.ts", text)).toEqual([
    { line: 2, name: "./a.ts", ...value },
    { line: 3, name: "./b.ts", ...type },
    { line: 4, name: "./c.ts", ...value },
    { line: 5, name: "./d.ts", ...value },
    { line: 6, name: "./e.ts", ...type },
    { line: 8, name: "./f.ts", ...value },
    { line: 9, name: "./g.ts", ...type },
    { line: 10, name: "./h.ts", ...value },
    { line: 11, name: "./i.ts", ...value },
    { line: 12, name: undefined, ...value },
    { line: 13, name: "./k.ts", ...value },
    { line: 14, name: "./l.ts", ...type },
    { line: 15, name: "./m.ts", ...type },
  ]);
});

describe("rejects an import", () => {
  const rejected = [
    [
      "of a higher layer",
      "src/store/memory.ts",
      "../agent/index.ts",
      "store must not import agent",
    ],
    [
      "of a higher layer's type",
      "src/protocol/a.ts",
      "../schema/event.ts",
      "protocol must not import schema",
    ],
    [
      "of a sibling layer",
      "src/store/memory.ts",
      "../client/reader.ts",
      "store must not import client",
    ],
    [
      "of testing from harness",
      "src/harness/a.ts",
      "../testing/b.ts",
      "harness must not import testing",
    ],
    [
      "of a higher layer from a subfolder",
      "src/agent/tool/a.ts",
      "../../harness/b.ts",
      "agent must not import harness",
    ],
    [
      "of src/index.ts",
      "src/agent/base/a.ts",
      "../../index.ts",
      "agent must not import src/index.ts",
    ],
    ["from outside src", "src/cli/main.ts", "../../test/b.ts", "../../test/b.ts is outside src"],
    [
      "of the package itself",
      "src/agent/base/a.ts",
      "rivulet/protocol",
      "rivulet/protocol is this package",
    ],
    ["of a package in protocol", "src/protocol/a.ts", "zod", "protocol imports the package zod"],
    ["of a Node built-in in protocol", "src/protocol/a.ts", "node:fs", "the Node built-in node:fs"],
    ["of a built-in without its prefix", "src/protocol/a.ts", "crypto", "the Node built-in crypto"],
    [
      "of cli from src/index.ts",
      "src/index.ts",
      "./cli/main.ts",
      "src/index.ts must not import cli",
    ],
    [
      "past the door of a layer",
      "src/harness/a.ts",
      "../agent/loop/settings.ts",
      "src/agent/loop/settings.ts is inside agent. Import src/agent/index.ts.",
    ],
    [
      "past the door of a layer from an entry",
      "src/index.ts",
      "./agent/react-agent.ts",
      "src/agent/react-agent.ts is inside agent",
    ],
    [
      "past the door of the links",
      "src/harness/a.ts",
      "../adapters/a2a/link.ts",
      "src/adapters/a2a/link.ts is inside links. Import src/adapters/links.ts.",
    ],
    [
      "of the server from a link",
      "src/adapters/a2a/link.ts",
      "../../server/index.ts",
      "links must not import server",
    ],
    [
      "of the offline model",
      "src/agent/model/resolve.ts",
      "../../../sample/demo/provider.ts",
      "is outside src",
    ],
    [
      "of the drivers from the loop",
      "src/agent/loop/loop.ts",
      "../drive/child.ts",
      "agent/loop must not import agent/drive (src/agent/drive/child.ts)",
    ],
    [
      "of the models from a tool",
      "src/agent/tool/a.ts",
      "../model/model.ts",
      "agent/tool must not import agent/model",
    ],
    [
      "of react-agent.ts from a folder of agent",
      "src/agent/stream/run.ts",
      "../react-agent.ts",
      "agent/stream must not import agent/react-agent.ts",
    ],
    [
      "of agent's index from agent",
      "src/agent/agent-tool.ts",
      "./index.ts",
      "agent/agent-tool.ts must not import agent/index.ts",
    ],
  ] as const;
  it.each(rejected)("%s", (_, path, name, problem) => {
    for (const statement of [`export type A = import("${name}").A;`, `export * from "${name}";`]) {
      const text = `export {};\n${statement}`;
      expect(importProblems({ path, text })).toEqual([expect.stringContaining(`${path}:2: `)]);
      expect(importProblems({ path, text })[0]).toContain(problem);
    }
  });

  it("with a computed name, in protocol only", () => {
    const text = "export const load = (name: string) => import(name);";
    expect(importProblems({ path: "src/protocol/a.ts", text })).toHaveLength(1);
    expect(importProblems({ path: "src/agent/base/a.ts", text })).toEqual([]);
  });

  it.each([
    ["src/utils/a.ts", "src/utils is not a layer"],
    ["src/utils.ts", "src/utils.ts is not a layer"],
    ["src/agent/utils/a.ts", "src/agent/utils is not a layer"],
    ["src/agent/utils.ts", "src/agent/utils.ts is not a layer"],
  ])("from %s, which no table lists", (path, problem) => {
    expect(importProblems({ path, text: "" })).toEqual([expect.stringContaining(problem)]);
  });
});

it.each([
  ["src/protocol/reduce.ts", "./task.ts"],
  ["src/harness/subagents/remote.ts", "../../client/index.ts"],
  ["src/harness/subagents/open-link.ts", "../../adapters/links.ts"],
  ["src/store/memory.ts", "../base/error.ts"],
  ["src/cli/sample-team.ts", "../../sample/demo/provider.ts"],
  ["src/agent/tool/tool.ts", "../../protocol/index.ts"],
  ["src/agent/model/prompt.ts", "../tool/arguments.ts"],
  ["src/agent/drive/drive.ts", "../loop/loop.ts"],
  ["src/agent/index.ts", "./react-agent.ts"],
  ["src/harness/a.ts", "../agent/index.ts"],
  ["src/index.ts", "./agent/index.ts"],
  ["src/store/sqlite.ts", "node:sqlite"],
  ["src/schema/event.ts", "zod"],
])("%s may import %s", (path, name) => {
  expect(importProblems({ path, text: `import {} from "${name}";` })).toEqual([]);
});
