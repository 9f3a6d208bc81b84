import type { HookContext } from "../agent/loop/hooks.ts";
import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { FileContent, FileStat, Filesystem } from "./filesystem/filesystem.ts";
import { type IsolationScope, namespaceOf, type TaskOwner } from "./filesystem/path.ts";

/** The default path of a workspace. */
export const defaultWorkspace = ".rivulet/workspace";

/** The files of one namespace. */
export interface FileView {
  /** Identifies the namespace, because the same path is another file in each. */
  readonly key: string;
  readonly files: Filesystem;
}

/** The directory that an agent works in. */
export interface Workspace {
  /** All files, as the operator sees them. */
  readonly files: Filesystem;
  readonly isolation: IsolationScope;
  viewOf(owner: TaskOwner): FileView;
  viewFor(context: HookContext): FileView;
}

/** Creates a workspace on a filesystem. */
export function openWorkspace(files: Filesystem, isolation: IsolationScope): Workspace {
  function viewOf(owner: TaskOwner): FileView {
    const namespace = namespaceOf(isolation, owner);
    if (!namespace) return { key: "", files };
    return { key: `${namespace.scope}:${namespace.id}`, files: files.within(namespace) };
  }
  return {
    files,
    isolation,
    viewOf,
    viewFor: ({ task, agentId, userId }) =>
      viewOf({ sessionId: task.sessionId, agentId, ...(userId !== undefined && { userId }) }),
  };
}

const maxEntries = 500;
const freshMs = 2_000; // two writes can have the same modification time, so a file this recent is not cached

/** Returns whether a modification time is old enough to prove that a file is unchanged. */
export function isSettled({ modifiedAt }: FileStat, now: number): boolean {
  return modifiedAt > 0 && now - modifiedAt > freshMs;
}

/** Caches parsed files and reads them again when they change. */
export class FileCache<T> {
  readonly #clock: Clock;
  readonly #parse: (content: FileContent) => T | Promise<T>;
  readonly #entries = new Map<string, { readonly stat: FileStat; readonly value: T }>();

  constructor(clock: Clock, parse: (content: FileContent) => T | Promise<T>) {
    this.#clock = clock;
    this.#parse = parse;
  }

  /** Returns the parsed file; undefined when it does not exist. Throws read and parse errors. */
  async get({ key, files }: FileView, path: string): Promise<T | undefined> {
    const id = `${key}/${path}`;
    const cached = this.#entries.get(id);
    const stat = await files.stat(path);
    if (stat && cached?.stat.size === stat.size && cached.stat.modifiedAt === stat.modifiedAt) {
      return cached.value;
    }
    this.#entries.delete(id);
    if (!stat) return undefined;
    const value = await this.#read(files, path);
    if (value !== undefined && isSettled(stat, this.#clock.now())) {
      this.#entries.set(id, { stat, value });
      const [oldest] = this.#entries.keys();
      if (this.#entries.size > maxEntries && oldest !== undefined) this.#entries.delete(oldest);
    }
    return value;
  }

  async #read(files: Filesystem, path: string): Promise<T | undefined> {
    try {
      return await this.#parse(await files.read(path));
    } catch (error) {
      // The file was removed after the stat.
      if (error instanceof RivuletError && error.code === "not_found") return undefined;
      throw error;
    }
  }
}
