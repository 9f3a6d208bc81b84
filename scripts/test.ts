// `npm test`: the static checks, which also build what some tests start, and all tests, up to the first stage that fails.
// Arguments go to Vitest, which then runs that part of the tests.
import { spawnSync } from "node:child_process";
import { performance } from "node:perf_hooks";
import { startVitest, type TestModule } from "vitest/node";
import { type ProjectName, projectNames } from "./test-projects.ts";
import { totals } from "./test-summary.ts";

/** A part of `npm test`. `run` resolves with whether it passed. */
export interface Stage {
  readonly name: string;
  readonly run: () => Promise<boolean>;
}

/** Runs stages in order, up to the first that fails; resolves with a line for each, and whether all passed. */
export async function runStages(
  stages: readonly Stage[],
  now: () => number = () => performance.now(),
): Promise<{ readonly lines: readonly string[]; readonly passed: boolean }> {
  const lines: string[] = [];
  let passed = true;
  for (const { name, run } of stages) {
    const start = now();
    const isRun = passed;
    if (isRun) passed = await run();
    const outcome = isRun ? `${((now() - start) / 1_000).toFixed(1)} s` : "not run";
    lines.push(`${isRun ? (passed ? "✓" : "✗") : "-"} ${name} (${outcome})`);
  }
  return { lines, passed };
}

function runProgram(program: string, ...args: readonly string[]): boolean {
  const shell = process.platform === "win32";
  return spawnSync(program, args, { stdio: "inherit", shell }).status === 0;
}

async function runTests(args: readonly string[]): Promise<boolean> {
  const modules: TestModule[] = [];
  const errors: unknown[] = [];
  const runProject = async (project: ProjectName) => {
    const { state } = await startVitest([], { run: true, project });
    modules.push(...state.getTestModules());
    errors.push(...state.getUnhandledErrors());
    return !process.exitCode;
  };
  const projects = projectNames.map((name) => ({ name, run: () => runProject(name) }));
  const chosen = { name: "tests", run: async () => runProgram("vitest", "run", ...args) };
  const { lines, passed } = await runStages([
    { name: "check", run: async () => runProgram("npm", "run", "check") },
    ...(args.length > 0 ? [chosen] : projects),
  ]);
  console.log(`\n${lines.join("\n")}`);
  if (modules.length > 0) console.log(`\n${totals(modules, errors.length)}`);
  return passed;
}

if (import.meta.main) {
  const passed = await runTests(process.argv.slice(2));
  if (!passed) process.exitCode = 1;
}
