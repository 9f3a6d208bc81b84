import { RivuletError } from "../../base/error.ts";
import { changed, fileError, quotePath, valueOnCodes } from "../filesystem/file-error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { isBinary } from "../filesystem/text.ts";

/** The file that holds what is remembered. */
export const memoryFile = "MEMORY.md";
const memoryDirectory = "memory";
/** The directory of earlier versions of the memory file. */
export const versionsDirectory = "memory/versions";

const dailyName = /^\d{4}-\d\d-\d\d\.md$/;
const maxDays = 366;
const maxAttempts = 50;

/** A text file and its version; `text` is "" and `version` null when it does not exist. */
export interface TextFile {
  readonly text: string;
  readonly version: string | null;
}

/** The path of a day's file; the time is in milliseconds since the epoch. */
export function dailyPath(time: number): string {
  return `${memoryDirectory}/${new Date(time).toISOString().slice(0, "2030-12-31".length)}.md`;
}

/** Reads a file of the memory; one that is not text counts as empty. */
export async function readText(files: Filesystem, path: string): Promise<TextFile> {
  const found = await files.read(path).catch(valueOnCodes(undefined, "not_found"));
  if (found === undefined) return { text: "", version: null };
  const { data, version } = found;
  return { text: isBinary(data) ? "" : new TextDecoder().decode(data), version };
}

/** Replaces the text of a file, again if another writer was faster; returns whether it has changed. */
export async function changeText(
  files: Filesystem,
  path: string,
  change: (text: string) => string,
): Promise<boolean> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const { text, version } = await readText(files, path);
    const next = change(text);
    if (next === text) return false;
    try {
      await files.write(path, next, { ifVersion: version });
      return true;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
  throw changed(path);
}

/** The daily files, the newest first. */
export async function dailyFiles(files: Filesystem): Promise<readonly string[]> {
  const paths = await pathsIn(files, memoryDirectory);
  return paths
    .filter((path) => dailyName.test(path.slice(memoryDirectory.length + 1)))
    .toReversed()
    .slice(0, maxDays);
}

/** The earlier versions of the memory file, the oldest first. */
export async function versionFiles(files: Filesystem): Promise<readonly string[]> {
  return pathsIn(files, versionsDirectory);
}

async function pathsIn(files: Filesystem, directory: string): Promise<readonly string[]> {
  const missing = { entries: [], cut: false };
  const { entries } = await files.list(directory).catch(valueOnCodes(missing, "not_found"));
  return entries.flatMap(({ path, type }) => (type === "file" ? [path] : []));
}

/** The normalized path, if it is one of the memory's text files; throws `invalid_path`. */
export function memoryPath(files: Filesystem, path: string): string {
  const normal = files.normalize(path);
  if (normal === memoryFile || /^memory\/(?:versions\/)?[^/]+\.md$/.test(normal)) return normal;
  const message = `${quotePath(path)} is not a file of the memory.`;
  const hint = `Use ${memoryFile}, or a file such as memory/2030-12-31.md.`;
  throw fileError("invalid_path", message, hint);
}

/** Whether an error means that another writer was faster. */
export function isConflict(error: unknown): boolean {
  return error instanceof RivuletError && error.code === "conflict";
}
