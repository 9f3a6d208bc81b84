import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { basename } from "node:path";
import { expect, it } from "vitest";

function runBench(...args: readonly string[]) {
  const run = spawnSync(process.execPath, ["bench/run.ts", ...args], { encoding: "utf8" });
  return { status: run.status, stdout: run.stdout, stderr: run.stderr };
}

it("`npm run bench` lists every bench", () => {
  const { status, stdout } = runBench();
  const listed = Array.from(stdout.matchAll(/^ {2}(\w+) /gm), ([, name]) => name);
  const programs = globSync("bench/*.ts")
    .map((path) => basename(path, ".ts"))
    .filter((name) => !["run", "cold", "soak"].includes(name)); // cold.ts is a part of start.ts, and soak has a command
  expect([status, listed.sort()]).toEqual([0, programs.sort()]);
});

it("`npm run bench` rejects an unknown name, and lists the benches", () => {
  const { status, stdout, stderr } = runBench("stor");
  expect([status, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(
    /^Bench "stor" does not exist\. Run one with `npm run bench -- <name>`:\n/,
  );
  expect(stderr).toContain("\n  store ");
});
