// The one list of programs that tests use and npm cannot bring.
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * `install`: set-up installs the package where it may. It is true for what is small, and for what a test asks for;
 * a test in test/house keeps the second half true.
 */
export const systemPackages = /** @type {const} */ ([
  { name: "strace", command: "strace", install: true, why: "kills a process at a chosen write" },
  { name: "bubblewrap", command: "bwrap", install: true, why: "confines the shell tool" },
  { name: "chromium", command: "chromium", install: false, why: "opens pages in a real browser" },
]);

/**
 * Whether a command can be run on this machine.
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

/** Installs what is missing, as root on Debian; elsewhere the tests that need a package say so. Must not throw. */
export function installSystemPackages() {
  const missing = systemPackages.filter(({ install, command }) => install && !isOnPath(command));
  if (missing.length === 0 || process.getuid?.() !== 0 || !isOnPath("apt-get")) return;
  const names = missing.map(({ name }) => name);
  console.log(`rivulet: installing ${names.join(", ")} for the tests`);
  const done =
    aptGet(["update"]) && aptGet(["install", "--yes", "--no-install-recommends", ...names]);
  if (!done)
    console.warn(`rivulet: could not install ${names.join(", ")}; tests that need it say so`);
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
