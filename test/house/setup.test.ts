import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { staleReason } from "../../scripts/setup.mjs";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "rivulet-setup-test-"));
  write("package.json", { engines: { node: ">=22.18" } });
  write("package-lock.json", { packages: { "": {}, "node_modules/a": { version: "1.0.0" } } });
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, content: unknown): void {
  writeFileSync(join(root, path), typeof content === "string" ? content : JSON.stringify(content));
}
function installed(packages: Readonly<Record<string, unknown>>): void {
  mkdirSync(join(root, "node_modules", ".bin"), { recursive: true });
  write("node_modules/.package-lock.json", { packages });
}
function ownNode(version: string): void {
  write("node_modules/.bin/node", `#!/bin/sh\necho ${version}\n`);
  chmodSync(join(root, "node_modules/.bin/node"), 0o755);
}

it("reports a fresh clone as stale", () => {
  expect(staleReason(root)).toBe("node_modules is missing");
});

it("accepts exactly the packages of the lockfile", () => {
  installed({ "node_modules/a": { version: "1.0.0" } });
  expect(staleReason(root, "v22.18.0")).toBeUndefined();
});

it.each([
  ["a missing package", {}],
  ["another version", { "node_modules/a": { version: "1.0.1" } }],
  ["other bytes", { "node_modules/a": { version: "1.0.0", integrity: "sha512-other" } }],
  [
    "an extra package",
    { "node_modules/a": { version: "1.0.0" }, "node_modules/b": { version: "1.0.0" } },
  ],
])("reports %s as stale", (_, packages) => {
  installed(packages);
  expect(staleReason(root)).toBe("node_modules does not match package-lock.json");
});

it("accepts a missing package of another platform", () => {
  write("package-lock.json", {
    packages: { "node_modules/a": { version: "1.0.0", optional: true } },
  });
  installed({});
  expect(staleReason(root)).toBeUndefined();
});

it("requires the repository's own Node on a machine with an old one", () => {
  installed({ "node_modules/a": { version: "1.0.0" } });
  const reason = "node_modules has no Node 22.18 or newer";
  expect(staleReason(root, "v20.20.2")).toBe(reason);
  ownNode("v22.17.9");
  expect(staleReason(root, "v20.20.2")).toBe(reason);
  ownNode("v24.0.0");
  expect(staleReason(root, "v20.20.2")).toBeUndefined();
});
