import { setImmediate } from "node:timers/promises";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Field, type Fields, readArgument, readOptions } from "../../base/options.ts";
import type { Shell, ShellRunner } from "../sandbox/jail.ts";
import {
  fileError,
  notADirectory,
  notAFile,
  notFound,
  notRegular,
  quotePath,
  tooLarge,
} from "./file-error.ts";
import { compileGlob } from "./glob.ts";
import { layeredVolume } from "./layers.ts";
import {
  byPath,
  isUsableName,
  layerOf,
  type Namespace,
  type Place,
  resolveForWriting,
  resolvePath,
  viewOf,
} from "./path.ts";
import { controlFiles } from "./steering.ts";

/** An agent's files. Paths are relative to the root with `/` between names. Errors are written for a model. */
export interface Filesystem {
  /** Returns the files of one user, session or agent: a layer of its own, where it writes, over these files. */
  within(namespace: Namespace): Filesystem;
  /** Returns a filesystem with this directory as its root; it cannot reach anything above. */
  below(path: string): Filesystem;
  /** Returns the path as results show it; throws like every method if it is invalid or outside. */
  normalize(path: string): string;
  /** Resolves to undefined when the path does not exist. */
  stat(path: string): Promise<FileStat | undefined>;
  /**
   * Returns a synchronous function whose value changes when the file or directory at the path changes, appears or
   * disappears. Absent if the storage cannot tell at once.
   */
  track?(path: string): () => string;
  read(path: string): Promise<FileContent>;
  /** Creates or atomically replaces a file, with missing directories; durable when it resolves. */
  write(path: string, data: string | Uint8Array, options?: OnVersion): Promise<WrittenFile>;
  /** Removes a file, or a directory with everything in it. */
  remove(path: string): Promise<void>;
  /** Moves a file or directory to a path that does not exist; not atomic: a crash can leave both. */
  rename(from: string, to: string): Promise<void>;
  list(path: string): Promise<Listing>;
  /** Finds files whose path relative to `options.path` matches. */
  glob(pattern: string, options?: SearchOptions): Promise<GlobResult>;
  grep(query: GrepQuery, options?: GrepOptions): Promise<GrepResult>;
  /** Runs commands that see the same files; absent if nothing can be executed. */
  readonly shell?: Shell;
}

/** The rule for a filesystem. */
export const filesystemField = is.withFunctions(
  ...["within", "below", "stat", "read", "write", "remove", "list", "glob", "grep"],
);

/** The state of a path. `other` is never opened: a symbolic link, pipe, device or socket. */
export interface FileStat {
  readonly path: string;
  readonly type: "file" | "directory" | "other";
  /** In bytes; 0 unless it is a file. */
  readonly size: number;
  /** Milliseconds since the epoch; 0 when unknown. */
  readonly modifiedAt: number;
}

/** The content of a file. */
export interface FileContent {
  readonly path: string;
  readonly data: Uint8Array;
  /** Changes with the content; used by conditional writes. */
  readonly version: string;
}

/** The condition of a write: it throws `conflict` unless the file has this version (null: does not exist). */
export interface OnVersion {
  readonly ifVersion?: string | null;
}

/** The result of a write. */
export interface WrittenFile {
  readonly path: string;
  readonly version: string;
  readonly created: boolean;
}

/** The entries of a directory, ordered by path. */
export interface Listing {
  readonly entries: readonly FileStat[];
  /** True when the directory has more entries. */
  readonly cut: boolean;
}

/** Where to search. */
export interface SearchOptions {
  /** A directory, or for grep also a file; defaults to the root. */
  readonly path?: string;
  readonly signal?: AbortSignal;
}

/** Why a search is incomplete. */
export type CutBy = "limit" | "time";

/** Sorted paths of files. */
export interface GlobResult {
  readonly paths: readonly string[];
  readonly cutBy?: CutBy;
}

/** The pattern of a search by line. */
export interface GrepQuery {
  readonly pattern: string;
  /** Treats the pattern as text instead of a regular expression. */
  readonly literal?: boolean;
  readonly ignoreCase?: boolean;
}

/** Where to look. */
export interface GrepOptions extends SearchOptions {
  /** Searches only files whose path matches, or whose name matches if the glob has no `/`. */
  readonly glob?: string;
}

/** A matching line; long lines are cut. */
export interface GrepMatch {
  readonly path: string;
  /** Starts at 1. */
  readonly line: number;
  readonly text: string;
}

/** Matching lines, ordered by path and line. */
export interface GrepResult {
  readonly matches: readonly GrepMatch[];
  /** The number of files that were too large to search. */
  readonly tooLarge: number;
  readonly cutBy?: CutBy;
}

/** The default limits. */
export const fileLimits = {
  /** The maximum size of a file that is read, written or searched. */
  fileBytes: 10 * 1024 * 1024,
  listEntries: 10_000,
  globPaths: 10_000,
  globMs: 5_000,
  grepMatches: 10_000,
  grepMs: 2_000,
};

/** The limits of a filesystem. */
export type FileLimits = Readonly<typeof fileLimits>;

/** Storage for files, such as a disk directory or a store. It gets resolved places and never a model's path. */
export interface Volume {
  /** Absolute paths that callers may use for a place; absent: none. */
  absolute?(names: readonly string[]): readonly string[];
  stat(place: Place): Promise<FileStat | undefined>;
  /** See `Filesystem.track`; the value is "" while the place does not exist. */
  track?(place: Place): () => string;
  read(place: Place): Promise<FileContent>;
  /** Creates or replaces a file; a new one gets the permissions of `like`. */
  write(
    place: Place,
    data: Uint8Array,
    options: OnVersion & { like?: Place },
  ): Promise<WrittenFile>;
  /** Removes a file, or a directory with everything in it. */
  remove(place: Place): Promise<void>;
  /** Returns at most `limit` entries of a directory, in any order. */
  list(place: Place, options: { limit: number; accepts: Accepts }): Promise<Listing>;
  /** Visits every file below a directory, in batches. */
  walk(place: Place, walk: Walk): Promise<void>;
  /** Its directory on this machine, if it is one. */
  readonly directory?: string;
  /** Runs commands; absent if nothing can be executed. */
  readonly runner?: ShellRunner;
}

/** Selects the entries of a listing or walk; a walk does not enter a directory that is not accepted. */
export type Accepts = (name: string, path: string) => boolean;

/** The options of a walk. */
export interface Walk {
  readonly accepts: Accepts;
  visit(files: readonly FoundFile[]): Promise<void>;
  /** Called often; true ends the walk. */
  isOver(): boolean;
}

/** A file that a walk has found. */
export interface FoundFile {
  readonly path: string;
  /** Its version, if the storage knows it without reading the file. */
  readonly version?: string;
  /** Reads the file. Never rejects; call it before `visit` returns. */
  read(): Promise<Uint8Array | "too large" | "unreadable">;
}

/** Options of every filesystem. */
export interface FilesystemOptions {
  /** Names at the root that are read-only; defaults to what steers the agent. */
  readonly readOnly?: readonly string[];
  readonly limits?: Partial<FileLimits>;
  /** False: do not use ripgrep; a string: the program to use; defaults to the packaged one. */
  readonly ripgrep?: string | false;
}

const limitFields: Fields<FileLimits> = {
  fileBytes: is.count,
  listEntries: is.count,
  globPaths: is.count,
  globMs: is.number("a number of milliseconds"),
  grepMatches: is.count,
  grepMs: is.number("a number of milliseconds"),
};
/** The rules for the options of every filesystem. */
export const filesystemFields: Fields<FilesystemOptions> = {
  readOnly: is.listOf(is.name),
  limits: is.options(limitFields),
  ripgrep: is.orFalse(is.name),
};
const searchFields: Fields<SearchOptions> = { path: is.text, signal: is.signal };
const grepFields: Fields<GrepOptions> = { ...searchFields, glob: is.text };
const queryFields: Fields<GrepQuery> = {
  pattern: is.required(is.text),
  literal: is.flag,
  ignoreCase: is.flag,
};
const versionFields: Fields<OnVersion> = {
  ifVersion: is.or(is.text, "null", (value) => value === null),
};
const namespaceFields: Fields<Namespace> = {
  scope: is.required(is.oneOf("session", "user", "agent")),
  id: is.required(is.text),
};
const contentField: Field = {
  fits: (value) => typeof value === "string" || value instanceof Uint8Array,
  expected: "a string or a Uint8Array",
};

const maxBlockMs = 10;

/** The property of a filesystem that builds the same files on a changed volume; a copy does not have it. */
const rebuildKey = Symbol("rebuild");
type Rebuild = (change: ChangeVolume) => Filesystem | undefined;
type ChangeVolume = (volume: Volume, options: FilesystemOptions) => Volume | undefined;

/** Returns the same files on a changed volume; undefined if `change` returns none, or the filesystem has no volume. */
export function withVolume(files: Filesystem, change: ChangeVolume): Filesystem | undefined {
  return (files as { readonly [rebuildKey]?: Rebuild })[rebuildKey]?.(change);
}

/** Creates a filesystem on a volume. It resolves every path, so that the volume gets only checked places. */
export function volumeFilesystem(
  wholeVolume: Volume,
  options: FilesystemOptions,
  { namespace, below = [] }: { namespace?: Namespace; below?: readonly string[] } = {},
): Filesystem {
  const limits = { ...fileLimits, ...options.limits };
  const volume = namespace ? layeredVolume(wholeVolume, layerOf(namespace)) : wholeVolume;
  const { track } = volume;
  const view = viewOf(options.readOnly, below, volume.absolute?.(below));

  async function findStart(path: string): Promise<{ place: Place; isFile: boolean }> {
    const place = resolvePath(path, view);
    const stat = await volume.stat(place);
    if (!stat) throw notFound(place.path);
    if (stat.type === "other") throw notRegular(place.path, false);
    return { place, isFile: stat.type === "file" };
  }

  /** Returns the path of a file, or of all files below a directory; throws unless all can be written. */
  async function writableFiles(place: Place): Promise<readonly string[]> {
    if ((await findStart(place.path)).isFile) return [place.path];
    const paths: string[] = [];
    const visit = async (files: readonly FoundFile[]) => {
      for (const { path } of files) paths.push(resolveForWriting(path, view).path);
    };
    await volume.walk(place, { accepts: isUsableName, visit, isOver: () => false });
    return paths;
  }

  const glob: Filesystem["glob"] = async (pattern, options = {}) => {
    const { path = "", signal } = readOptions("glob()", options, searchFields);
    const { prefix, matches } = compileGlob(pattern);
    const { place, isFile } = await findStart(path);
    if (isFile) throw notADirectory(place.path);
    const start = resolvePath([...place.names, ...prefix].join("/"), view);
    if ((await volume.stat(start))?.type !== "directory") return { paths: [] };
    const deadline = performance.now() + limits.globMs;
    const paths: string[] = [];
    let cutBy: CutBy | undefined;
    const isOver = (): boolean => {
      if (performance.now() > deadline) cutBy ??= "time";
      return cutBy !== undefined || signal?.aborted === true;
    };
    const isMatch = (file: FoundFile) => matches(relativeTo(place, file.path));
    const visit = async (files: readonly FoundFile[]) => {
      const found = await filterFiles(files, isMatch, isOver);
      const room = limits.globPaths - paths.length;
      if (found.length > room) cutBy ??= "limit";
      for (const { path } of found.slice(0, room)) paths.push(path);
    };
    await volume.walk(start, { accepts: isUsableName, visit, isOver });
    signal?.throwIfAborted();
    return { paths: paths.sort(), ...(cutBy && { cutBy }) };
  };

  const grep: Filesystem["grep"] = async (query, where = {}) => {
    const { path = "", glob: only, signal } = readOptions("grep()", where, grepFields);
    const pattern = only === undefined ? undefined : compileGlob(only);
    const { place, isFile } = await findStart(path);
    const isMatch = ({ path }: FoundFile) => {
      const isPath = only?.includes("/");
      const name = isPath ? relativeTo(place, path) : path.slice(path.lastIndexOf("/") + 1);
      return pattern?.matches(name) ?? true;
    };
    const read = () => volume.read(place).then(({ data }) => data, unreadBecause);
    const { grepFiles } = await import("./grep.ts"); // few programs search, and it starts processes
    return grepFiles(readOptions("grep()", query, queryFields), {
      limits,
      ripgrep: options.ripgrep ?? true,
      signal,
      walk(visit, isOver) {
        if (isFile) return visit([{ path: place.path, read }]);
        const visitMatches = async (files: readonly FoundFile[]) =>
          visit(await filterFiles(files, isMatch, isOver));
        return volume.walk(place, { accepts: isUsableName, visit: visitMatches, isOver });
      },
    });
  };

  const { runner } = wholeVolume;
  const filesystem: Filesystem = {
    within(given) {
      const namespace = readOptions("within()", given, namespaceFields);
      return volumeFilesystem(wholeVolume, options, { namespace, below });
    },
    below(path) {
      const names = [...below, ...resolvePath(path, view).names];
      runner?.noteRoot(names);
      return volumeFilesystem(wholeVolume, options, {
        ...(namespace && { namespace }),
        below: names,
      });
    },
    normalize: (path) => resolvePath(path, view).path,
    stat: async (path) => volume.stat(resolvePath(path, view)),
    ...(track && { track: (path: string) => track(resolvePath(path, view)) }),
    read: async (path) => volume.read(fileOnly(resolvePath(path, view))),
    async write(path, data, options = {}) {
      const condition = readOptions("write()", options, versionFields);
      readArgument("data", data, is.required(contentField));
      const place = fileOnly(resolveForWriting(path, view));
      const bytes = typeof data === "string" ? Buffer.from(data) : data;
      if (bytes.byteLength > limits.fileBytes) throw tooLarge(place.path, limits.fileBytes);
      return volume.write(place, bytes, condition);
    },
    async remove(path) {
      const place = fileOnly(resolveForWriting(path, view));
      await writableFiles(place);
      await volume.remove(place);
    },
    async rename(from, to) {
      const source = fileOnly(resolveForWriting(from, view));
      const target = fileOnly(resolveForWriting(to, view));
      const paths = await writableFiles(source);
      if (`${target.path}/`.startsWith(`${source.path}/`) || (await volume.stat(target))) {
        const message = `${quotePath(target.path)} exists or is inside ${quotePath(source.path)}.`;
        throw fileError("conflict", message, "Choose another path.");
      }
      for (const path of paths) {
        const like = resolvePath(path, view);
        const { data } = await volume.read(like);
        const place = resolveForWriting(target.path + path.slice(source.path.length), view);
        await volume.write(place, data, { ifVersion: null, like });
      }
      await volume.remove(source);
    },
    async list(path) {
      const options = { limit: limits.listEntries, accepts: isUsableName };
      const { entries, cut } = await volume.list(resolvePath(path, view), options);
      return { entries: entries.toSorted(byPath), cut };
    },
    glob,
    grep,
  };
  const rebuild: Rebuild = (change) => {
    const changed = change(wholeVolume, options);
    return (
      changed && volumeFilesystem(changed, options, { ...(namespace && { namespace }), below })
    );
  };
  Object.defineProperty(filesystem, rebuildKey, { value: rebuild });
  if (!runner) return filesystem;
  const layer = namespace ? layerOf(namespace) : [];
  const place = { layer, base: below, readOnly: options.readOnly ?? controlFiles };
  return Object.assign(filesystem, { shell: runner.shellFor(filesystem, place) });
}

/** For `catch`: maps a read error to the result of `FoundFile.read`. */
export function unreadBecause(error: unknown): "too large" | "unreadable" {
  return error instanceof RivuletError && error.code === "too_large" ? "too large" : "unreadable";
}

function fileOnly(place: Place): Place {
  if (place.names.length > 0) return place;
  throw notAFile(place.path);
}

/** Filters files until `isOver`. A glob may be slow, so it yields to the event loop in between. */
async function filterFiles(
  files: readonly FoundFile[],
  isMatch: (file: FoundFile) => boolean,
  isOver: () => boolean,
): Promise<readonly FoundFile[]> {
  const found: FoundFile[] = [];
  let since = performance.now();
  for (const file of files) {
    if (performance.now() - since > maxBlockMs) {
      await setImmediate();
      since = performance.now();
    }
    if (isOver()) break;
    if (isMatch(file)) found.push(file);
  }
  return found;
}

function relativeTo(directory: Place, path: string): string {
  return directory.path === "" ? path : path.slice(directory.path.length + 1);
}
