import { constants } from "node:fs";
import { copyFile, lchown, lstat, rmdir, unlink, utimes } from "node:fs/promises";
import { RivuletError } from "../../base/error.ts";
import {
  type Directory,
  errnoOf,
  ignoreCode,
  openDirectory,
  openFile,
} from "../filesystem/directory.ts";
import { valueOnCodes } from "../filesystem/file-error.ts";
import type { Volume } from "../filesystem/filesystem.ts";
import { layeredVolume } from "../filesystem/layers.ts";
import type { LocalVolume } from "../filesystem/local.ts";
import { isUsableName, type Place, reservedPrefix, whiteoutPrefix } from "../filesystem/path.ts";

/** The common files in a layer while commands run, because a command sees the directory of the layer alone. */
export interface LayerCopies {
  /** Removes the copies that were not changed, and hides the common files whose copies were removed. */
  release(): Promise<void>;
}

/** The stored list of copies, so that a crash leaves none behind. */
interface Manifest {
  readonly pid: number;
  readonly copies: readonly Copy[];
}
interface Copy {
  readonly path: string;
  /** Changes with the file; absent for a common file that the layer hides, or has itself. */
  readonly stamp?: string;
}

/** The most that is copied for the commands of a workspace. */
export const copyLimits = { maxFiles: 20_000, maxBytes: 512 * 1024 * 1024 };
const { maxFiles, maxBytes } = copyLimits;
const parallel = 16;

/** Copies the common files that a layer shows, and does not have itself, into the layer. */
export async function copyCommonFiles(
  local: LocalVolume,
  layer: readonly string[],
  readOnly: readonly string[],
): Promise<LayerCopies> {
  const manifest = placeOf([reservedPrefix, "copies"], `${layer.at(-1)}.json`);
  const left = await readManifest(local, manifest);
  // The copies of another process that runs are its own to remove.
  if (left && left.pid !== process.pid && isAlive(left.pid)) return { release: async () => {} };
  if (left) await removeCopies(local, layer, left.copies);
  await removeForgedWhiteouts(local, layer, readOnly);
  const { visible, covered } = await commonPaths(local, layer);
  const copies: Copy[] = covered.map((path) => ({ path }));
  const store = (pid = process.pid) => {
    const text = JSON.stringify({ pid, copies } satisfies Manifest);
    return local.write(manifest, Buffer.from(text), {});
  };
  if (visible.length > 0) await store();
  let bytes = 0;
  await inBatches(visible, parallel, async (path) => {
    const copy = await copyOne(local, layer, path, (size) => {
      bytes += size;
      if (bytes > maxBytes) throw tooMuch(`${maxBytes} bytes`);
    });
    if (copy) copies.push(copy);
  });
  if (visible.length > 0) await store();
  return {
    async release() {
      await removeCopies(local, layer, copies);
      if (visible.length > 0)
        await local.remove(manifest).catch(valueOnCodes(undefined, "not_found"));
    },
  };
}

/** The place of a path below a directory of the volume. */
export function placeOf(base: readonly string[], path: string): Place {
  return { path, base, names: path.split("/"), writable: true };
}

async function readManifest(local: LocalVolume, place: Place): Promise<Manifest | undefined> {
  const content = await local.read(place).catch(valueOnCodes(undefined, "not_found"));
  return content && (JSON.parse(Buffer.from(content.data).toString()) as Manifest);
}

/** Whether a process of this machine runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) === "EPERM";
  }
}

/** Removes whiteouts of control files, which only a command can have written. */
async function removeForgedWhiteouts(
  local: LocalVolume,
  layer: readonly string[],
  readOnly: readonly string[],
): Promise<void> {
  for (const name of readOnly) {
    const forged = placeOf(layer, `${whiteoutPrefix}${name}`);
    await local.remove(forged).catch(valueOnCodes(undefined, "not_found"));
  }
}

/** Lists the common files: those that the layer shows, and those that it hides or has itself. */
async function commonPaths(local: LocalVolume, layer: readonly string[]) {
  const root: Place = { path: "", base: [], names: [], writable: true };
  const pathsIn = async (volume: Volume, place: Place, limit: number) => {
    const paths = new Set<string>();
    await volume.walk(place, {
      accepts: isUsableName,
      visit: async (files) => {
        for (const { path } of files) paths.add(path);
      },
      isOver: () => paths.size > limit,
    });
    return paths;
  };
  const common = await pathsIn(local, root, maxFiles);
  if (common.size > maxFiles) throw tooMuch(`${maxFiles} files`);
  if (common.size === 0) return { visible: [], covered: [] };
  const own = await pathsIn(local, { ...root, base: layer }, Number.POSITIVE_INFINITY);
  const merged = await pathsIn(layeredVolume(local, layer), root, Number.POSITIVE_INFINITY);
  const isVisible = (path: string) => merged.has(path) && !own.has(path);
  return {
    visible: [...common].filter(isVisible),
    covered: [...common].filter((path) => !isVisible(path)),
  };
}

function tooMuch(limit: string): RivuletError {
  const message = `The common files of the workspace are more than ${limit}, too many to share with commands.`;
  const hint = "Move large files out of the workspace and add their directory to systemPaths.";
  return new RivuletError("sandbox_failed", message, { hint });
}

async function copyOne(
  local: LocalVolume,
  layer: readonly string[],
  path: string,
  count: (bytes: number) => void,
): Promise<Copy | undefined> {
  const root = await local.root();
  const common = placeOf([], path);
  const name = common.names.at(-1) ?? "";
  const from = await openDirectory(root, common, { above: true });
  try {
    const { handle, stats } = await openFile(from, name, path);
    try {
      count(Number(stats.size));
      const to = await openDirectory(root, placeOf(layer, path), { above: true, create: true });
      try {
        const { COPYFILE_EXCL, COPYFILE_FICLONE } = constants;
        const at = to.at(name);
        // Through the handle, so that no link is followed.
        await copyFile(`/proc/self/fd/${handle.fd}`, at, COPYFILE_EXCL | COPYFILE_FICLONE);
        if (root.owner) await lchown(at, root.owner.uid, root.owner.gid);
        await utimes(at, stats.atime, stats.mtime);
        return { path, stamp: (await stampOf(to, name)) ?? "" };
      } catch (error) {
        return ignoreCode("EEXIST")(error); // a file tool has just written it
      } finally {
        await to.close();
      }
    } finally {
      await handle.close();
    }
  } catch (error) {
    return valueOnCodes(undefined, "not_found", "not_regular")(error);
  } finally {
    await from.close();
  }
}

async function stampOf(directory: Directory, name: string): Promise<string | undefined> {
  const stats = await lstat(directory.at(name), { bigint: true }).catch(ignoreCode("ENOENT"));
  return stats && `${stats.ino} ${stats.size} ${stats.mtimeNs} ${stats.mode}`;
}

async function removeCopies(
  local: LocalVolume,
  layer: readonly string[],
  copies: readonly Copy[],
): Promise<void> {
  const root = await local.root();
  const removed = new Set<string>();
  const directories = new Set<string>();
  await inBatches(copies, parallel, async ({ path, stamp }) => {
    const { names } = placeOf(layer, path);
    for (let length = names.length - 1; length > 0; length--) {
      directories.add(names.slice(0, length).join("/"));
    }
    const directory = await openDirectory(root, placeOf(layer, path), { above: true }).catch(
      valueOnCodes(undefined, "not_found", "not_a_directory", "not_regular"),
    );
    const name = names.at(-1) ?? "";
    try {
      const now = directory && (await stampOf(directory, name));
      if (now === undefined) removed.add(path);
      else if (now === stamp) await unlink(directory?.at(name) ?? "").catch(ignoreCode("ENOENT"));
    } finally {
      await directory?.close();
    }
  });
  for (const path of removed) await hide(local, layer, path);
  // The deepest first, so that a directory is empty when it is its turn.
  for (const path of [...directories].sort((a, b) => b.length - a.length)) {
    const directory = await openDirectory(root, placeOf(layer, path), { above: true }).catch(
      valueOnCodes(undefined, "not_found", "not_a_directory", "not_regular"),
    );
    await rmdir(directory?.at(path.slice(path.lastIndexOf("/") + 1)) ?? "").catch(() => {});
    await directory?.close();
  }
}

/** Hides the topmost common directory or file above or at a path that the layer no longer has. */
async function hide(local: LocalVolume, layer: readonly string[], path: string): Promise<void> {
  const names = path.split("/");
  for (let length = 1; length <= names.length; length++) {
    const above = names.slice(0, length);
    const place = { ...placeOf(layer, above.join("/")), names: above };
    const name = `${whiteoutPrefix}${above.at(-1)}`;
    const whiteout = { ...place, names: [...above.slice(0, -1), name] };
    if (await local.stat(whiteout)) return;
    const stat = await local.stat(place);
    if (stat?.type === "directory") continue;
    if (stat && length < names.length) return; // a file of the layer hides what was below
    await local.write(whiteout, new Uint8Array(), {});
    return;
  }
}

/** Does work for entries, some of them at once. */
export async function inBatches<T>(
  entries: readonly T[],
  size: number,
  work: (entry: T) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < entries.length; start += size) {
    await Promise.all(entries.slice(start, start + size).map(work));
  }
}
