import { expect, it } from "vitest";
import type { TestModule, Vitest } from "vitest/node";
import { TestSummary } from "../../scripts/test-summary.ts";

type State = "passed" | "failed" | "skipped";

/** A test file with the parts of Vitest's report that the summary reads. */
function testFile(path: string, ms: number, tests: readonly State[], state: State = "passed") {
  return {
    relativeModuleId: path,
    state: () => state,
    diagnostic: () => ({ collectDuration: 100, duration: ms }),
    children: { allTests: () => tests.map((test) => ({ result: () => ({ state: test }) })) },
  } as unknown as TestModule;
}

function summaryOf(modules: readonly TestModule[], errors: readonly unknown[] = []): string {
  const lines: string[] = [];
  const logger = { log: (text: string) => lines.push(text) };
  const summary = new TestSummary();
  summary.onInit({ logger } as unknown as Vitest);
  summary.onTestRunEnd(modules, errors, "passed");
  return lines.join("\n");
}

it("prints the ten slowest files, with their imports, slowest first", () => {
  const files = Array.from({ length: 12 }, (_, index) =>
    testFile(`${index}.test.ts`, index * 1_000, []),
  );
  const lines = summaryOf(files).split("\n");
  expect(lines.slice(0, 3)).toEqual([
    "Slowest test files:",
    "   11.1 s  11.test.ts",
    "   10.1 s  10.test.ts",
  ]);
  expect(lines.filter((line) => line.endsWith(".test.ts"))).toHaveLength(10);
});

it("ends with the totals alone on a line", () => {
  const files = [
    testFile("a.test.ts", 1, ["passed", "passed", "skipped"]),
    testFile("b.test.ts", 1, ["passed", "failed"], "failed"),
  ];
  expect(summaryOf(files)).toMatch(/\n\nTests: 3 passed, 1 failed, 1 skipped$/);
});

it("counts a file that does not load and an error outside of tests as failed", () => {
  const files = [testFile("a.test.ts", 1, [], "failed"), testFile("b.test.ts", 1, ["passed"])];
  expect(summaryOf(files, [new Error("late")])).toMatch(
    /\n\nTests: 1 passed, 2 failed, 0 skipped$/,
  );
});
