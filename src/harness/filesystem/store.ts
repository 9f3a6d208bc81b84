import { RivuletError } from "../../protocol/error.ts";
import type { FileInfo, Files } from "../../protocol/store.ts";
import { type FilesystemOptions, fencedFilesystem } from "./fenced.ts";
import { changed, fileError, notADirectory, notAFile, notFound, tooLarge } from "./file-error.ts";
import { type FileStat, type Filesystem, fileLimits } from "./filesystem.ts";
import type { Place } from "./path.ts";
import { type FoundFile, isUsableName, pathIn, type Volume } from "./volume.ts";

/** How the blobs of a store are used as files. */
export interface StoreFilesystemOptions extends FilesystemOptions {
  /** What all keys begin with; absent: `workspace`. Filesystems share nothing unless one's prefix leads into another's. */
  readonly prefix?: string;
}

const atOnce = 1_000;
// The last character there is, and none that a name may have: no path in a directory sorts after it.
const last = "\u{10ffff}";

/** Files as blobs of a store, which any process that has the store can reach. */
export function storeFilesystem(
  store: { readonly files: Files },
  options: StoreFilesystemOptions = {},
): Filesystem {
  const { prefix = "workspace", limits } = options;
  if (!/^[\w-]+(?:[./][\w-]+)*$/.test(prefix)) {
    throw fileError("invalid_path", `${JSON.stringify(prefix)} cannot be the prefix of files.`);
  }
  return fencedFilesystem(storeVolume(store.files, prefix, limits?.fileBytes), options);
}

function storeVolume(
  files: Files,
  prefix: string,
  maxBytes: number = fileLimits.fileBytes,
): Volume {
  const keyOf = ({ base, names }: Pick<Place, "base" | "names">) =>
    [prefix, ...base, ...names].join("/");

  async function infoOf(key: string) {
    const [info] = await files.list(key, { limit: 1 });
    return info?.path === key ? info : undefined;
  }
  async function isDirectory(key: string): Promise<boolean> {
    return (await files.list(`${key}/`, { limit: 1 })).length > 0;
  }
  async function contentOf(key: string, path: string) {
    const info = await infoOf(key);
    if (!info) throw (await isDirectory(key)) ? notAFile(path) : notFound(path);
    if (info.size > maxBytes) throw tooLarge(path, maxBytes);
    const file = await files.get(key);
    if (!file) throw notFound(path);
    return { path, data: file.data, version: String(file.version) };
  }
  /** A disk could not hold a file where a directory is, nor one below a file. */
  async function checkRoom(place: Place): Promise<void> {
    if (await isDirectory(keyOf(place))) throw notAFile(place.path);
    for (let depth = place.names.length - 1; depth > 0; depth--) {
      const names = place.names.slice(0, depth);
      if (await infoOf(keyOf({ ...place, names }))) throw notADirectory(names.join("/"));
    }
  }

  /** The keys below a directory; once a page has ended inside a name that may be skipped, the rest of it is. */
  async function* pagesOf(directory: string, maySkip: (name: string) => boolean) {
    for (let after = directory; ; ) {
      const page = await files.list(directory, { limit: atOnce, after });
      const found = page.map((info) => ({
        ...info,
        names: info.path.slice(directory.length).split("/"),
      }));
      yield found;
      const end = found.at(-1);
      if (!end || found.length < atOnce) return;
      const [name = "", ...below] = end.names;
      after = below.length > 0 && maySkip(name) ? `${directory}${name}/${last}` : end.path;
    }
  }
  function foundFile(path: string, info: FileInfo & { names: readonly string[] }): FoundFile {
    return {
      path: pathIn(path, info.names.join("/")),
      async read() {
        if (info.size > maxBytes) return "too large";
        return (await files.get(info.path).catch(() => undefined))?.data ?? "unreadable";
      },
    };
  }

  return {
    async stat(place) {
      const { path } = place;
      const key = keyOf(place);
      const info = place.names.length > 0 ? await infoOf(key) : undefined;
      if (info) return { path, type: "file", size: info.size, modifiedAt: info.modifiedAt };
      if (place.names.length > 0 && !(await isDirectory(key))) return undefined;
      return directoryStat(path);
    },
    read: (place) => contentOf(keyOf(place), place.path),
    async write(place, data, { ifVersion }) {
      await checkRoom(place);
      const key = keyOf(place);
      const created = (await infoOf(key)) === undefined;
      const condition = ifVersion === undefined ? {} : { ifVersion: Number(ifVersion ?? 0) };
      const version = await files.put(key, data, condition).catch((error: unknown) => {
        throw error instanceof RivuletError && error.code === "conflict"
          ? changed(place.path)
          : error;
      });
      return { path: place.path, version: String(version), created };
    },
    async remove(place) {
      if (await files.delete(keyOf(place))) return;
      throw (await isDirectory(keyOf(place))) ? notAFile(place.path) : notFound(place.path);
    },
    async list(place, { limit, accepts }) {
      const entries: FileStat[] = [];
      const { path } = place;
      for await (const page of pagesOf(`${keyOf(place)}/`, () => true)) {
        for (const { names, size, modifiedAt } of page) {
          const [name, ...below] = names as [string, ...string[]];
          if (!isUsableName(name) || !accepts(name)) continue;
          const entry = pathIn(path, name);
          if (entries.at(-1)?.path === entry) continue;
          if (entries.length === limit) return { entries, cut: true };
          if (below.length > 0) entries.push(directoryStat(entry));
          else entries.push({ path: entry, type: "file", size, modifiedAt });
        }
      }
      if (entries.length === 0 && place.names.length > 0) {
        throw (await infoOf(keyOf(place))) ? notADirectory(path) : notFound(path);
      }
      return { entries, cut: false };
    },
    async walk(place, { accepts, visit, isOver }) {
      const isSeen = (name: string) => isUsableName(name) && accepts(name);
      for await (const page of pagesOf(`${keyOf(place)}/`, (name) => !isSeen(name))) {
        const files = page.filter(
          ({ names: [top = "", ...below] }) => isSeen(top) && below.every(isUsableName),
        );
        if (files.length > 0) await visit(files.map((info) => foundFile(place.path, info)));
        if (isOver()) return;
      }
    },
  };
}

function directoryStat(path: string): FileStat {
  return { path, type: "directory", size: 0, modifiedAt: 0 };
}
