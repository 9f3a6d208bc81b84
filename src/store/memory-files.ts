import type { Clock } from "../base/clock.ts";
import type { FileInfo, Files, StoredFile } from "../contract/index.ts";
import { conflict } from "./store-error.ts";

/** Files in memory. */
export function memoryFiles(clock: Pick<Clock, "now">): Files {
  const files = new Map<string, StoredFile>();
  // One counter for all paths: a file that is deleted and written again gets a new version.
  let version = 0;
  let paths: readonly string[] | undefined;

  return {
    async get(path) {
      const file = files.get(path);
      return file && { ...file, data: new Uint8Array(file.data) };
    },
    async put(path, data, options = {}) {
      const old = files.get(path);
      if (options.ifVersion !== undefined && options.ifVersion !== (old?.version ?? 0)) {
        throw conflict(
          `${path} is at version ${old?.version ?? 0}, not at version ${options.ifVersion}.`,
        );
      }
      if (!old) paths = undefined;
      version += 1;
      const modifiedAt = clock.now();
      files.set(path, {
        path,
        size: data.byteLength,
        version,
        modifiedAt,
        data: new Uint8Array(data),
      });
      return version;
    },
    async delete(path) {
      const existed = files.delete(path);
      if (existed) paths = undefined;
      return existed;
    },
    async list(prefix, { limit = Number.POSITIVE_INFINITY, after } = {}) {
      paths ??= [...files.keys()].sort(compareCodePoints);
      let next = firstFrom(paths, prefix);
      if (after !== undefined && compareCodePoints(after, prefix) >= 0) {
        next = firstFrom(paths, after);
        if (paths[next] === after) next += 1;
      }
      const found: FileInfo[] = [];
      for (; found.length < limit; next++) {
        const path = paths[next];
        if (path === undefined || !path.startsWith(prefix)) break;
        const { data: _, ...info } = files.get(path) as StoredFile;
        found.push(info);
      }
      return found;
    },
  };
}

/** The index of the first path that is not before the key. */
function firstFrom(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareCodePoints(sorted[middle] as string, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Compares by UTF-8 bytes, as databases do; `<` on strings differs above U+FFFF. */
function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** Orders surrogates, which encode code points above U+FFFF, after all other units. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
