// Runs before `npm start`, `npm test` and the other scripts. It is plain JavaScript because it runs on the machine's
// Node (20 or newer), before `npm ci` installs the repository's own Node.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { installSystemPackages } from "./system-packages.mjs";

const repository = fileURLToPath(new URL("..", import.meta.url));
// The programs that only checks and only tests run have lockfiles of their own: `npm start` does without them.
const checks = "tools/checks";
const runtimes = "tools/runtimes";
const postgres = "tools/postgres";
const mcp = "tools/mcp";
const acp = "tools/acp";

/**
 * Returns why a folder needs `npm ci`, or undefined when its dependencies match its lockfile.
 * @param {string} root
 * @param {string} [nodeVersion] the Node that runs this script
 * @returns {string | undefined}
 */
export function staleReason(root, nodeVersion = process.version) {
  const installed = lockedPackages(join(root, "node_modules", ".package-lock.json"));
  if (installed === undefined) return "node_modules is missing";
  const wanted = lockedPackages(join(root, "package-lock.json")) ?? {};
  for (const [path, entry] of Object.entries(wanted)) {
    const present = installed[path];
    // An optional package may belong to another platform.
    if (path === "" || (present === undefined && entry.optional)) continue;
    if (present?.version !== entry.version || present?.integrity !== entry.integrity)
      return "node_modules does not match package-lock.json";
  }
  if (Object.keys(installed).some((path) => wanted[path] === undefined))
    return "node_modules does not match package-lock.json";
  return nodeReason(root, nodeVersion);
}

/**
 * npm scripts look for `node` in node_modules/.bin first, then on the machine. One of them must be new enough. The tools
 * run on the same one, and their folders require none.
 * @param {string} root
 * @param {string} nodeVersion
 */
function nodeReason(root, nodeVersion) {
  const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  if (engines === undefined) return undefined;
  const least = engines.node.replace(">=", "");
  if (atLeast(nodeVersion, least)) return undefined;
  const own = spawnSync(join(root, "node_modules", ".bin", "node"), ["--version"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (own.status === 0 && atLeast(own.stdout, least)) return undefined;
  return `node_modules has no Node ${least} or newer`;
}

/**
 * @param {string} version
 * @param {string} least
 */
function atLeast(version, least) {
  const [major = 0, minor = 0] = version.replace("v", "").split(".").map(Number);
  const [leastMajor = 0, leastMinor = 0] = least.split(".").map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

/**
 * @param {string} file the repository's lockfile, or the one that npm writes into node_modules after an install
 * @returns {Record<string, { version?: string, integrity?: string, optional?: boolean, os?: string[], cpu?: string[], libc?: string[] }> | undefined}
 */
function lockedPackages(file) {
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).packages : undefined;
}

/** @param {string} [folder] a folder of the repository that has a lockfile of its own */
async function installDependencies(folder = "") {
  const root = join(repository, folder);
  const reason = staleReason(root);
  if (reason === undefined) return;
  const place = folder === "" ? "" : `${folder}: `;
  console.log(`rivulet: ${place}${reason}; installing with npm ci (up to a minute)`);
  // npm must not run on the Node that it deletes.
  const modules = join(root, "node_modules");
  const path = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !resolve(folder).startsWith(modules));
  const npm = spawn("npm", ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    env: { ...process.env, PATH: path.join(delimiter) },
    shell: process.platform === "win32",
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stopProgress = showProgress(root);
  /** @type {string[]} */
  const printed = [];
  for (const stream of [npm.stdout, npm.stderr])
    stream.on("data", (chunk) => void printed.push(String(chunk)));
  const code = await new Promise((resolve) => {
    npm.on("error", (error) => resolve(void printed.push(error.message)));
    npm.on("close", resolve);
  });
  stopProgress();
  const problem = code === 0 ? staleReason(root) : "npm ci failed";
  if (problem === undefined) return;
  console.error(printed.join(""));
  console.error(`rivulet: set-up failed: ${place}${problem}.`);
  console.error(
    "Check that the npm registry is reachable and that install scripts are allowed for the packages of `allowScripts`.",
  );
  process.exit(1);
}

/**
 * Shows how many packages are there: each second in a terminal, else one line every few seconds. Returns a function that
 * stops it.
 * @param {string} root
 */
function showProgress(root) {
  const started = Date.now();
  const packages = packagesToInstall(root);
  const show = () => {
    const seconds = Math.round((Date.now() - started) / 1_000);
    const text = `rivulet: ${progressOf(root, packages)}, ${seconds} s`;
    process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`);
  };
  const timer = setInterval(show, process.stderr.isTTY ? 1_000 : 3_000);
  return () => {
    clearInterval(timer);
    if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  };
}

/**
 * The progress of an installation, in words.
 * @param {string} root
 * @param {readonly string[]} packages
 */
export function progressOf(root, packages) {
  const isThere = (/** @type {string} */ path) => existsSync(join(root, path, "package.json"));
  const missing = packages.filter((path) => !isThere(path));
  if (missing.length === 0)
    return `all ${packages.length} packages are there, running their scripts`;
  const [next = ""] = missing;
  const done = packages.length - missing.length;
  return `${done} of ${packages.length} packages, next ${next.replace(/^.*node_modules\//, "")}`;
}

/**
 * The folders of the lockfile that an installation fills on this platform.
 * @param {string} root
 * @returns {readonly string[]}
 */
export function packagesToInstall(root) {
  const wanted = lockedPackages(join(root, "package-lock.json")) ?? {};
  const fits = (/** @type {readonly string[] | undefined} */ list, /** @type {string} */ name) =>
    list === undefined ||
    list.includes(name) ||
    list.every((entry) => /^!/.test(entry) && entry !== `!${name}`);
  const ownLibc = libcName();
  return Object.entries(wanted)
    .filter(([path, { os, cpu, libc }]) => {
      const isFitting =
        fits(os, process.platform) && fits(cpu, process.arch) && fits(libc, ownLibc);
      return path !== "" && isFitting;
    })
    .map(([path]) => path);
}

/** The C library of this Linux, as npm names it. */
export function libcName() {
  const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (
    process.report.getReport()
  );
  return header.glibcVersionRuntime === undefined ? "musl" : "glibc";
}

/**
 * Runs one set-up of a folder at a time. A second set-up waits, and then finds nothing to do.
 * @param {string} root
 * @param {() => Promise<void>} work
 */
async function runExclusively(root, work) {
  const name = createHash("sha256").update(root).digest("hex").slice(0, 16);
  const lock = join(tmpdir(), `rivulet-setup-${name}.lock`);
  for (let waited = 0; !takeLock(lock); waited++) {
    if (waited === 5) console.log("rivulet: waiting for another set-up to finish");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  }
  process.once("exit", () => rmSync(lock, { force: true }));
  await work();
}

/** @param {string} lock */
function takeLock(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    if (isAbandoned(lock)) rmSync(lock, { force: true });
    return false;
  }
}

/** @param {string} lock */
function isAbandoned(lock) {
  try {
    if (Date.now() - statSync(lock).mtimeMs > 15 * 60_000) return true;
    const owner = Number(readFileSync(lock, "utf8"));
    if (owner > 0) process.kill(owner, 0); // throws ESRCH when the process has ended
    return false;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH";
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const forSuite = process.argv.includes("--for-deep-tests")
    ? "deep"
    : process.argv.includes("--for-tests") && "test";
  await runExclusively(repository, async () => {
    await installDependencies();
    if (process.argv.includes("--for-checks")) await installDependencies(checks);
    if (process.argv.includes("--for-postgres")) await installDependencies(postgres);
    if (!forSuite) return;
    await installDependencies(runtimes);
    await installDependencies(postgres);
    await installDependencies(mcp);
    await installDependencies(acp);
    installSystemPackages(forSuite);
  });
}
