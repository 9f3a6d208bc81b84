import { mkdir, realpath } from "node:fs/promises";
import { posix, resolve, sep } from "node:path";
import { RivuletError } from "../../protocol/error.ts";
import { canHold, type Directory, errnoOf, openDirectory, type Root } from "./directory.ts";
import { type FilesystemOptions, fencedFilesystem } from "./fenced.ts";
import { shown } from "./file-error.ts";
import { type FileStat, type Filesystem, fileLimits } from "./filesystem.ts";
import { contentVersion, readLocal } from "./local-read.ts";
import { listLocal, statLocal, walkLocal } from "./local-walk.ts";
import { removeLocal, writeLocal } from "./local-write.ts";
import { lockOf } from "./lock.ts";
import type { Place } from "./path.ts";
import type { Volume } from "./volume.ts";

/** How a directory of this machine is used. */
export interface LocalFilesystemOptions extends FilesystemOptions {
  /** Whether directories are held open and entered by their handles; absent: where the system can, which is on Linux. */
  readonly handles?: boolean;
}

/** Files in a directory of this machine, which is created when it is first used. No link in it is ever followed. */
export function localFilesystem(root: string, options: LocalFilesystemOptions = {}): Filesystem {
  return fencedFilesystem(localVolume(resolve(root), options), options);
}

function localVolume(path: string, { handles = canHold, limits }: LocalFilesystemOptions): Volume {
  const maxBytes = limits?.fileBytes ?? fileLimits.fileBytes;
  let root: Root | undefined;
  const findRoot = async (): Promise<Root> => {
    if (root) return root;
    await mkdir(path, { recursive: true });
    root = { path: await realpath(path), held: handles };
    return root;
  };
  const lock = lockOf(findRoot);
  const writer = async () => ({ root: await findRoot(), lock, maxBytes });

  /** Does something in the directory of a place, or in the one above it. */
  async function inDirectory<T>(
    place: Place,
    { above = false }: { readonly above?: boolean },
    work: (directory: Directory, name: string) => Promise<T>,
  ): Promise<T> {
    const directory = await openDirectory(await findRoot(), place, { above });
    try {
      return await work(directory, place.names.at(-1) ?? "");
    } finally {
      await directory.close();
    }
  }

  return {
    absolute: (names) => (sep === "/" ? [posix.join(path, ...names)] : []),
    stat: (place) =>
      told(place, async () => {
        if (place.names.length === 0) return rootStat;
        const stat = inDirectory(place, { above: true }, (directory, name) =>
          statLocal(directory, name, place.path),
        );
        return stat.catch(instead(undefined, "not_found", "not_a_directory"));
      }),
    read: (place) =>
      told(place, () =>
        inDirectory(place, { above: true }, async (directory, name) => {
          const data = await readLocal(directory, name, place.path, maxBytes);
          return { path: place.path, data, version: contentVersion(data) };
        }),
      ),
    write: (place, data, condition) =>
      told(place, async () => writeLocal(await writer(), place, data, condition)),
    remove: (place) => told(place, async () => removeLocal(await writer(), place)),
    list: (place, options) =>
      told(place, () =>
        inDirectory(place, {}, (directory) => listLocal(directory, place.path, options)).catch(
          // A namespace has no directory before the first file in it.
          instead({ entries: [], cut: false }, ...(place.names.length > 0 ? [] : ["not_found"])),
        ),
      ),
    walk: (place, walk) =>
      told(place, () =>
        inDirectory(place, {}, (directory) =>
          walkLocal(directory, place.path, walk, maxBytes, place.names.length),
        ).catch(instead(undefined, "not_found")),
      ),
  };
}

const rootStat: FileStat = { path: "", type: "directory", size: 0, modifiedAt: 0 };

/** For `catch`: takes some refusals for a value. */
function instead<T>(value: T, ...codes: readonly string[]): (error: unknown) => T {
  return (error) => {
    if (error instanceof RivuletError && codes.includes(error.code)) return value;
    throw error;
  };
}

/** Says what the system has refused without the system's words, which name paths of this machine. */
async function told<T>({ path }: Place, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RivuletError) throw error;
    const code = errnoOf(error);
    const reason = reasons[code] ?? (code || "an unknown error");
    const message = `${shown(path)} could not be used: ${reason}.`;
    throw new RivuletError("file_failed", message, { cause: error });
  }
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the disk is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk is full",
  EMFILE: "too many files are open",
  ENFILE: "too many files are open",
};
