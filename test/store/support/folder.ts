import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The tests kill processes, not machines, so a faster file system in memory is enough.
const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** A new folder for databases. */
export function createFolder(): string {
  return mkdtempSync(join(parent, "rivulet-store-"));
}

/** Removes a folder with its contents. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
