import { globSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { systemPackages } from "../../scripts/system-packages.mjs";
import { requires } from "../support/requires.ts";

it("set-up installs every package that a test asks for", () => {
  const tests = globSync(["src/**/*.test.ts", "test/**/*.ts"]).map((path) =>
    readFileSync(path, "utf8"),
  );
  const asked = systemPackages.filter(({ name }) =>
    tests.some((text) => text.includes(`requires("${name}")`)),
  );
  expect(asked.filter(({ install }) => !install)).toEqual([]);
});

it("a test that cannot run says why", () => {
  const warn = vi.spyOn(console, "warn").mockReturnValue();
  vi.stubEnv("PATH", "");
  const answer = requires(systemPackages[0].name);
  vi.unstubAllEnvs();
  expect(answer).toBe(false);
  expect(warn.mock.calls).toEqual([
    ["not run: needs strace (Debian package), which kills a process at a chosen write"],
  ]);
  warn.mockRestore();
});
