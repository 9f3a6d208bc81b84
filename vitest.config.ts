import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import { projectNames, testFiles } from "./scripts/test-projects.ts";
import { TestSummary } from "./scripts/test-summary.ts";
import { isDeep } from "./src/testing/deep.ts";

const minutes = 60_000;
const files = testFiles();

// Many tests start Node programs. The cache saves two thirds of their start-up time, which is compiling.
process.env.NODE_COMPILE_CACHE ??= resolve("node_modules/.cache/compiled");

export default defineConfig({
  // The browser tests use the page of an example, which imports the package by its name.
  resolve: { tsconfigPaths: true },
  test: {
    reporters: ["default", new TestSummary()],
    setupFiles: ["test/support/seed-properties.ts"],
    testTimeout: isDeep ? 240 * minutes : 2 * minutes,
    hookTimeout: 2 * minutes,
    // Vitest would leave one processor idle, which is half of a small machine.
    maxWorkers: availableParallelism(),
    projects: projectNames.map((name) => ({
      extends: true as const,
      test: { name, include: [...files[name]] },
    })),
  },
});
