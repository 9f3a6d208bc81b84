import { lstat, readdir, readFile, unlink, writeFile } from "node:fs/promises";
import { RivuletError } from "../../protocol/error.ts";
import { type Directory, ignoreCode } from "../filesystem/directory.ts";
import { foldName, isInstructions, maxDepth, pathIn, reservedPrefix } from "../filesystem/path.ts";
import { configFiles } from "../filesystem/steering.ts";

/** The files with instructions in a workspace before its commands run. */
export interface Instructions {
  /** The paths of those in directories; a command gets them read-only. */
  readonly nested: readonly string[];
  /**
   * Removes those that have appeared and that no command has read-only, and restores those that were changed by another
   * name; returns their paths.
   */
  sweep(root: Directory, isBound: (path: string) => boolean): Promise<readonly string[]>;
}

/** A file that has several names: a command could change it by another one. */
interface Linked {
  readonly data: Uint8Array;
  readonly mode: number;
}

const maxNested = 256;
const configs = new Set(configFiles);

/** Finds the instructions in a workspace. `isKept`: names at the root that commands cannot change at all. */
export async function findInstructions(
  root: Directory,
  isKept: (name: string) => boolean,
): Promise<Instructions> {
  const known = new Set<string>();
  const linked = new Map<string, Linked>();
  const nested: string[] = [];
  await visit(root, isKept, async (directory, name, path) => {
    known.add(path);
    const stats = await lstat(directory.at(name));
    if (path.includes("/")) nested.push(path);
    if (stats.nlink > 1)
      linked.set(path, { data: await readFile(directory.at(name)), mode: stats.mode });
  });
  if (nested.length > maxNested) throw tooMany(nested.length);

  return {
    nested,
    async sweep(root, isBound) {
      const found: string[] = [];
      await visit(root, isKept, async (directory, name, path) => {
        const at = directory.at(name);
        if (!known.has(path) && !isBound(path)) {
          await unlink(at).catch(ignoreCode("ENOENT"));
          found.push(path);
        }
        const before = linked.get(path);
        if (!before || (await readFile(at)).equals(before.data)) return;
        // A new file, which has no other name.
        await unlink(at);
        await writeFile(at, before.data, { flag: "wx", mode: before.mode });
        found.push(path);
      });
      return found;
    },
  };
}

/** Calls `each` for every regular file that holds instructions or is a config, without following a link. */
async function visit(
  root: Directory,
  isKept: (name: string) => boolean,
  each: (directory: Directory, name: string, path: string) => Promise<void>,
): Promise<void> {
  const enter = async (directory: Directory, path: string, depth: number): Promise<void> => {
    for (const entry of await readdir(directory.at(""), { withFileTypes: true })) {
      const { name } = entry;
      const isConfig = depth === 0 && configs.has(foldName(name));
      const isFixed = isKept(name) || foldName(name).startsWith(reservedPrefix);
      if (depth === 0 && isFixed && !isConfig) continue;
      const at = pathIn(path, name);
      if (entry.isFile() && (isInstructions(name) || isConfig)) await each(directory, name, at);
      if (!entry.isDirectory() || depth >= maxDepth) continue;
      // A process of the command may have replaced or removed it.
      const child = await directory.enter(name, at).catch(() => undefined);
      if (child) await enter(child, at, depth + 1).finally(() => child.close());
    }
  };
  await enter(root, "", 0);
}

function tooMany(count: number): RivuletError {
  const message = `The workspace has ${count} AGENTS.md files in directories, more than ${maxNested} cannot be kept read-only.`;
  const hint = "Remove some of them, or give the agent a smaller workspace.";
  return new RivuletError("sandbox_failed", message, { hint });
}
