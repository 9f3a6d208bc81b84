import type { Filesystem } from "../../../../src/harness/filesystem/filesystem.ts";
import { localFilesystem } from "../../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../../src/harness/filesystem/store.ts";
import { openStore } from "../../../../src/store/index.ts";

/** The files in a directory or, for what begins with `sqlite:`, in a database. Any process can have them at once. */
export function filesAt(where: string): Filesystem {
  return isLocal(where) ? localFilesystem(where) : storeFilesystem(openStore(where));
}

/** Whether it is a directory. */
export function isLocal(where: string): boolean {
  return !where.startsWith("sqlite:");
}
