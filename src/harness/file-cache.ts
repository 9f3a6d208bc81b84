import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { FileContent, FileStat, Filesystem } from "./filesystem/filesystem.ts";

/** Files as somebody sees them. */
export interface FileView {
  /** Tells views apart: the same path may be another file in each. */
  readonly key: string;
  readonly files: Filesystem;
}

interface Entry<T> {
  readonly stat: FileStat;
  readonly value: T;
}

const maxEntries = 500;
/** Two writes may have the same date; a file that was written so recently is read again. */
const freshMs = 2_000;

/** Reads files, and reads them again only when they have changed. */
export class FileCache<T> {
  readonly #clock: Clock;
  readonly #read: (content: FileContent) => T;
  readonly #entries = new Map<string, Entry<T>>();

  /** `read` makes of a file what is to be kept of it. */
  constructor(clock: Clock, read: (content: FileContent) => T) {
    this.#clock = clock;
    this.#read = read;
  }

  /** What `read` made of the file as it is now; undefined when there is none. Throws what refuses to read it. */
  async get({ key, files }: FileView, path: string): Promise<T | undefined> {
    const id = `${key}/${path}`;
    const known = this.#entries.get(id);
    const stat = await files.stat(path);
    if (stat && known?.stat.size === stat.size && known.stat.modifiedAt === stat.modifiedAt) {
      return known.value;
    }
    this.#entries.delete(id);
    if (!stat) return undefined;
    const value = await this.#readNow(files, path);
    const { modifiedAt } = stat;
    const tellsChanges = modifiedAt > 0 && this.#clock.now() - modifiedAt > freshMs;
    if (value !== undefined && tellsChanges) {
      this.#entries.set(id, { stat, value });
      const [oldest] = this.#entries.keys();
      if (this.#entries.size > maxEntries && oldest !== undefined) this.#entries.delete(oldest);
    }
    return value;
  }

  async #readNow(files: Filesystem, path: string): Promise<T | undefined> {
    try {
      return this.#read(await files.read(path));
    } catch (error) {
      // It has gone since we looked.
      if (error instanceof RivuletError && error.code === "not_found") return undefined;
      throw error;
    }
  }
}
