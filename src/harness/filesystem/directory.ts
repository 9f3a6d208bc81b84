import { type BigIntStats, constants, existsSync } from "node:fs";
import { access, type FileHandle, lstat, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { notADirectory, notAFile, notFound, notRegular } from "./file-error.ts";
import type { Place } from "./path.ts";

/**
 * A directory that was reached from the root without following a link. Where the system has handles for it, what is
 * done through `at` is done in that very directory, whatever has become of its path; elsewhere `holds` tells.
 */
export interface Directory {
  /** How the system is asked for what has this name in it; "" is the directory itself. */
  at(name: string): string;
  /** The directory of this name in it; `path` is what a model calls it. */
  enter(name: string, path: string): Promise<Directory>;
  /** Whether its path still leads to it and, when something in it was opened, that still has its name. */
  holds(opened?: { readonly name: string; readonly stats: BigIntStats }): Promise<boolean>;
  /** Makes its entries durable. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The root of the files on the disk. */
export interface Root {
  readonly path: string;
  /** Whether directories are held by handles. */
  readonly held: boolean;
}

// Not every system has these; where they are missing, `holds` notices.
const noFollow = constants.O_NOFOLLOW ?? 0;
const noWait = (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);
const directoryOnly = constants.O_DIRECTORY ?? 0;

const maxAttempts = 10; // for a file that others replace all the time, where nothing can be held

/** Whether this system lets a directory be entered by a handle on it. */
export const canHold = process.platform === "linux" && existsSync("/proc/self/fd");

/** Opens the directory of a place, or the one above it; with `create` what is missing is made. The caller closes it. */
export async function openDirectory(
  root: Root,
  { base, names, path }: Pick<Place, "base" | "names" | "path">,
  { above = false, create = false } = {},
): Promise<Directory> {
  let directory = await openRoot(root);
  const steps = [...base, ...(above ? names.slice(0, -1) : names)];
  for (const [index, name] of steps.entries()) {
    const parent = directory;
    const depth = index + 1 - base.length;
    const called = depth > 0 ? names.slice(0, depth).join("/") : path;
    try {
      directory = await parent.enter(name, called).catch(async (error: { code?: string }) => {
        if (!create || error.code !== "not_found") throw error;
        await makeDirectory(parent, name);
        return parent.enter(name, called);
      });
    } finally {
      await parent.close();
    }
  }
  return directory;
}

/** A regular file, open for reading. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
}

/** Opens a regular file; never follows a link, and never waits for what is a pipe. The caller closes it. */
export async function openFile(
  directory: Directory,
  name: string,
  path: string,
): Promise<OpenFile> {
  const at = directory.at(name);
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const handle = await open(at, constants.O_RDONLY | noFollow | noWait).catch(refusing(at, path));
    let isTaken = false;
    try {
      const stats = await handle.stat({ bigint: true });
      if (stats.isDirectory()) throw notAFile(path);
      if (!stats.isFile()) throw notRegular(path, false);
      isTaken = await directory.holds({ name, stats });
      if (isTaken) return { handle, stats };
    } finally {
      if (!isTaken) await handle.close();
    }
  }
  throw notRegular(path, true);
}

/** Creates a file that must not be there yet, open for writing. The caller closes it. */
export async function createFile(directory: Directory, name: string): Promise<FileHandle> {
  if (!(await directory.holds())) throw notRegular(name, true);
  const { O_CREAT, O_EXCL, O_WRONLY } = constants;
  const handle = await open(directory.at(name), O_CREAT | O_EXCL | O_WRONLY | noFollow);
  let isTaken = false;
  try {
    const stats = await handle.stat({ bigint: true });
    isTaken = await directory.holds({ name, stats });
    if (isTaken) return handle;
  } finally {
    if (!isTaken) await handle.close();
  }
  throw notRegular(name, true);
}

/** For `catch`: takes an error of one of these kinds for undefined. */
export function ignoring(...codes: readonly string[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(errnoOf(error))) throw error;
  };
}

/** The code of an error, such as ENOENT; "" when it has none. */
export function errnoOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return typeof code === "string" ? code : "";
}

async function makeDirectory(parent: Directory, name: string): Promise<void> {
  try {
    await mkdir(parent.at(name));
  } catch (error) {
    return ignoring("EEXIST")(error);
  }
  await parent.sync();
}

async function openRoot({ path, held }: Root): Promise<Directory> {
  return held ? heldDirectory(await open(path, directoryOnly)) : foundDirectory(path, []);
}

function heldDirectory(handle: FileHandle): Directory {
  const at = (name: string) => `/proc/self/fd/${handle.fd}${name === "" ? "" : `/${name}`}`;
  return {
    at,
    async enter(name, path) {
      const below = open(at(name), directoryOnly | noFollow).catch(refusing(at(name), path));
      return heldDirectory(await below);
    },
    holds: async () => true,
    sync: () => handle.sync(),
    close: () => handle.close(),
  };
}

/** What was found at one step of the way to a directory. */
interface Step {
  readonly at: string;
  readonly stats: BigIntStats;
}

function foundDirectory(path: string, way: readonly Step[]): Directory {
  const at = (name: string) => join(path, name);
  return {
    at,
    async enter(name, path) {
      const below = at(name);
      const stats = await lstat(below, { bigint: true }).catch(refusing(below, path));
      if (!stats.isDirectory()) throw asFound(stats, path);
      await access(below, constants.R_OK);
      return foundDirectory(below, [...way, { at: below, stats }]);
    },
    async holds(opened) {
      const last = opened ? [{ at: at(opened.name), stats: opened.stats }] : [];
      for (const { at: step, stats } of [...way, ...last]) {
        const now = await lstat(step, { bigint: true }).catch(() => undefined);
        if (now?.dev !== stats.dev || now.ino !== stats.ino) return false;
      }
      return true;
    },
    sync: async () => {},
    close: async () => {},
  };
}

/** For `catch` after an opening: the error, said of what is there now. */
function refusing(at: string, path: string): (error: unknown) => Promise<never> {
  return async (error) => {
    const code = errnoOf(error);
    if (code === "ENOENT") throw notFound(path);
    if (!["ELOOP", "EMLINK", "ENOTDIR", "ENXIO", "EOPNOTSUPP"].includes(code)) throw error;
    const stats = await lstat(at, { bigint: true }).catch(() => undefined);
    throw stats ? asFound(stats, path) : notFound(path);
  };
}

/** The error for what was found where something else is needed. */
export function asFound(stats: BigIntStats, path: string): Error {
  return stats.isFile() ? notADirectory(path) : notRegular(path, stats.isSymbolicLink());
}
