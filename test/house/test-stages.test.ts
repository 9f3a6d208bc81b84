import { globSync } from "node:fs";
import { expect, it } from "vitest";
import { runStages, type Stage } from "../../scripts/test.ts";
import { projectNames, testFiles } from "../../scripts/test-projects.ts";

it("`npm test` stops at the first stage that fails, and prints the time of each", async () => {
  let time = 0;
  const ran: string[] = [];
  const stage = (name: string, ms: number, passes = true): Stage => ({
    name,
    run: async () => {
      ran.push(name);
      time += ms;
      return passes;
    },
  });
  const stages = [stage("check", 1_200), stage("unit", 60_000, false), stage("story", 1)];
  const { lines, passed } = await runStages(stages, () => time);
  expect(passed).toBe(false);
  expect(ran).toEqual(["check", "unit"]);
  expect(lines).toEqual(["✓ check (1.2 s)", "✗ unit (60.0 s)", "- story (not run)"]);
});

it("every test file belongs to one project", () => {
  const files = testFiles();
  const all = globSync("{src,playground,sample/demo,test}/**/*.test.{ts,tsx}");
  expect(projectNames.flatMap((name) => files[name]).sort()).toEqual(all.sort());
});

it.each([
  ["src/base/plain.test.ts", "unit", "is beside its source"],
  ["src/app/watchdog.test.ts", "system", "starts a process itself"],
  ["test/property/fold.test.ts", "story", "needs this process only"],
  ["test/agent/crash/boundaries.test.ts", "system", "starts processes with its support code"],
  ["test/server/routes.test.ts", "system", "is in a folder of servers"],
] as const)("%s belongs to %s because it %s", (path, project, _reason) => {
  expect(testFiles()[project]).toContain(path);
});
