import { setImmediate } from "node:timers/promises";
import { notADirectory, notAFile, notFound, notRegular, tooLarge } from "./file-error.ts";
import {
  type CutBy,
  type FileLimits,
  type Filesystem,
  fileLimits,
  type Listing,
} from "./filesystem.ts";
import { compileGlob } from "./glob.ts";
import { grepFiles } from "./grep.ts";
import { foldName } from "./name.ts";
import { type Place, resolveForWriting, resolvePath, type Viewpoint, viewOf } from "./path.ts";
import {
  type Accepts,
  byPath,
  type FoundFile,
  unreadBecause,
  type Volume,
  type Walk,
} from "./volume.ts";

/** What the filesystems have in common. */
export interface FilesystemOptions {
  /** Names at the root under which nothing can be written; absent: what steers the agent. */
  readonly readOnly?: readonly string[];
  /** Names at the root that every namespace reads; absent: what is the agent's and not a user's. */
  readonly shared?: readonly string[];
  readonly limits?: Partial<FileLimits>;
  /** False: never use ripgrep; a string: the program to use; absent: the one that the package brings. */
  readonly ripgrep?: string | false;
}

const longestTurnMs = 10;

/** A volume behind the one path resolver: nothing else ever makes a place of a model's path. */
export function fencedFilesystem(
  volume: Volume,
  options: FilesystemOptions,
  viewpoint: Viewpoint = {},
): Filesystem {
  const limits = { ...fileLimits, ...options.limits };
  const plain = viewOf(options, viewpoint);
  const view = { ...plain, absolute: volume.absolute?.(plain.own) ?? [] };

  /** A directory in its parts: at the root of a namespace stands also what all share. */
  function partsOf(place: Place): readonly { readonly place: Place; readonly accepts: Accepts }[] {
    if (place.names.length > 0 || !viewpoint.namespace) return [{ place, accepts: () => true }];
    const isShared: Accepts = (name) => view.shared.has(foldName(name));
    return [
      { place, accepts: (name) => !isShared(name) },
      { place: { ...place, base: view.common }, accepts: isShared },
    ];
  }

  async function walkParts(place: Place, walk: Omit<Walk, "accepts">): Promise<void> {
    for (const part of partsOf(place)) {
      if (!walk.isOver()) await volume.walk(part.place, { ...walk, accepts: part.accepts });
    }
  }

  /** Where a search begins. */
  async function findStart(path: string): Promise<{ place: Place; isFile: boolean }> {
    const place = resolvePath(path, view);
    const stat = await volume.stat(place);
    if (!stat) throw notFound(place.path);
    if (stat.type === "other") throw notRegular(place.path, false);
    return { place, isFile: stat.type === "file" };
  }

  async function list(path: string): Promise<Listing> {
    const place = resolvePath(path, view);
    const entries = [];
    let cut = false;
    for (const part of partsOf(place)) {
      const limit = limits.listEntries - entries.length;
      const listing = await volume.list(part.place, { limit, accepts: part.accepts });
      entries.push(...listing.entries);
      cut ||= listing.cut;
    }
    return { entries: entries.sort(byPath), cut };
  }

  const glob: Filesystem["glob"] = async (pattern, { path = "", signal } = {}) => {
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
    const isMatch = (file: FoundFile) => matches(below(place, file.path));
    const visit = async (files: readonly FoundFile[]) => {
      const found = await sift(files, isMatch, isOver);
      const room = limits.globPaths - paths.length;
      if (found.length > room) cutBy ??= "limit";
      for (const { path } of found.slice(0, room)) paths.push(path);
    };
    await walkParts(start, { visit, isOver });
    signal?.throwIfAborted();
    return { paths: paths.sort(), ...(cutBy && { cutBy }) };
  };

  const grep: Filesystem["grep"] = async (query, { path = "", glob: only, signal } = {}) => {
    const wanted = only === undefined ? undefined : compileGlob(only);
    const { place, isFile } = await findStart(path);
    const isWanted = ({ path }: FoundFile) => {
      const name = only?.includes("/") ? below(place, path) : path.slice(path.lastIndexOf("/") + 1);
      return wanted?.matches(name) ?? true;
    };
    return grepFiles(query, {
      limits,
      ripgrep: options.ripgrep ?? true,
      signal,
      walk: (visit, isOver) =>
        isFile
          ? visit([fileAt(volume, place)])
          : walkParts(place, {
              visit: async (files) => visit(await sift(files, isWanted, isOver)),
              isOver,
            }),
    });
  };

  return {
    within: (namespace) => fencedFilesystem(volume, options, { ...viewpoint, namespace }),
    below(path) {
      const below = [...view.common, ...resolvePath(path, view).names];
      return fencedFilesystem(volume, options, { ...viewpoint, below });
    },
    stat: async (path) => volume.stat(resolvePath(path, view)),
    read: async (path) => volume.read(fileOnly(resolvePath(path, view))),
    async write(path, data, condition = {}) {
      const place = fileOnly(resolveForWriting(path, view));
      const bytes = typeof data === "string" ? Buffer.from(data) : data;
      if (bytes.byteLength > limits.fileBytes) throw tooLarge(place.path, limits.fileBytes);
      return volume.write(place, bytes, condition);
    },
    remove: async (path) => volume.remove(fileOnly(resolveForWriting(path, view))),
    list,
    glob,
    grep,
  };
}

function fileOnly(place: Place): Place {
  if (place.names.length > 0) return place;
  throw notAFile(place.path);
}

/** The files that are wanted, as far as it gets. A glob may take long over each, so others get their turn in between. */
async function sift(
  files: readonly FoundFile[],
  isWanted: (file: FoundFile) => boolean,
  isOver: () => boolean,
): Promise<readonly FoundFile[]> {
  const found: FoundFile[] = [];
  let since = performance.now();
  for (const file of files) {
    if (performance.now() - since > longestTurnMs) {
      await setImmediate();
      since = performance.now();
    }
    if (isOver()) break;
    if (isWanted(file)) found.push(file);
  }
  return found;
}

/** The path as it is seen from a directory above it. */
function below(directory: Place, path: string): string {
  return directory.path === "" ? path : path.slice(directory.path.length + 1);
}

function fileAt(volume: Volume, place: Place): FoundFile {
  return {
    path: place.path,
    read: () => volume.read(place).then(({ data }) => data, unreadBecause),
  };
}
