import type { Permissions } from "../agent/index.ts";
import type { Clock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Awaitable } from "../base/time.ts";
import type { HookContext } from "../contract/index.ts";
import { guardFiles, rulesBehind, rulesOnPaths } from "./filesystem/file-rules.ts";
import type { FileContent, FileStat, Filesystem } from "./filesystem/filesystem.ts";
import { type IsolationScope, namespaceOf, type TaskOwner } from "./filesystem/path.ts";

/** The default path of a workspace. */
export const defaultWorkspace = ".rivulet/workspace";

/** The files of one namespace. */
export interface FileView {
  /** Identifies the namespace, because the same path is another file in each. */
  readonly key: string;
  /** Without the files that a rule hides. */
  readonly files: Filesystem;
  /** Whether a rule hides the file, although a cache has it from another task. */
  readonly hides?: (path: string) => boolean;
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
  const views = new WeakMap<HookContext, FileView>();
  return {
    files,
    isolation,
    viewOf,
    viewFor(context) {
      const { task, agentId, userId } = context;
      const owner = { sessionId: task.sessionId, agentId, ...(userId !== undefined && { userId }) };
      const view = views.get(context) ?? withRules(viewOf(owner), rulesBehind(context));
      views.set(context, view);
      return view;
    },
  };
}

/** Returns the part of a view that deny rules on paths leave to a task. */
export function withRules(view: FileView, layers: readonly Permissions[]): FileView {
  const rules = rulesOnPaths(layers);
  if (!rules) return view;
  const hides = (path: string) => !rules.mayRead(path);
  return { key: view.key, files: guardFiles(view.files, rules), hides };
}

const maxEntries = 500;
const freshMs = 2_000; // two writes can have the same modification time, so a file this recent is not cached

/** Returns whether a modification time is old enough to prove that a file is unchanged. */
export function isSettled({ modifiedAt }: FileStat, now: number): boolean {
  return modifiedAt > 0 && now - modifiedAt > freshMs;
}

/** Returns a cheap check that is true until one of the paths changes; undefined if the files cannot be tracked. */
export function trackPaths(
  files: Filesystem,
  paths: readonly string[],
): (() => boolean) | undefined {
  const tracked = paths.flatMap((path) => files.track?.(path) ?? []);
  if (tracked.length < paths.length) return undefined;
  const stamps = tracked.map((stamp) => stamp());
  let isCurrent = true;
  return () => {
    isCurrent &&= tracked.every((stamp, index) => stamp() === stamps[index]);
    return isCurrent;
  };
}

function isEqual(a: FileStat, b: FileStat): boolean {
  return a.size === b.size && a.modifiedAt === b.modifiedAt;
}

interface CachedFile<T> {
  readonly stat: FileStat | undefined;
  readonly isCurrent: (() => boolean) | undefined;
  /** Undefined when the file does not exist. */
  readonly value: T | undefined;
}

/** Caches parsed files and reads them again when they change. */
export class FileCache<T> {
  readonly #clock: Clock;
  readonly #parse: (content: FileContent) => T | Promise<T>;
  readonly #entries = new Map<string, CachedFile<T>>();

  constructor(clock: Clock, parse: (content: FileContent) => T | Promise<T>) {
    this.#clock = clock;
    this.#parse = parse;
  }

  /** Returns the parsed file; undefined when it does not exist or is hidden. Throws read and parse errors. */
  get({ key, files, hides }: FileView, path: string): Awaitable<T | undefined> {
    if (hides?.(path)) return undefined;
    const id = `${key}/${path}`;
    const cached = this.#entries.get(id);
    return cached?.isCurrent?.() ? cached.value : this.#load(id, files, path);
  }

  async #load(id: string, files: Filesystem, path: string): Promise<T | undefined> {
    const cached = this.#entries.get(id);
    const isCurrent = trackPaths(files, [path]); // before the file is read, which may change it again
    const stat = await files.stat(path);
    if (!isCurrent && stat && cached?.stat && isEqual(cached.stat, stat)) return cached.value;
    this.#entries.delete(id);
    const value = stat && (await this.#read(files, path));
    if (stat ? isSettled(stat, this.#clock.now()) : isCurrent) {
      this.#entries.set(id, { stat, isCurrent, value });
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
