import type { Dir, Dirent } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { type Directory, ignoring } from "./directory.ts";
import { notRegular } from "./file-error.ts";
import type { FileStat, Listing } from "./filesystem.ts";
import { readLocal } from "./local-read.ts";
import { maxDepth } from "./path.ts";
import {
  type Accepts,
  type FoundFile,
  isUsableName,
  pathIn,
  unreadBecause,
  type Walk,
} from "./volume.ts";

const atOnce = 1_000;

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
    const room = limit - entries.length;
    const wanted = some.slice(0, room);
    const stats = wanted.map(({ name }) => statLocal(directory, name, pathIn(path, name)));
    for (const stat of await Promise.all(stats)) if (stat) entries.push(stat);
    if (some.length > room) return { entries, cut: true };
  }
  if (!(await directory.holds())) throw notRegular(path, true);
  return { entries, cut: false };
}

/** Shows every file below a directory that is `depth` below the root, as far as a path can lead. */
export async function walkLocal(
  directory: Directory,
  path: string,
  { accepts, visit, isOver }: Walk,
  maxBytes: number,
  depth: number,
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
      if (!entry.isDirectory() || depth + 2 > maxDepth) continue;
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
