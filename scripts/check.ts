// `npm run check`: all static checks. Prints one line per step, and the output of the steps that fail.
import { spawn } from "node:child_process";
import { delimiter, resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { sizeProblems } from "./file-sizes.ts";
import { cycleProblems } from "./import-cycles.ts";
import { importProblems, pageImportProblems } from "./import-direction.ts";
import { pageFiles, sourceFiles } from "./repository-files.ts";

/** `run` resolves with the problems it found; an empty text means that the step passed. */
type Step = readonly [name: string, run: () => Promise<string>];

const programs = [resolve("node_modules/.bin"), resolve("tools/checks/node_modules/.bin")];
const buildInfo = "node_modules/.cache/tsconfig.tsbuildinfo"; // makes the second check faster
// Rows run in parallel. The steps of a row run in order, up to the first failure.
const rows: readonly (readonly Step[])[] = [
  [["types", command("tsc", "--noEmit", "--incremental", "--tsBuildInfoFile", buildInfo)]],
  [["style", command("biome", "check", "--error-on-warnings", ".")]],
  [["import direction", async () => directionProblems().join("\n")]],
  [["import cycles", async () => cycleProblems(sourceFiles()).join("\n")]],
  [["file sizes", async () => sizeProblems([...sourceFiles(), ...pageFiles()]).join("\n")]],
  [["unused code", command("knip")]],
  [
    ["build", command("tsdown")],
    ["page", command("node", "scripts/build-page.ts")],
    ["package", command("publint", "--strict")],
    ["published types", command("attw", "--pack", ".", "--profile", "esm-only")],
  ],
];

function directionProblems(): readonly string[] {
  return [...sourceFiles().flatMap(importProblems), ...pageFiles().flatMap(pageImportProblems)];
}

function command(program: string, ...args: readonly string[]): () => Promise<string> {
  return async () => {
    const child = spawn(program, args, {
      env: {
        ...process.env,
        PATH: [...programs, process.env.PATH].join(delimiter),
        npm_config_ignore_scripts: "true", // the package is built already when a step packs it
      },
      shell: process.platform === "win32",
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    const { promise, resolve: settle } = Promise.withResolvers<string>();
    child.once("error", (error) => settle(error.message));
    child.once("close", (code) => settle(code === 0 ? "" : output.trim() || `exit code ${code}`));
    return promise;
  };
}

async function runRow(steps: readonly Step[]): Promise<boolean> {
  for (const [name, run] of steps) {
    const start = performance.now();
    const problems = await run();
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(`${problems === "" ? "✓" : "✗"} ${name} (${seconds} s)`);
    if (problems === "") continue;
    console.log(problems.replace(/^/gm, "  "));
    return false;
  }
  return true;
}

const passed = await Promise.all(rows.map(runRow));
if (passed.includes(false)) process.exitCode = 1;
