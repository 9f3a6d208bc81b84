import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The tests end processes, not machines, so a file system in memory is as good as a disk and does not wait for it.
const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** A new folder for databases. */
export function createFolder(): string {
  return mkdtempSync(join(parent, "rivulet-store-"));
}

/** Removes a folder with all that is in it. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
