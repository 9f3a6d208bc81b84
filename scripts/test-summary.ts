import type { Reporter, TestModule, TestRunEndReason, Vitest } from "vitest/node";

/** The time that a test file took, with its imports. */
interface FileTime {
  readonly path: string;
  readonly ms: number;
}

/** Prints the ten slowest test files and the number of passed and failed tests, after the default reporter's output. */
export class TestSummary implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    errors: readonly unknown[],
    reason: TestRunEndReason,
  ): void {
    if (reason === "interrupted") return;
    const times = modules.map((module) => ({ path: module.relativeModuleId, ms: timeOf(module) }));
    this.#vitest?.logger.log(["Slowest test files:", ...slowest(times)].join("\n"));
    this.#vitest?.logger.log(`\n${totals(modules, errors.length)}`);
  }
}

function slowest(times: readonly FileTime[], count = 10): readonly string[] {
  return times
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, count)
    .map(({ path, ms }) => `${(ms / 1_000).toFixed(1).padStart(7)} s  ${path}`);
}

function timeOf(module: TestModule): number {
  const { collectDuration, duration } = module.diagnostic();
  return collectDuration + duration;
}

/** The totals in one line. A file that cannot be loaded and an error outside of tests count as failed tests: CI reads only this line. */
export function totals(modules: readonly TestModule[], unhandledErrors: number): string {
  const counts = { passed: 0, failed: unhandledErrors, skipped: 0, pending: 0 };
  for (const module of modules) {
    const before = counts.failed;
    for (const test of module.children.allTests()) counts[test.result().state] += 1;
    if (module.state() === "failed" && counts.failed === before) counts.failed += 1;
  }
  return `Tests: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
}
