import { randomBytes } from "node:crypto";
import { type FileHandle, lstat, rename, unlink } from "node:fs/promises";
import {
  asFound,
  createFile,
  type Directory,
  ignoring,
  openDirectory,
  type Root,
} from "./directory.ts";
import { changed, notAFile, notFound, notRegular } from "./file-error.ts";
import type { OnVersion, WrittenFile } from "./filesystem.ts";
import { contentVersion, readLocal } from "./local-read.ts";
import type { Lock } from "./lock.ts";
import { reservedPrefix } from "./name.ts";
import type { Place } from "./path.ts";

/** What a change works with. */
export interface LocalWriter {
  readonly root: Root;
  readonly lock: Lock;
  readonly maxBytes: number;
}

/**
 * Writes beside the file and puts the result in its place, so that there is always the old file or the new one. What is
 * there is compared and replaced under the lock, so that of two writers on one version one is told.
 */
export async function writeLocal(
  writer: LocalWriter,
  place: Place,
  data: Uint8Array,
  condition: OnVersion,
): Promise<WrittenFile> {
  const { path } = place;
  const name = place.names.at(-1) as string;
  const directory = await openDirectory(writer.root, place, { above: true, create: true });
  try {
    const mode = await modeOf(directory, name, path);
    const temporary = `${reservedPrefix}-${randomBytes(8).toString("hex")}`;
    const handle = await createFile(directory, temporary);
    try {
      await fill(handle, data, mode);
      await writer.lock(async () => {
        await checkVersion(writer, directory, place, condition);
        const stats = await handle.stat({ bigint: true });
        if (!(await directory.holds({ name: temporary, stats }))) throw notRegular(path, true);
        await rename(directory.at(temporary), directory.at(name));
      });
    } catch (error) {
      await unlink(directory.at(temporary)).catch(() => {});
      throw error;
    } finally {
      await handle.close();
    }
    await directory.sync();
    return { path, version: contentVersion(data), created: mode === undefined };
  } finally {
    await directory.close();
  }
}

/** Removes a file. */
export async function removeLocal(writer: LocalWriter, place: Place): Promise<void> {
  const { path } = place;
  const name = place.names.at(-1) as string;
  const directory = await openDirectory(writer.root, place, { above: true });
  try {
    await writer.lock(async () => {
      if ((await modeOf(directory, name, path)) === undefined) throw notFound(path);
      await unlink(directory.at(name));
    });
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function fill(handle: FileHandle, data: Uint8Array, mode?: number): Promise<void> {
  await handle.writeFile(data);
  // Through the handle, so that it is this file's mode that changes, whatever has its name by now.
  if (mode !== undefined) await handle.chmod(mode);
  await handle.sync();
}

/** The permissions of a regular file; undefined when nothing has this name. */
async function modeOf(
  directory: Directory,
  name: string,
  path: string,
): Promise<number | undefined> {
  const stats = await lstat(directory.at(name), { bigint: true }).catch(ignoring("ENOENT"));
  if (!stats) return undefined;
  if (!(await directory.holds())) throw notRegular(path, true);
  if (stats.isDirectory()) throw notAFile(path);
  if (!stats.isFile()) throw asFound(stats, path);
  return Number(stats.mode) & 0o777;
}

async function checkVersion(
  { maxBytes }: LocalWriter,
  directory: Directory,
  { names, path }: Place,
  { ifVersion }: OnVersion,
): Promise<void> {
  if (ifVersion === undefined) return;
  const name = names.at(-1) as string;
  const isThere = (await modeOf(directory, name, path)) !== undefined;
  const version = isThere ? contentVersion(await readLocal(directory, name, path, maxBytes)) : null;
  if (version !== ifVersion) throw changed(path);
}
