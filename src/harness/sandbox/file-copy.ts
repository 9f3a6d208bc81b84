import { type BigIntStats, rmSync } from "node:fs";
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rmdir,
  unlink,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256 } from "../../base/plain.ts";
import {
  createFile,
  type Directory,
  ignoreCode,
  openDirectory,
  openFile,
} from "../filesystem/directory.ts";
import { valueOnCodes } from "../filesystem/file-error.ts";
import type { FilesystemOptions } from "../filesystem/filesystem.ts";
import { type LocalVolume, localVolume } from "../filesystem/local.ts";
import { maxDepth, pathIn, reservedPrefix } from "../filesystem/path.ts";
import { isAlive, placeOf } from "./copies.ts";
import { jailFailed, type Owner } from "./jail.ts";

/** A file of a copy, as it was copied. */
export interface CopiedFile {
  /** Its version where it comes from; absent for a file whose content the commands must not see. */
  readonly version: string | undefined;
  /** Changes with the file on the disk. */
  readonly stamp: string;
  readonly hash: string;
  readonly size: number;
}

/** The content of a copy on the disk. */
export interface CopyScan {
  /** Its regular files. `changedAt` is in milliseconds since the epoch. */
  readonly files: ReadonlyMap<string, { readonly stamp: string; readonly changedAt: number }>;
  readonly directories: ReadonlySet<string>;
  /** Links, special files, and what is too deep. */
  readonly others: readonly string[];
}

/** A private directory of this machine with a copy of files that are kept elsewhere. */
export interface FileCopy {
  readonly local: LocalVolume;
  readonly files: Map<string, CopiedFile>;
  /** Whether it is where it was created; another process may have removed it. */
  exists(): Promise<boolean>;
  /** Lists what is on the disk; throws if it does not exist. */
  scan(): Promise<CopyScan>;
  read(path: string, maxBytes: number): Promise<Uint8Array | undefined>;
  write(path: string, data: Uint8Array, version: string | undefined): Promise<void>;
  /** Removes these files, and the directories that `isNeeded` does not accept. */
  prune(
    scan: CopyScan,
    paths: readonly string[],
    isNeeded: (directory: string) => boolean,
  ): Promise<void>;
  remove(): Promise<void>;
}

const prefix = "rivulet-command";
const live = new Set<string>();
let old: Promise<void> | undefined;

/** Returns the hash of a file's content. */
export const hashOf = (data: Uint8Array): string => sha256(data);

/** Creates an empty copy; the first one of a process removes those of processes that are gone. */
export async function createCopy(
  owner: Owner | undefined,
  { limits }: FilesystemOptions,
): Promise<FileCopy> {
  old ??= removeOldCopies().catch(() => {});
  await old;
  const outer = await mkdtemp(join(tmpdir(), `${prefix}-${process.pid}-${await startOf("self")}-`));
  if (live.size === 0) process.once("exit", removeLive);
  live.add(outer);
  const path = join(outer, "files");
  await mkdir(path, { mode: 0o700 });
  if (owner) {
    await chmod(outer, 0o711); // its owner must get to the files, and nobody can list them
    await chown(path, owner.uid, owner.gid);
  }
  const { ino } = await lstat(outer);
  const local = localVolume(path, limits ? { limits } : {}, owner);
  const files = new Map<string, CopiedFile>();

  async function inParent<T>(at: string, create: boolean, work: (parent: Directory) => Promise<T>) {
    const place = placeOf([], at);
    const parent = await openDirectory(await local.root(), place, { above: true, create });
    return work(parent).finally(() => parent.close());
  }
  const nameIn = (at: string) => at.slice(at.lastIndexOf("/") + 1);

  const exists = async () => (await lstat(outer).catch(() => undefined))?.ino === ino;

  return {
    local,
    files,
    exists,
    async scan() {
      const found: Found = { files: new Map(), directories: new Set(), others: [] };
      await chmod(path, 0o700).catch(throwGone);
      const root = await openDirectory(await local.root(), { base: [], names: [], path: "" });
      await scanDirectory(root, "", 0, found).finally(() => root.close());
      if (!(await exists())) throwGone();
      return found;
    },
    read: (at, maxBytes) =>
      inParent(at, false, async (parent) => {
        if (await grantAccess(parent, nameIn(at), 0o600)) return undefined;
        const { handle, stats } = await openFile(parent, nameIn(at), at);
        const isFit = stats.size <= BigInt(maxBytes);
        return (isFit ? handle.readFile() : Promise.resolve(undefined)).finally(() =>
          handle.close(),
        );
      }),
    write: (at, data, version) =>
      inParent(at, true, async (parent) => {
        const handle = await createFile(parent, nameIn(at));
        try {
          await handle.writeFile(data);
          if (isProgram(data)) await handle.chmod(0o755);
          if (owner) await handle.chown(owner.uid, owner.gid);
          const stamp = stampOf(await handle.stat({ bigint: true }));
          files.set(at, { version, stamp, hash: hashOf(data), size: data.byteLength });
        } finally {
          await handle.close();
        }
      }),
    async prune({ directories }, paths, isNeeded) {
      for (const at of paths) {
        files.delete(at);
        const gone = valueOnCodes(undefined, "not_found");
        await inParent(at, false, (parent) => unlink(parent.at(nameIn(at)))).catch(gone);
      }
      const empty = [...directories].filter((directory) => !isNeeded(directory));
      for (const at of empty.sort((a, b) => b.length - a.length))
        await inParent(at, false, (parent) => rmdir(parent.at(nameIn(at))));
    },
    async remove() {
      await removeTree(outer);
      live.delete(outer);
      if (live.size === 0) process.off("exit", removeLive);
    },
  };
}

function throwGone(cause?: unknown): never {
  throw jailFailed("another process removed the copy of the files", cause);
}

/** The store keeps no modes, so what says that it is a program can be run. */
function isProgram(data: Uint8Array): boolean {
  const start = Buffer.from(data.subarray(0, 4)).toString("latin1");
  return start.startsWith("#!") || start === "\x7fELF";
}

function stampOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

interface Found {
  readonly files: Map<string, { readonly stamp: string; readonly changedAt: number }>;
  readonly directories: Set<string>;
  readonly others: string[];
}

/** All processes of the command are gone, so nothing is replaced meanwhile. */
async function scanDirectory(
  directory: Directory,
  path: string,
  depth: number,
  found: Found,
): Promise<void> {
  for (const { name } of await readdir(directory.at(""), { withFileTypes: true })) {
    if (depth === 0 && name === reservedPrefix) continue;
    const at = pathIn(path, name);
    const stats = await lstat(directory.at(name), { bigint: true }).catch(ignoreCode("ENOENT"));
    if (stats?.isFile()) {
      found.files.set(at, { stamp: stampOf(stats), changedAt: Number(stats.ctimeMs) });
    } else if (!stats?.isDirectory() || depth + 1 >= maxDepth) {
      found.others.push(at); // a name that is no text cannot be found again
    } else {
      found.directories.add(at);
      await grantAccess(directory, name, 0o700);
      const child = await directory.enter(name, at);
      await scanDirectory(child, at, depth + 1, found).finally(() => child.close());
    }
  }
}

/** Undoes a `chmod` of a command that locks this process out; returns whether the entry has gone or is a link. */
async function grantAccess(directory: Directory, name: string, mode: number): Promise<boolean> {
  const stats = await lstat(directory.at(name)).catch(ignoreCode("ENOENT"));
  if (!stats || stats.isSymbolicLink()) return true;
  if ((stats.mode & mode) !== mode) await chmod(directory.at(name), (stats.mode & 0o777) | mode);
  return false;
}

/** Removes a directory with everything in it, however deep, and whatever its modes and names. */
async function removeTree(root: string): Promise<void> {
  const inRoot = (name: Uint8Array) => Buffer.concat([Buffer.from(`${root}/`), name]);
  const entriesOf = (path: string | Buffer) =>
    readdir(path, { withFileTypes: true, encoding: "buffer" });
  let moved = 0;
  for (let entries = await entriesOf(root); entries.length > 0; entries = await entriesOf(root)) {
    for (const entry of entries) {
      const at = inRoot(entry.name);
      if (!entry.isDirectory()) {
        await unlink(at);
        continue;
      }
      await chmod(at, 0o700);
      for (const child of await entriesOf(at)) {
        const below = Buffer.concat([at, Buffer.from("/"), child.name]);
        if (child.isDirectory()) await chmod(below, 0o700);
        // A directory is moved up, because a path has a maximum length.
        if (child.isDirectory()) await rename(below, join(root, `${prefix}-${moved++}`));
        else await unlink(below);
      }
      await rmdir(at);
    }
  }
  await rmdir(root);
}

function removeLive(): void {
  for (const path of live) {
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // The next process removes it.
    }
  }
}

/** Removes the copies of processes that were killed. */
async function removeOldCopies(): Promise<void> {
  const folder = tmpdir();
  for (const name of await readdir(folder)) {
    const [, pid, start] = new RegExp(`^${prefix}-(\\d+)-(\\d+)-`).exec(name) ?? [];
    if (pid === undefined) continue;
    const path = join(folder, name);
    const stats = await lstat(path).catch(ignoreCode("ENOENT"));
    // Another user could have created the name.
    if (!stats?.isDirectory() || stats.uid !== process.getuid?.()) continue;
    const isRemoved = pid === "0";
    if (!isRemoved && isAlive(Number(pid)) && start === (await startOf(pid))) continue;
    const unused = join(folder, `${prefix}-0-0-${crypto.randomUUID()}`);
    // At once, so that a process that cannot be seen from here finds all of its copy or nothing.
    await rename(path, unused)
      .then(() => removeTree(unused))
      .catch(() => {});
  }
}

/** When a process has started, because another one can get its id later; 0 where the system does not say. */
async function startOf(pid: string): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "0";
}
