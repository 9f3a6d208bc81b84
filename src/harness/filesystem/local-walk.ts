import type { Dir, Dirent } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { type Directory, ignoring } from "./directory.ts";
import { notRegular } from "./file-error.ts";
import type { FileStat, Listing } from "./filesystem.ts";
import { readLocal } from "./local-read.ts";
import {
  type Accepts,
  type FoundFile,
  isUsableName,
  pathIn,
  unreadBecause,
  type Walk,
} from "./volume.ts";

const atOnce = 1_000;
const maxDepth = 64;

/** What there is of a name in a directory. */
export async function statLocal(
  directory: Directory,
  name: string,
  path: string,
): Promise<FileStat | undefined> {
  const stats = await lstat(directory.at(name), { bigint: true }).catch(ignoring("ENOENT"));
  if (!stats) return undefined;
  if (!(await directory.holds())) throw notRegular(path, true);
  const type = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other";
  const size = type === "file" ? Number(stats.size) : 0;
  return { path, type, size, modifiedAt: Number(stats.mtimeMs) };
}

/** What is in a directory. */
export async function listLocal(
  directory: Directory,
  path: string,
  { limit, accepts }: { readonly limit: number; readonly accepts: Accepts },
): Promise<Listing> {
  const entries: FileStat[] = [];
  for await (const some of entriesOf(directory, accepts)) {
    for (const { name } of some) {
      if (entries.length === limit) return { entries, cut: true };
      const stat = await statLocal(directory, name, pathIn(path, name));
      if (stat) entries.push(stat);
    }
  }
  return { entries, cut: false };
}

/** Shows every file below a directory; what is no file and no directory is passed by. */
export async function walkLocal(
  directory: Directory,
  path: string,
  { accepts, visit, isOver }: Walk,
  maxBytes: number,
  depth = 0,
): Promise<void> {
  const fileOf = (name: string): FoundFile => ({
    path: pathIn(path, name),
    read: () => readLocal(directory, name, name, maxBytes).catch(unreadBecause),
  });
  for await (const some of entriesOf(directory, accepts)) {
    if (isOver()) return;
    const files = some.flatMap((entry) => (entry.isFile() ? [fileOf(entry.name)] : []));
    if (files.length > 0) await visit(files);
    for (const entry of some) {
      if (isOver()) return;
      if (!entry.isDirectory() || depth === maxDepth) continue;
      // It may have become something else by now, and then it is not for us.
      const child = await directory.enter(entry.name, entry.name).catch(() => undefined);
      if (!child) continue;
      try {
        const below = { accepts: () => true, visit, isOver };
        await walkLocal(child, pathIn(path, entry.name), below, maxBytes, depth + 1);
      } finally {
        await child.close();
      }
    }
  }
}

/** The entries of a directory, some at a time, so that a very large one costs no more memory than a small one. */
async function* entriesOf(directory: Directory, accepts: Accepts): AsyncGenerator<Dirent[]> {
  const open: Dir = await opendir(directory.at(""), { bufferSize: atOnce });
  try {
    for (let isMore = true; isMore; ) {
      const some: Dirent[] = [];
      for (let count = 0; count < atOnce && isMore; count++) {
        const entry = await open.read();
        if (!entry) isMore = false;
        else if (isUsableName(entry.name) && accepts(entry.name)) some.push(entry);
      }
      if (!(await directory.holds())) return;
      yield some;
    }
  } finally {
    await open.close();
  }
}
