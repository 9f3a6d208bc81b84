// The programs that tests use and npm cannot install.
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * `install` is the first suite that needs the package: "test" (`npm test`), "deep" (`npm run test:deep`) or "none".
 * Set-up installs the packages of a suite before it runs. `also` lists packages that the program needs to work.
 * @typedef {"test" | "deep" | "none"} Suite
 */
export const systemPackages = /** @type {const} */ ([
  { name: "strace", command: "strace", install: "test", why: "kills a process at a chosen write" },
  { name: "bubblewrap", command: "bwrap", install: "test", why: "confines the shell tool" },
  {
    name: "python3",
    command: "python3",
    install: "test",
    why: "reads a stream without this package",
  },
  { name: "curl", command: "curl", install: "test", why: "sends the requests of the guides" },
  { name: "spin", command: "spin", install: "deep", why: "checks the model of the driver" },
  {
    name: "gcc",
    command: "gcc",
    also: ["libc6-dev"],
    install: "deep",
    why: "compiles the model of the driver",
  },
  {
    name: "pgbouncer",
    command: "pgbouncer",
    install: "test",
    why: "shares connections to PostgreSQL between clients",
  },
  { name: "chromium", command: "chromium", install: "test", why: "opens pages in a real browser" },
]);

/**
 * Returns whether this machine has a command.
 * @param {string} command
 */
export function isOnPath(command) {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Lists the Debian packages that a suite needs and the machine does not have.
 * @param {Exclude<Suite, "none">} suite
 */
export function missingPackages(suite) {
  const installed = suite === "deep" ? ["test", "deep"] : ["test"];
  return systemPackages
    .filter(({ install, command }) => installed.includes(install) && !isOnPath(command))
    .flatMap((entry) => [entry.name, ...("also" in entry ? entry.also : [])]);
}

/**
 * Installs the missing packages of a suite, as root on Debian. Elsewhere the tests that need a package print a warning.
 * Does not throw.
 * @param {Exclude<Suite, "none">} suite
 */
export function installSystemPackages(suite) {
  const names = missingPackages(suite);
  if (names.length === 0 || process.getuid?.() !== 0 || !isOnPath("apt-get")) return;
  console.log(`rivulet: installing ${names.join(", ")} for the tests`);
  const done =
    aptGet(["update"]) && aptGet(["install", "--yes", "--no-install-recommends", ...names]);
  if (!done)
    console.warn(`rivulet: could not install ${names.join(", ")}; tests that need it do not run`);
}

/** @param {readonly string[]} args */
function aptGet(args) {
  const { status } = spawnSync("apt-get", ["--quiet=2", "-o", "Acquire::Retries=1", ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdio: "ignore",
    timeout: 180_000,
  });
  return status === 0;
}
