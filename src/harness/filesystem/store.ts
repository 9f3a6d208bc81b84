import { RivuletError } from "../../base/error.ts";
import { type Fields, name, readArgument, readOptions, required } from "../../base/options.ts";
import type { Files } from "../../contract/index.ts";
import { withFilesField } from "../../store/index.ts";
import { inBatches } from "../sandbox/copies.ts";
import type { SandboxOptions } from "../sandbox/jail.ts";
import { changed, fileError, notADirectory, notAFile, notFound, tooLarge } from "./file-error.ts";
import {
  type FileStat,
  type Filesystem,
  type FilesystemOptions,
  type FoundFile,
  fileLimits,
  filesystemFields,
  type Volume,
  volumeFilesystem,
} from "./filesystem.ts";
import { type Place, pathIn } from "./path.ts";
import { sandboxField, withSandbox } from "./sandbox.ts";

/** Options of a store filesystem. */
export interface StoreFilesystemOptions extends FilesystemOptions {
  /** Whether commands can run on the files, or how: each works on a private copy, whose changes are written back. */
  readonly sandbox?: boolean | SandboxOptions;
  /** Prefix of all keys; defaults to `workspace`. Filesystems share files only if their prefixes are equal or nested. */
  readonly prefix?: string;
}

const storeFields: Fields<StoreFilesystemOptions> = {
  ...filesystemFields,
  prefix: name,
  sandbox: sandboxField,
};
const pageSize = 1_000;
const parallel = 16;
// Sorts after every name; no name may contain it.
const lastCharacter = "\u{10ffff}";

/** Creates a filesystem in a store, which every process with the store can reach. */
export function storeFilesystem(
  store: { readonly files: Files },
  given: StoreFilesystemOptions = {},
): Filesystem {
  readArgument("store", store, required(withFilesField));
  const options = readOptions("storeFilesystem()", given, storeFields);
  const { prefix = "workspace", limits } = options;
  if (!/^[\w-]+(?:[./][\w-]+)*$/.test(prefix)) {
    const message = `prefix must be names joined by "/" or ".", got ${JSON.stringify(prefix)}.`;
    throw fileError("invalid_path", message);
  }
  const { sandbox = false, ...rest } = options;
  const files = volumeFilesystem(storeVolume(store.files, prefix, limits?.fileBytes), rest);
  return sandbox === false ? files : withSandbox(files, { sandbox });
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
  async function missing(place: Place): Promise<Error> {
    return (await isDirectory(keyOf(place))) ? notAFile(place.path) : notFound(place.path);
  }
  /** Like on a disk, a path cannot be both a file and a directory. */
  async function checkFree(place: Place): Promise<void> {
    if (await isDirectory(keyOf(place))) throw notAFile(place.path);
    for (let depth = place.names.length - 1; depth > 0; depth--) {
      const names = place.names.slice(0, depth);
      if (await infoOf(keyOf({ ...place, names }))) throw notADirectory(names.join("/"));
    }
  }

  /** Yields pages of keys below a directory; skips the rest of a name that `maySkip` accepts. */
  async function* pagesOf(directory: string, maySkip: (name: string) => boolean) {
    for (let after = directory; ; ) {
      const page = await files.list(directory, { limit: pageSize, after });
      const found = page.map((info) => ({
        ...info,
        names: info.path.slice(directory.length).split("/"),
      }));
      yield found;
      const end = found.at(-1);
      if (!end || found.length < pageSize) return;
      const [name = "", ...below] = end.names;
      after = below.length > 0 && maySkip(name) ? `${directory}${name}/${lastCharacter}` : end.path;
    }
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
    async read(place) {
      const { path } = place;
      const info = await infoOf(keyOf(place));
      if (info && info.size > maxBytes) throw tooLarge(path, maxBytes);
      const file = info && (await files.get(info.path));
      if (!file) throw await missing(place);
      return { path, data: file.data, version: String(file.version) };
    },
    async write(place, data, { ifVersion }) {
      await checkFree(place);
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
      const key = keyOf(place);
      let isRemoved = await files.delete(key);
      for await (const page of pagesOf(`${key}/`, () => false)) {
        await inBatches(page, parallel, async ({ path }) => {
          if (await files.delete(path)) isRemoved = true;
        });
      }
      if (!isRemoved) throw notFound(place.path);
    },
    async list(place, { limit, accepts }) {
      const entries: FileStat[] = [];
      const { path } = place;
      let isMissing = place.names.length > 0;
      for await (const page of pagesOf(`${keyOf(place)}/`, () => true)) {
        isMissing &&= page.length === 0;
        for (const { names, size, modifiedAt } of page) {
          const [name, ...below] = names as [string, ...string[]];
          const entry = pathIn(path, name);
          if (!accepts(name, entry)) continue;
          if (entries.at(-1)?.path === entry) continue;
          if (entries.length === limit) return { entries, cut: true };
          if (below.length > 0) entries.push(directoryStat(entry));
          else entries.push({ path: entry, type: "file", size, modifiedAt });
        }
      }
      if (isMissing) {
        throw (await infoOf(keyOf(place))) ? notADirectory(path) : notFound(path);
      }
      return { entries, cut: false };
    },
    async walk(place, { accepts, visit, isOver }) {
      const pathOf = (names: readonly string[]) => pathIn(place.path, names.join("/"));
      const isSkipped = (name: string) => !accepts(name, pathOf([name]));
      for await (const page of pagesOf(`${keyOf(place)}/`, isSkipped)) {
        const found = page
          .filter(({ names }) =>
            names.every((name, index) => accepts(name, pathOf(names.slice(0, index + 1)))),
          )
          .map(
            ({ names, path, size, version }): FoundFile => ({
              path: pathOf(names),
              version: String(version),
              async read() {
                if (size > maxBytes) return "too large";
                return (await files.get(path).catch(() => undefined))?.data ?? "unreadable";
              },
            }),
          );
        if (found.length > 0) await visit(found);
        if (isOver()) return;
      }
    },
  };
}

function directoryStat(path: string): FileStat {
  return { path, type: "directory", size: 0, modifiedAt: 0 };
}
