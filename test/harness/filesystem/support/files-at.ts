import type { Filesystem } from "../../../../src/harness/filesystem/filesystem.ts";
import { localFilesystem } from "../../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../../src/harness/filesystem/store.ts";
import { openStore } from "../../../../src/store/index.ts";

/** Opens the files in a directory or, with the prefix `sqlite:`, in a database; several processes can do so at once. */
export function filesAt(where: string): Filesystem {
  return isLocal(where) ? localFilesystem(where) : storeFilesystem(openStore(where));
}

/** Returns whether the place is a directory. */
export function isLocal(where: string): boolean {
  return !where.startsWith("sqlite:");
}
