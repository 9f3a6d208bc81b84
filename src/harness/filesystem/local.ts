import { type BigIntStats, type Dir, type Dirent, lstatSync } from "node:fs";
import { lstat, mkdir, opendir, readdir, realpath, rename, rmdir, unlink } from "node:fs/promises";
import { join, posix, resolve, sep } from "node:path";
import { RivuletError } from "../../base/error.ts";
import {
  type Fields,
  flag,
  name,
  readArgument,
  readOptions,
  required,
} from "../../base/options.ts";
import { sha256 } from "../../base/plain.ts";
import {
  canHold,
  createFile,
  type Directory,
  errnoOf,
  ignoreCode,
  openDirectory,
  openFile,
  type Root,
} from "./directory.ts";
import {
  changed,
  notAFile,
  notFound,
  notRegular,
  quotePath,
  tooLarge,
  valueOnCodes,
} from "./file-error.ts";
import {
  type Accepts,
  type FileStat,
  type Filesystem,
  type FilesystemOptions,
  type FoundFile,
  fileLimits,
  filesystemFields,
  type Listing,
  type OnVersion,
  unreadBecause,
  type Volume,
  volumeFilesystem,
  type Walk,
  type WrittenFile,
} from "./filesystem.ts";
import { type Lock, lockOf } from "./lock.ts";
import { maxDepth, type Place, pathIn, reservedPrefix } from "./path.ts";
import { withRoot } from "./place.ts";

/** Options of a local filesystem. */
export interface LocalFilesystemOptions extends FilesystemOptions {
  /** Whether directories are pinned by open handles; defaults to true where the system supports it (Linux). */
  readonly handles?: boolean;
}

const localFields: Fields<LocalFilesystemOptions> = { ...filesystemFields, handles: flag };
const batchSize = 1_000;
/** How long a change by another process, a command or a person may go unnoticed. */
const lookMs = 50;

/** Creates a filesystem in a directory of this machine, which is created on first use. It never follows a link. */
export function localFilesystem(root: string, given: LocalFilesystemOptions = {}): Filesystem {
  readArgument("root", root, required(name, '"./workspace"'));
  const options = readOptions("localFilesystem()", given, localFields);
  return withRoot(volumeFilesystem(localVolume(resolve(root), options), options), root);
}

/** A volume on a disk. */
export interface LocalVolume extends Volume {
  /** Opens the root directory, which is created on first use. */
  root(): Promise<Root>;
}

/** Creates a volume in a directory; new files are given to `owner`. */
export function localVolume(
  path: string,
  { handles = canHold, limits }: LocalFilesystemOptions,
  owner?: Root["owner"],
): LocalVolume {
  const maxBytes = limits?.fileBytes ?? fileLimits.fileBytes;
  let root: Root | undefined;
  const findRoot = async (): Promise<Root> => {
    if (root) return root;
    await mkdir(path, { recursive: true });
    root = { path: await realpath(path), held: handles, ...(owner && { owner }) };
    return root;
  };
  const lock = lockOf(findRoot);
  /** How often files were changed through this volume. */
  let changes = 0;
  const thatChanges = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } finally {
      changes += 1;
    }
  };

  /** Runs `work` in the directory of a place, or in its parent, and hides the system's error messages. */
  async function inDirectory<T>(
    place: Place,
    options: { readonly above?: boolean; readonly create?: boolean },
    work: (entry: Entry) => Promise<T>,
  ): Promise<T> {
    const { names, path } = place;
    try {
      const directory = await openDirectory(await findRoot(), place, options);
      try {
        return await work({ directory, name: names.at(-1) ?? "", path });
      } finally {
        await directory.close();
      }
    } catch (error) {
      throw error instanceof RivuletError ? error : fileFailed(error, path);
    }
  }

  return {
    root: findRoot,
    directory: path,
    absolute: (names) => (sep === "/" ? [posix.join(path, ...names)] : []),
    async stat(place) {
      if (place.names.length === 0) return rootStat;
      const stat = inDirectory(place, { above: true }, statEntry);
      return stat.catch(valueOnCodes(undefined, "not_found", "not_a_directory"));
    },
    track({ base, names }) {
      const at = join(path, ...base, ...names);
      let seen = { stamp: "", changes: -1, time: 0 };
      return () => {
        const time = performance.now();
        // Each step of an agent asks about a dozen files.
        if (seen.changes !== changes || time - seen.time > lookMs)
          seen = { stamp: stampOf(at), changes, time };
        return seen.stamp;
      };
    },
    read: (place) =>
      inDirectory(place, { above: true }, async (entry) => {
        const data = await readFile(entry, maxBytes);
        return { path: place.path, data, version: contentVersion(data) };
      }),
    async write(place, data, { like, ...condition }) {
      const mode = like && (await inDirectory(like, { above: true }, modeOf));
      const written = inDirectory(place, { above: true, create: true }, (entry) =>
        writeFile(entry, data, condition, lock, maxBytes, mode, owner),
      );
      return thatChanges(written);
    },
    remove: (place) =>
      thatChanges(
        inDirectory(place, { above: true }, async (entry) => {
          await lock(() => removeEntry(entry));
          await entry.directory.sync();
        }),
      ),
    list: (place, options) =>
      inDirectory(place, {}, (entry) => listEntries(entry, options)).catch(
        // A namespace has no directory until its first write.
        valueOnCodes({ entries: [], cut: false }, ...(place.names.length > 0 ? [] : ["not_found"])),
      ),
    async walk(place, walk) {
      const depth = place.names.length;
      const done = inDirectory(place, {}, (entry) => walkFiles(entry, walk, maxBytes, depth));
      return done.catch(valueOnCodes(undefined, "not_found"));
    },
  };
}

/** A name in an open directory, and its path for errors. */
type Entry = { readonly directory: Directory; readonly name: string; readonly path: string };

const rootStat: FileStat = { path: "", type: "directory", size: 0, modifiedAt: 0 };

/** Describes a system error without its message, which names paths of this machine. */
function fileFailed(error: unknown, path: string): RivuletError {
  const code = errnoOf(error);
  const reason = reasons[code] ?? (code || "unknown error");
  const message = `${quotePath(path)} could not be used: ${reason}.`;
  return new RivuletError("file_failed", message, { cause: error });
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the disk is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk is full",
  EMFILE: "too many open files",
  ENFILE: "too many open files",
};

/** Reads a whole file as it was when it was opened. */
async function readFile(entry: Entry, maxBytes: number): Promise<Uint8Array> {
  const { directory, name, path } = entry;
  const { handle, stats } = await openFile(directory, name, path);
  try {
    if (stats.size > BigInt(maxBytes)) throw tooLarge(path, maxBytes);
    const size = Number(stats.size);
    const parts: Uint8Array[] = [];
    let length = 0;
    // One byte more than the size shows whether the file has grown.
    for (let room = size + 1; ; room = Math.max(room, 65_536)) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(room), 0, room, length);
      parts.push(buffer.subarray(0, bytesRead));
      length += bytesRead;
      if (length > maxBytes) throw tooLarge(path, maxBytes);
      // A short read is not the end on every disk; if the file has shrunk, only 0 bytes are.
      if (bytesRead === 0 || (bytesRead < room && length >= size)) break;
    }
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  } finally {
    await handle.close();
  }
}

function contentVersion(data: Uint8Array): string {
  return sha256(data).slice(0, 32);
}

/**
 * Writes a temporary file and renames it, so that readers see the old or the new file. The version check and the rename
 * run under the lock, so that only one of two writers with the same version succeeds.
 */
async function writeFile(
  entry: Entry,
  data: Uint8Array,
  { ifVersion }: OnVersion,
  lock: Lock,
  maxBytes: number,
  modeIfNew: number | undefined,
  owner: Root["owner"],
): Promise<WrittenFile> {
  const { directory, name, path } = entry;
  const oldMode = await modeOf(entry);
  const mode = oldMode ?? modeIfNew;
  const temporary = `${reservedPrefix}-${crypto.randomUUID()}`;
  const handle = await createFile(directory, temporary);
  try {
    await handle.writeFile(data);
    // Through the handle, because the name could lead to another file by now.
    if (mode !== undefined) await handle.chmod(mode);
    if (owner) await handle.chown(owner.uid, owner.gid);
    await handle.sync();
    await lock(async () => {
      if (ifVersion !== undefined) {
        const exists = (await modeOf(entry)) !== undefined;
        const version = exists ? contentVersion(await readFile(entry, maxBytes)) : null;
        if (version !== ifVersion) throw changed(path);
      }
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
  return { path, version: contentVersion(data), created: oldMode === undefined };
}

/** Removes a file, or a directory with everything in it; links are removed, not followed. */
async function removeEntry(entry: Entry): Promise<void> {
  const { directory, name, path } = entry;
  const stats = await lstatEntry(entry);
  if (!stats) throw notFound(path);
  if (!stats.isDirectory()) return unlink(directory.at(name));
  const child = await directory.enter(name, path);
  try {
    for (const below of await readdir(child.at(""))) {
      await removeEntry({ directory: child, name: below, path });
    }
  } finally {
    await child.close();
  }
  await rmdir(directory.at(name)).catch(ignoreCode("ENOTEMPTY")); // a file was written meanwhile
}

async function lstatEntry({ directory, name, path }: Entry): Promise<BigIntStats | undefined> {
  const stats = await lstat(directory.at(name), { bigint: true }).catch(ignoreCode("ENOENT"));
  if (stats && !(await directory.holds())) throw notRegular(path, true);
  return stats;
}

/** Synchronous, because that takes 1 µs. It may follow links: a caller only compares the value. */
function stampOf(at: string): string {
  try {
    const stats = lstatSync(at, { throwIfNoEntry: false });
    return stats ? `${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}` : "";
  } catch (error) {
    const code = errnoOf(error);
    return code === "ENOTDIR" ? "" : code;
  }
}

async function modeOf(entry: Entry): Promise<number | undefined> {
  const stats = await lstatEntry(entry);
  if (stats?.isDirectory()) throw notAFile(entry.path);
  if (stats && !stats.isFile()) throw notRegular(entry.path, stats.isSymbolicLink());
  return stats && Number(stats.mode) & 0o777;
}

async function statEntry(entry: Entry): Promise<FileStat | undefined> {
  const stats = await lstatEntry(entry);
  if (!stats) return undefined;
  const type = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other";
  const size = type === "file" ? Number(stats.size) : 0;
  return { path: entry.path, type, size, modifiedAt: Number(stats.mtimeMs) };
}

async function listEntries(
  { directory, path }: Entry,
  { limit, accepts }: { readonly limit: number; readonly accepts: Accepts },
): Promise<Listing> {
  const entries: FileStat[] = [];
  for await (const batch of entriesOf(directory, path, accepts)) {
    const room = limit - entries.length;
    const stats = batch
      .slice(0, room)
      .map(({ name }) => statEntry({ directory, name, path: pathIn(path, name) }));
    for (const stat of await Promise.all(stats)) if (stat) entries.push(stat);
    if (batch.length > room) return { entries, cut: true };
  }
  if (!(await directory.holds())) throw notRegular(path, true);
  return { entries, cut: false };
}

/** Visits every file below a directory that is `depth` below the root, up to the maximum depth of a path. */
async function walkFiles(
  { directory, path }: Entry,
  { accepts, visit, isOver }: Walk,
  maxBytes: number,
  depth: number,
): Promise<void> {
  const fileOf = (name: string): FoundFile => ({
    path: pathIn(path, name),
    read: () => readFile({ directory, name, path: name }, maxBytes).catch(unreadBecause),
  });
  for await (const batch of entriesOf(directory, path, accepts)) {
    if (isOver()) return;
    const files = batch.flatMap((entry) => (entry.isFile() ? [fileOf(entry.name)] : []));
    if (files.length > 0) await visit(files);
    for (const entry of batch) {
      if (isOver()) return;
      if (!entry.isDirectory() || depth + 2 > maxDepth) continue;
      // Skipped if it is no longer a directory.
      const { name } = entry;
      const child = await directory.enter(name, name).catch(() => undefined);
      if (!child) continue;
      try {
        const below = { directory: child, name, path: pathIn(path, name) };
        await walkFiles(below, { accepts, visit, isOver }, maxBytes, depth + 1);
      } finally {
        await child.close();
      }
    }
  }
}

/** Yields the entries of a directory in batches, to bound the memory for a large one. */
async function* entriesOf(
  directory: Directory,
  path: string,
  accepts: Accepts,
): AsyncGenerator<Dirent[]> {
  const handle: Dir = await opendir(directory.at(""), { bufferSize: batchSize });
  try {
    for (let hasMore = true; hasMore; ) {
      const batch: Dirent[] = [];
      for (let count = 0; count < batchSize && hasMore; count++) {
        const entry = await handle.read();
        if (!entry) hasMore = false;
        else if (accepts(entry.name, pathIn(path, entry.name))) batch.push(entry);
      }
      if (!(await directory.holds())) return;
      yield batch;
    }
  } finally {
    await handle.close();
  }
}
