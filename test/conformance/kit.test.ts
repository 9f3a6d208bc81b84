import { spawnSync } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Expected, readVectors } from "../../conformance/vectors.js";
import { requires } from "../support/requires.ts";
import { answer, type Protocol } from "./answer.ts";
import { conformanceFiles } from "./index.ts";
import { mutants } from "./mutants.ts";

const vectors = readVectors();

/** Runs the kit as another project would. */
function runKit(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["conformance/run.js", ...args], {
    encoding: "utf8",
    maxBuffer: 1e8,
  });
  return { status, stdout, stderr };
}

describe("the vectors", () => {
  it("are those that the generator makes", { timeout: 60_000 }, () => {
    const files = conformanceFiles();
    for (const [name, text] of Object.entries(files)) {
      const committed = readFileSync(join("conformance", name), "utf8");
      expect(committed === text, `${name} is stale: run npm run generate:vectors`).toBe(true);
    }
    const stored = readdirSync("conformance/vectors").map((name) => `vectors/${name}`);
    expect(stored.sort()).toEqual(
      Object.keys(files)
        .filter((name) => name !== "logs.json")
        .sort(),
    );
  });

  it("take less than 1 MB", () => {
    const sizes = Object.values(conformanceFiles()).map((text) => Buffer.byteLength(text));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(1_000_000);
  });

  it("have a name of their own, a sentence and all results", () => {
    expect(new Set(vectors.map(({ name }) => name)).size).toBe(vectors.length);
    for (const { name, about, frames, chunks, expect: expected } of vectors) {
      expect(about.endsWith("."), name).toBe(true);
      expect(frames === undefined, name).toBe(chunks !== undefined);
      expect(expected, name).toMatchObject({ tree: { safeCursor: expect.any(Number) as number } });
      expect(expected.document, name).toBeDefined();
      expect(Array.isArray(expected.problems), name).toBe(true);
    }
  });

  it("break every rule of the linter but those that need a longer story", () => {
    const broken = new Set(
      vectors.flatMap((vector) => vector.expect.problems.map(({ rule }) => rule)),
    );
    expect([...broken].length).toBeGreaterThan(25);
  });
});

describe("the runner", () => {
  it("passes this package at every level", () => {
    const { status, stdout } = runKit("--", process.execPath, "test/conformance/adapter.ts");
    expect(stdout).toContain(`${vectors.length} of ${vectors.length} vectors pass`);
    expect(status).toBe(0);
  });

  it("shows the first difference of a vector that fails", () => {
    const wrong = `process.stdin.on("data", (line) => {
      const { name } = JSON.parse(line);
      console.log(JSON.stringify({ name, tree: { tasks: {}, safeCursor: 3 } }));
    });`;
    const command = ["--", process.execPath, "--eval", wrong];
    const { status, stdout } = runKit("--levels", "tree", "--only", "children/none", ...command);
    expect(stdout).toBe(
      [
        "✗ children/none",
        "    Without events there is no root and no document.",
        "    tree differs at tree.safeCursor",
        "      expected -1",
        "      got      3",
        "\n0 of 1 vectors pass (tree).\n",
      ].join("\n"),
    );
    expect(status).toBe(1);
  });

  it("compares only the levels that are asked for, in any order of gaps and problems", () => {
    const [vector] = vectors.filter(({ expect: { problems } }) => problems.length > 2);
    const { name = "", expect: expected } = vector ?? {};
    const reply = JSON.stringify({ name, problems: expected?.problems.toReversed() });
    const command = ["--", process.execPath, "--eval", `console.log(${JSON.stringify(reply)})`];
    expect(runKit("--levels", "linter", "--only", name, ...command).status).toBe(0);
    expect(runKit("--only", name, ...command).status).toBe(1);
  });

  it.each([
    ["reports a command that does not start", ["--", "no-such-command-here"], /did not start/],
    ["reports a command that ends", ["--", process.execPath, "--eval", "0"], /exit code 0/],
    ["reports a line that is not JSON", ["--only", "children/none", "--", "echo", "hello"], /JSON/],
    [
      "reports an error of the implementation",
      ["--only", "children/none", "--", "echo", '{"error":"too hard"}'],
      /reports: "too hard"/,
    ],
  ])("%s", (_, args, message) => {
    const { status, stdout } = runKit(...args);
    expect(stdout).toMatch(message);
    expect(status).toBe(1);
  });

  it.each([
    ["a level that does not exist", ["--levels", "trees", "--", "cat"], "no level trees"],
    ["an option that does not exist", ["--level", "tree", "--", "cat"], "--level"],
    ["a name that no vector has", ["--only", "nothing", "--", "cat"], "No vector has nothing"],
    ["no command", [], "The command of the implementation is missing"],
  ])("refuses %s", (_, args, message) => {
    const { status, stderr } = runKit(...args);
    expect(stderr).toContain(message);
    expect(stderr).toContain("Usage: node run.js");
    expect(status).toBe(2);
  });

  it("lists the vectors", () => {
    const { stdout } = runKit("--list", "--only", "transport/");
    expect(stdout).toContain("transport/bytes: Every byte is a chunk of its own");
  });
});

describe.runIf(requires("python3"))("the Python implementation, written from docs/protocol", () => {
  it("passes for tree and document", () => {
    const command = ["python3", "-B", "examples/python/conformance.py"];
    const { status, stdout } = runKit("--levels", "tree,document", "--", ...command);
    expect(stdout).toContain(`${vectors.length} of ${vectors.length} vectors pass`);
    expect(status).toBe(0);
  });
});

describe("the kit rejects an implementation that", () => {
  const require = createRequire(import.meta.url);
  const files = globSync(["protocol.ts", "{base,protocol,contract}/**/*.ts"], {
    cwd: "src",
  }).filter((name) => !/\.test\./.test(name));
  const sourceOf = (file: string) => readFileSync(join("src", file), "utf8");
  /** Compiled once, because every mutant needs modules of its own. */
  const compiled = new Map<string, string>();
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "rivulet-kit-"));
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    for (const file of files) compiled.set(file, compile(sourceOf(file)));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function load(name: string, changed: ReadonlyMap<string, string>): Protocol {
    for (const [file, text] of [...compiled, ...changed]) {
      const path = join(folder, name, file.replace(/\.ts$/, ".js"));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
    return require(join(folder, name, "protocol.js")) as Protocol;
  }

  /** Whether a vector fails at a level. */
  function rejects(level: keyof Expected, implementation: Protocol): boolean {
    return vectors.some((vector) => {
      try {
        return !isDeepStrictEqual(answer(implementation, vector)[level], vector.expect[level]);
      } catch {
        return true;
      }
    });
  }

  it("(and accepts one without a fault)", () => {
    const whole = load("whole", new Map());
    for (const level of ["tree", "document", "problems"] as const)
      expect(rejects(level, whole), level).toBe(false);
  });

  it.each(mutants)("$fault", ({ fault, file, from, to, level }) => {
    const source = sourceOf(file);
    expect(source, "the mutation is stale").toContain(from);
    const changed = compile(source.replace(from, () => to));
    expect(rejects(level, load(fault.replace(/\W/g, "-"), new Map([[file, changed]])))).toBe(true);
  });
});

function compile(text: string): string {
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2024,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
    },
  });
  return outputText;
}
