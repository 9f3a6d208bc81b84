import { isOnPath, systemPackages } from "../../scripts/system-packages.mjs";

/** A package of scripts/system-packages.mjs. */
export type SystemPackage = (typeof systemPackages)[number]["name"];

/** Returns whether a system package is installed; if not, prints that its tests are skipped. */
export function requires(name: SystemPackage): boolean {
  const entry = systemPackages.find((candidate) => candidate.name === name);
  if (entry === undefined) throw new Error(`${name} is not in scripts/system-packages.mjs`);
  if (isOnPath(entry.command)) return true;
  console.warn(`not run: needs ${name} (Debian package), which ${entry.why}`);
  return false;
}
