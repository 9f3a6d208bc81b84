import { type BigIntStats, constants, existsSync } from "node:fs";
import { access, type FileHandle, lchown, lstat, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { notADirectory, notAFile, notFound, notRegular } from "./file-error.ts";
import type { Place } from "./path.ts";

/**
 * A directory that was reached from the root without following a link. On Linux a handle pins it, so paths from `at`
 * stay in it even if its own path changes; elsewhere `holds` detects such a change.
 */
export interface Directory {
  /** The handle that pins it, if any. */
  readonly fd?: number;
  /** Returns the system path of an entry; "" is the directory itself. */
  at(name: string): string;
  /** Opens a subdirectory; `path` names it in errors. */
  enter(name: string, path: string): Promise<Directory>;
  /** Returns whether the path still leads to this directory and, if given, to the opened entry. */
  holds(opened?: { readonly name: string; readonly stats: BigIntStats }): Promise<boolean>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The root directory on the disk. */
export interface Root {
  readonly path: string;
  readonly held: boolean;
  /** The user that new files and directories are given to; absent: the user of this process. */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

// Some systems lack these flags; there `holds` detects a swapped path.
const noFollow = constants.O_NOFOLLOW ?? 0;
const noWait = (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);
const directoryOnly = constants.O_DIRECTORY ?? 0;

const maxAttempts = 10; // for a file that other processes keep replacing, without handles

/** Whether this system can enter a directory through a handle on it. */
export const canHold = process.platform === "linux" && existsSync("/proc/self/fd");

/** Opens the directory of a place, or its parent with `above`; `create` makes missing directories. The caller closes it. */
export async function openDirectory(
  { path: root, held, owner }: Root,
  { base, names, path }: Pick<Place, "base" | "names" | "path">,
  { above = false, create = false } = {},
): Promise<Directory> {
  let directory = held ? heldDirectory(await open(root, directoryOnly)) : foundDirectory(root, []);
  const steps = [...base, ...(above ? names.slice(0, -1) : names)];
  for (const [index, name] of steps.entries()) {
    const parent = directory;
    const depth = index + 1 - base.length;
    const stepPath = depth > 0 ? names.slice(0, depth).join("/") : path;
    try {
      directory = await parent.enter(name, stepPath).catch(async (error: { code?: string }) => {
        if (!create || error.code !== "not_found") throw error;
        await makeDirectory(parent, name, owner);
        return parent.enter(name, stepPath);
      });
    } finally {
      await parent.close();
    }
  }
  return directory;
}

/** Opens a regular file for reading. Never follows a link and never blocks on a pipe. The caller closes it. */
export async function openFile(directory: Directory, name: string, path: string) {
  const at = directory.at(name);
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const flags = constants.O_RDONLY | noFollow | noWait;
    const handle = await open(at, flags).catch(throwOpenError(at, path));
    const stats = await confirmOpen(directory, name, handle, (stats) => {
      if (stats.isDirectory()) throw notAFile(path);
      if (!stats.isFile()) throw notRegular(path, false);
    });
    if (stats) return { handle, stats };
  }
  throw notRegular(path, true);
}

/** Creates a file for writing; fails if it exists. The caller closes it. */
export async function createFile(directory: Directory, name: string): Promise<FileHandle> {
  if (!(await directory.holds())) throw notRegular(name, true);
  const { O_CREAT, O_EXCL, O_WRONLY } = constants;
  const handle = await open(directory.at(name), O_CREAT | O_EXCL | O_WRONLY | noFollow);
  if (await confirmOpen(directory, name, handle)) return handle;
  throw notRegular(name, true);
}

/** Returns the stats of an open file. Closes it if `check` throws or its path no longer leads to it. */
async function confirmOpen(
  directory: Directory,
  name: string,
  handle: FileHandle,
  check: (stats: BigIntStats) => void = () => {},
): Promise<BigIntStats | undefined> {
  let isConfirmed = false;
  try {
    const stats = await handle.stat({ bigint: true });
    check(stats);
    isConfirmed = await directory.holds({ name, stats });
    return isConfirmed ? stats : undefined;
  } finally {
    if (!isConfirmed) await handle.close();
  }
}

/** For `catch`: maps system errors with this code to undefined. */
export function ignoreCode(code: string): (error: unknown) => undefined {
  return (error) => {
    if (errnoOf(error) !== code) throw error;
  };
}

/** Returns the code of a system error, such as ENOENT; "" when it has none. */
export function errnoOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return typeof code === "string" ? code : "";
}

async function makeDirectory(parent: Directory, name: string, owner: Root["owner"]): Promise<void> {
  try {
    await mkdir(parent.at(name));
    if (owner) await lchown(parent.at(name), owner.uid, owner.gid);
  } catch (error) {
    return ignoreCode("EEXIST")(error);
  }
  await parent.sync();
}

function heldDirectory(handle: FileHandle): Directory {
  const at = (name: string) => `/proc/self/fd/${handle.fd}${name === "" ? "" : `/${name}`}`;
  return {
    fd: handle.fd,
    at,
    async enter(name, path) {
      const child = open(at(name), directoryOnly | noFollow).catch(throwOpenError(at(name), path));
      return heldDirectory(await child);
    },
    holds: async () => true,
    sync: () => handle.sync(),
    close: () => handle.close(),
  };
}

type Step = { readonly at: string; readonly stats: BigIntStats };

function foundDirectory(path: string, steps: readonly Step[]): Directory {
  const at = (name: string) => join(path, name);
  return {
    at,
    async enter(name, path) {
      const child = at(name);
      const stats = await lstat(child, { bigint: true }).catch(throwOpenError(child, path));
      if (!stats.isDirectory()) throw wrongType(stats, path);
      await access(child, constants.R_OK);
      return foundDirectory(child, [...steps, { at: child, stats }]);
    },
    async holds(opened) {
      const last = opened ? [{ at: at(opened.name), stats: opened.stats }] : [];
      for (const { at: step, stats } of [...steps, ...last]) {
        const now = await lstat(step, { bigint: true }).catch(() => undefined);
        if (now?.dev !== stats.dev || now.ino !== stats.ino) return false;
      }
      return true;
    },
    sync: async () => {},
    close: async () => {},
  };
}

/** For `catch` after opening: translates the system error by the current type of the entry. */
function throwOpenError(at: string, path: string): (error: unknown) => Promise<never> {
  return async (error) => {
    const code = errnoOf(error);
    if (code === "ENOENT") throw notFound(path);
    if (!["ELOOP", "EMLINK", "ENOTDIR", "ENXIO", "EOPNOTSUPP"].includes(code)) throw error;
    const stats = await lstat(at, { bigint: true }).catch(() => undefined);
    throw stats ? wrongType(stats, path) : notFound(path);
  };
}

function wrongType(stats: BigIntStats, path: string): Error {
  return stats.isFile() ? notADirectory(path) : notRegular(path, stats.isSymbolicLink());
}
