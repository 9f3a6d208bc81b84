import { globSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { missingPackages, systemPackages } from "../../scripts/system-packages.mjs";
import { requires } from "../support/requires.ts";

it("set-up installs every package that a test requires", () => {
  const tests = globSync(["src/**/*.test.ts", "test/**/*.ts"]).map((path) =>
    readFileSync(path, "utf8"),
  );
  const required = systemPackages.filter(({ name }) =>
    tests.some((text) => text.includes(`requires("${name}")`)),
  );
  expect(required.map(({ name }) => name)).toContain("spin");
  expect(required.filter(({ install }) => !["test", "deep"].includes(install))).toEqual([]);
});

it("set-up installs large packages for the deep suite only", () => {
  vi.stubEnv("PATH", "");
  const [test, deep] = [missingPackages("test"), missingPackages("deep")];
  vi.unstubAllEnvs();
  expect(test).toEqual(["strace", "bubblewrap", "python3", "curl", "pgbouncer", "chromium"]);
  const deepOnly = ["spin", "gcc", "libc6-dev"];
  expect(deep).toEqual([
    "strace",
    "bubblewrap",
    "python3",
    "curl",
    ...deepOnly,
    "pgbouncer",
    "chromium",
  ]);
});

it("a test that cannot run prints why", () => {
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
