import { lstat, readdir, readFile, rmdir, unlink, writeFile } from "node:fs/promises";
import { RivuletError } from "../../base/error.ts";
import { type Directory, ignoreCode } from "../filesystem/directory.ts";
import { foldName, isInstructions, maxDepth, pathIn, reservedPrefix } from "../filesystem/path.ts";
import { configFiles } from "../filesystem/steering.ts";
import { inBatches } from "./copies.ts";
import type { JailView } from "./jail.ts";

/** The files of a workspace before a command runs. */
export interface Survey {
  /** In milliseconds since the epoch. */
  readonly takenAt: number;
  readonly paths: ReadonlySet<string>;
  /** The paths of instructions in directories. */
  readonly nested: readonly string[];
  /** Instructions that have several names: a command could change them by another one. */
  readonly linked: ReadonlyMap<string, { readonly data: Uint8Array; readonly mode: number }>;
}

/** A workspace, and the names at its root that commands cannot change at all. */
export interface Surveyed {
  readonly root: Directory;
  isKept(name: string): boolean;
}

const maxNested = 256;
const blockBytes = 512;
const parallel = 4; // directories on each of the first two levels
const configs = new Set(configFiles);

/** Lists the files of a workspace. */
export async function takeSurvey(workspace: Surveyed): Promise<Survey> {
  const paths = new Set<string>();
  const linked = new Map<string, { data: Uint8Array; mode: number }>();
  const nested: string[] = [];
  await walk(workspace, async ({ directory, name, path, steers }) => {
    paths.add(path);
    if (!steers) return;
    if (path.includes("/")) nested.push(path);
    const { nlink, mode } = await lstat(directory.at(name));
    if (nlink > 1) linked.set(path, { data: await readFile(directory.at(name)), mode });
  });
  if (nested.length > maxNested) throw tooMany(nested.length);
  return { takenAt: Date.now(), paths, nested, linked };
}

/**
 * Removes the instructions and configs that have appeared and that no command has read-only, and restores those that were
 * changed by another name; returns their paths.
 */
export async function sweepInstructions(
  workspace: Surveyed,
  { paths, linked }: Survey,
  isBound: (path: string) => boolean,
): Promise<readonly string[]> {
  const found: string[] = [];
  await walk(workspace, async ({ directory, name, path, steers }) => {
    if (!steers) return;
    const at = directory.at(name);
    if (!paths.has(path) && !isBound(path)) {
      await unlink(at).catch(ignoreCode("ENOENT"));
      found.push(path);
    }
    const before = linked.get(path);
    if (!before || (await readFile(at)).equals(before.data)) return;
    await unlink(at);
    await writeFile(at, before.data, { flag: "wx", mode: before.mode }); // it has no other name
    found.push(path);
  });
  return found;
}

/** Finds the files that a command cannot read, and the topmost directories with nothing else in them. */
export async function findMasked(
  root: Directory,
  hides: (path: string) => boolean,
): Promise<JailView["masked"]> {
  const files: string[] = [];
  const open = new Set<string>(); // directories with a file that can be read
  await walk({ root, isKept: () => false }, async ({ path }) => {
    if (hides(path)) files.push(path);
    else for (const directory of directoriesAbove(path)) open.add(directory);
  });
  const directories = new Set<string>();
  const rest = files.filter((path) => {
    const closed = directoriesAbove(path).find((directory) => !open.has(directory));
    if (closed !== undefined) directories.add(closed);
    return closed === undefined;
  });
  if (directories.size + rest.length > maxNested) throw tooManyHidden(rest.length);
  return { directories: [...directories], files: rest };
}

function directoriesAbove(path: string): readonly string[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_, index) => names.slice(0, index + 1).join("/"));
}

function tooManyHidden(count: number): RivuletError {
  const message = `Rules hide ${count} files of the workspace, more than ${maxNested} cannot be hidden from commands.`;
  const hint = "Put them into one directory, and write a rule for it.";
  return new RivuletError("sandbox_failed", message, { hint });
}

/** The size on the disk of all files that were written since a survey. */
export async function bytesWritten(workspace: Surveyed, { takenAt }: Survey): Promise<number> {
  let bytes = 0;
  await walk(workspace, async ({ directory, name }) => {
    const stats = await lstat(directory.at(name)).catch(ignoreCode("ENOENT"));
    if (stats && stats.ctimeMs > takenAt) bytes += (stats.blocks * blockBytes) / stats.nlink;
  });
  return bytes;
}

/** Removes the files that are new since a survey, and the directories that are empty then. */
export async function removeNewFiles(
  workspace: Surveyed,
  { paths }: Survey,
  isWanted: (path: string) => boolean,
): Promise<void> {
  const left = async (directory: Directory, name: string) =>
    rmdir(directory.at(name)).catch(() => {}); // it has files that stay
  await walk(
    workspace,
    async ({ directory, name, path }) => {
      if (paths.has(path) || isWanted(path)) return;
      await unlink(directory.at(name)).catch(ignoreCode("ENOENT"));
    },
    left,
  );
}

interface Entry {
  readonly directory: Directory;
  readonly name: string;
  readonly path: string;
  /** Whether it is a regular file with instructions, or a config. */
  readonly steers: boolean;
}

/** Calls `each` for everything but directories, without following a link, and `left` after each directory. */
async function walk(
  { root, isKept }: Surveyed,
  each: (entry: Entry) => Promise<void>,
  left?: (directory: Directory, name: string) => Promise<void>,
): Promise<void> {
  const skips = (name: string) =>
    !configs.has(foldName(name)) && (isKept(name) || foldName(name).startsWith(reservedPrefix));
  const enter = async (directory: Directory, path: string, depth: number): Promise<void> => {
    const entries = await readdir(directory.at(""), { withFileTypes: true });
    const shown = depth > 0 ? entries : entries.filter(({ name }) => !skips(name));
    for (const entry of shown.filter((entry) => !entry.isDirectory())) {
      const { name } = entry;
      const isConfig = depth === 0 && configs.has(foldName(name));
      const steers = entry.isFile() && (isConfig || isInstructions(name));
      await each({ directory, name, path: pathIn(path, name), steers });
    }
    const below = depth < maxDepth ? shown.filter((entry) => entry.isDirectory()) : [];
    await inBatches(below, depth < 2 ? parallel : 1, async ({ name }) => {
      const at = pathIn(path, name);
      // A process of the command may have replaced or removed it.
      const child = await directory.enter(name, at).catch(() => undefined);
      if (child) await enter(child, at, depth + 1).finally(() => child.close());
      await left?.(directory, name);
    });
  };
  await enter(root, "", 0);
}

function tooMany(count: number): RivuletError {
  const message = `The workspace has ${count} AGENTS.md files in directories, more than ${maxNested} cannot be kept read-only.`;
  const hint = "Remove some of them, or give the agent a smaller workspace.";
  return new RivuletError("sandbox_failed", message, { hint });
}
