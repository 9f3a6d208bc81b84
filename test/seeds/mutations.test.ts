import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { mutations } from "./mutations.ts";
import { root } from "./table.ts";

if (!isDeep) {
  console.warn(
    "not run: each mutation of the seeds starts a test process; `npm run test:deep` does it",
  );
}
const copied = ["src", "test", "docs", "examples", "scripts", "package.json", "vitest.config.ts"];

/** Runs one test of the copy; returns its exit code and output. */
function runTest(folder: string, test: string): { readonly status: number | null; out: string } {
  const [file = "", title = ""] = test.split(/: (.*)/s);
  // A title with placeholders is matched up to the first of them.
  const pattern = (title.split("%")[0] ?? "").replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const { RIVULET_DEEP: _, ...env } = process.env;
  const vitest = join(folder, "node_modules", "vitest", "vitest.mjs");
  const args = [vitest, "run", file, "-t", pattern, "--maxWorkers=1"];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    env,
    encoding: "utf8",
    timeout: 120_000, // a mutation may make the test hang, which counts as a failure
  });
  return { status, out: stdout + stderr };
}

describe.runIf(isDeep)("a test of the seeds", () => {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "rivulet-seeds-"));
    for (const name of copied) {
      cpSync(fileURLToPath(new URL(name, root)), join(folder, name), { recursive: true });
    }
    const modules = fileURLToPath(new URL("node_modules", root));
    symlinkSync(modules, join(folder, "node_modules"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([...new Set(mutations.map(({ test }) => test))])("passes: %s", (test) => {
    const { status, out } = runTest(folder, test);
    expect(status, out).toBe(0);
    expect(out).toMatch(/Tests\s.*\d+ passed/);
  });

  it.each(mutations)("fails when $file has $to: $test", ({ test, file, from, to }) => {
    const path = join(folder, file);
    const source = readFileSync(path, "utf8");
    writeFileSync(
      path,
      source.replace(from, () => to),
    );
    try {
      expect(runTest(folder, test).status).not.toBe(0);
    } finally {
      writeFileSync(path, source);
    }
  });
});
