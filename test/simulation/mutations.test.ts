import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { mutations } from "./mutations.ts";

/** As many as `npm test` simulates. */
const seeds = 100;

if (!isDeep) {
  console.warn("not run: the mutations of the driver take a minute; `npm run test:deep` runs them");
}

it.each(mutations)("the source has the rule: $rule", ({ file, from, to }) => {
  const source = readFileSync(resolve(file), "utf8");
  expect(source.split(from)).toHaveLength(2);
  expect(to).not.toBe(from);
});

describe.runIf(isDeep)("the simulator", () => {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "rivulet-simulation-"));
    for (const name of ["src", "test", "sample", "package.json"])
      cpSync(resolve(name), join(folder, name), { recursive: true });
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const find = () =>
    spawnSync(process.execPath, ["test/simulation/support/find-problems.ts", String(seeds)], {
      ...{ cwd: folder, encoding: "utf8" as const, timeout: 120_000 },
    });

  it("finds nothing in the source as it is", () => {
    const { status, stdout, stderr } = find();
    expect({ status, stdout, stderr }).toMatchObject({ status: 0, stdout: "" });
  });

  it.each(mutations)("finds the breach of: $rule", ({ file, from, to }) => {
    const path = join(folder, file);
    const source = readFileSync(path, "utf8");
    writeFileSync(
      path,
      source.replace(from, () => to),
    );
    try {
      const { status, stdout, stderr } = find();
      expect({ status, stderr }).toEqual({ status: 1, stderr: "" });
      expect(stdout).toMatch(/^seed \d+: /);
      console.info(`${stdout.slice(0, 300)}`);
    } finally {
      writeFileSync(path, source);
    }
  });
});
