import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { libcName, packagesToInstall, progressOf, staleReason } from "../../scripts/setup.mjs";

const tools = ["tools/checks", "tools/runtimes", "tools/postgres", "tools/mcp", "tools/acp"];

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

it("counts the packages of this platform while they arrive, and names the next one", () => {
  const otherLibc = libcName() === "musl" ? "glibc" : "musl";
  const elsewhere = process.platform === "win32" ? "linux" : "win32";
  write("package-lock.json", {
    packages: {
      "": {},
      "node_modules/a": { version: "1.0.0" },
      "node_modules/a/node_modules/@b/c": { version: "1.0.0", os: [process.platform] },
      "node_modules/d": { version: "1.0.0", os: [elsewhere], optional: true },
      "node_modules/e": { version: "1.0.0", os: [`!${process.platform}`], optional: true },
      "node_modules/f": { version: "1.0.0", libc: [otherLibc], optional: true },
    },
  });
  const packages = packagesToInstall(root);
  expect(packages).toEqual(["node_modules/a", "node_modules/a/node_modules/@b/c"]);
  expect(progressOf(root, packages)).toBe("0 of 2 packages, next a");
  mkdirSync(join(root, "node_modules/a/node_modules/@b/c"), { recursive: true });
  write("node_modules/a/package.json", {});
  expect(progressOf(root, packages)).toBe("1 of 2 packages, next @b/c");
  write("node_modules/a/node_modules/@b/c/package.json", {});
  expect(progressOf(root, packages)).toBe("all 2 packages are there, running their scripts");
});

/** Makes a repository with the set-up, and a program in place of npm. */
function createRepository(npm: string): string {
  const repository = join(root, "repository");
  for (const folder of ["bin", "repository/scripts", ...tools.map((path) => `repository/${path}`)])
    mkdirSync(join(root, folder), { recursive: true });
  for (const file of ["setup.mjs", "system-packages.mjs"])
    cpSync(join("scripts", file), join(repository, "scripts", file));
  write("repository/package.json", { engines: { node: ">=22.18" } });
  for (const folder of [".", ...tools]) {
    if (folder !== ".") write(`repository/${folder}/package.json`, {});
    const packages = { "node_modules/a": { version: "1.0.0" } };
    write(`repository/${folder}/package-lock.json`, { packages });
  }
  write("bin/npm", `#!/bin/sh\n${npm}\n`);
  chmodSync(join(root, "bin/npm"), 0o755);
  return repository;
}

it.each([
  ["npm start", "prestart", []],
  ["npm run check", "precheck", ["tools/checks"]],
  ["npm run docs", "predocs", ["tools/checks"]],
  ["npm run format", "preformat", ["tools/checks"]],
  ["npm test", "pretest", ["tools/runtimes", "tools/postgres", "tools/mcp", "tools/acp"]],
  ["npm run test:unit", "pretest:unit", []],
  [
    "npm run test:deep",
    "pretest:deep",
    ["tools/runtimes", "tools/postgres", "tools/mcp", "tools/acp"],
  ],
])("%s installs the tools it needs and no others, once", (_, script, wanted) => {
  const install =
    "/bin/mkdir node_modules && /bin/cp package-lock.json node_modules/.package-lock.json";
  const repository = createRepository(`pwd; ${install}`);
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  const [, file = "", ...args] = scripts[script].split(" ");
  const setUp = () =>
    // Without apt-get on the PATH, set-up installs no system packages.
    spawnSync(process.execPath, [join(repository, file), ...args], {
      env: { PATH: join(root, "bin") },
      encoding: "utf8",
    });
  const lines = (folder: string) =>
    `rivulet: ${folder}node_modules is missing; installing with npm ci (up to a minute)\n`;
  const { status, stdout } = setUp();
  expect([status, stdout]).toEqual([
    0,
    ["", ...wanted.map((path) => `${path}: `)].map(lines).join(""),
  ]);
  const isInstalled = (folder: string) => existsSync(join(repository, folder, "node_modules"));
  expect(tools.filter(isInstalled)).toEqual(wanted);
  expect(setUp().stdout).toBe("");
});

it("`npm start` installs no program that only checks and tests run", () => {
  const packages = ["package-lock.json", ...tools.map((path) => `${path}/package-lock.json`)].map(
    (path) => Object.keys(JSON.parse(readFileSync(path, "utf8")).packages),
  );
  const [forStart = [], ...forTools] = packages;
  const programs = [
    "@arethetypeswrong/cli",
    "@biomejs/biome",
    "@changesets/cli",
    "bun",
    "deno",
  ].concat(["knip", "publint", "typedoc"]);
  const folders = programs.map((name) => `node_modules/${name}`);
  expect(forTools.flat()).toEqual(expect.arrayContaining(folders));
  expect(forStart.filter((path) => folders.includes(path))).toEqual([]);
});

it("prints a line every few seconds without a terminal, and what npm says when it fails", async () => {
  // In place of npm: an installation that takes two lines of progress, and fails.
  const repository = createRepository(
    "until [ -e ready ]; do sleep 0.1; done\necho broken >&2\nexit 1",
  );
  const child = spawn(process.execPath, [join(repository, "scripts/setup.mjs")], {
    env: { ...process.env, PATH: `${join(root, "bin")}${delimiter}${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  for await (const chunk of child.stderr) {
    errors += chunk;
    if (errors.split("0 of 1 packages, next a").length >= 3) write("repository/ready", "");
  }
  expect(errors).toMatch(/^(rivulet: 0 of 1 packages, next a, \d+ s\n){2,}broken\n/);
  expect(errors).toContain("rivulet: set-up failed: npm ci failed.");
}, 60_000);
