import {
  decide,
  type Permissions,
  type ToolContext,
  taskBehind,
  taskKey,
} from "../../agent/index.ts";
import type { HookContext } from "../../contract/index.ts";
import type { Shell } from "../sandbox/jail.ts";
import { fileError, quotePath } from "./file-error.ts";
import type { Filesystem } from "./filesystem.ts";
import { pathIn } from "./path.ts";

/** The tool whose rules decide about the text of a file, whatever way it takes to a model. */
const readTool = "read_file";

/** The files that a model may see, by their path from the root of the workspace. */
export interface FileRules {
  /** Whether lists may name the path. */
  mayName(path: string): boolean;
  /** Whether the text of the file may be read. */
  mayRead(path: string): boolean;
  /** Whether a search may show lines of the file; defaults to `mayRead`. */
  maySearch?(path: string): boolean;
}

/** The rules of the task behind a context; none for a context that another program created. */
export function rulesBehind(context: ToolContext | HookContext): readonly Permissions[] {
  return taskKey in context ? taskBehind(context).scope.permissions : [];
}

/** The rules for files that the operator selects, such as context files: only deny rules on a path hide those. */
export function rulesOnPaths(layers: readonly Permissions[]): FileRules | undefined {
  const deny = layers.flatMap(({ deny = [] }) =>
    deny.filter((rule) => typeof rule === "object" && Object.hasOwn(rule.input ?? {}, "path")),
  );
  if (deny.length === 0) return undefined;
  const mayRead = (path: string) => decide([{ deny }], readTool, { path }) !== "deny";
  return { mayName: mayRead, mayRead };
}

/** The rules for files that a person or a model asks for: a deny rule on the tool that reads hides them as well. */
export function rulesOnReading(layers: readonly Permissions[]): FileRules | undefined {
  if (!layers.some(({ deny = [], ask = [] }) => deny.length + ask.length > 0)) return undefined;
  const mayRead = (path: string) => decide(layers, readTool, { path }) !== "deny";
  return { mayName: rulesOnPaths(layers)?.mayName ?? (() => true), mayRead };
}

/** The rules for one call of a file tool; a search leaves out files whose reading needs an approval that it has not. */
export function rulesOnCall(
  layers: readonly Permissions[],
  toolName: string,
  input: unknown,
): FileRules | undefined {
  const reading = rulesOnReading(layers);
  if (!reading) return undefined;
  const isApproved = decide(layers, toolName, input) === "ask";
  const isDenied = (path: string) => decide(layers, toolName, { path }) === "deny";
  const asks = (path: string) =>
    [readTool, toolName].some((name) => decide(layers, name, { path }) === "ask");
  return {
    mayName: (path) => reading.mayName(path) && !isDenied(path),
    mayRead: reading.mayRead,
    maySearch: (path) => reading.mayRead(path) && !isDenied(path) && (isApproved || !asks(path)),
  };
}

/** Returns files without those that rules hide: lists and searches leave them out, and reading one throws `denied`. */
export function guardFiles(files: Filesystem, rules: FileRules | undefined, base = ""): Filesystem {
  if (!rules) return files;
  const { mayName, mayRead, maySearch = mayRead } = rules;
  const inRoot = (path: string) => (path === "" ? base : pathIn(base, path));
  const normalRoot = (path: string) => inRoot(files.normalize(path));
  const refuseUnread = (path: string) => {
    if (mayRead(normalRoot(path))) return;
    throw fileError("denied", `A rule forbids reading ${quotePath(path)}.`);
  };
  const { track } = files;
  return {
    within: (namespace) => guardFiles(files.within(namespace), rules, base),
    below: (path) => guardFiles(files.below(path), rules, normalRoot(path)),
    normalize: (path) => files.normalize(path),
    stat: async (path) => (mayName(normalRoot(path)) ? files.stat(path) : undefined),
    ...(track && { track: (path: string) => track.call(files, path) }),
    async read(path) {
      refuseUnread(path);
      return files.read(path);
    },
    write: (path, data, options) => files.write(path, data, options),
    remove: (path) => files.remove(path),
    async rename(from, to) {
      refuseUnread(from);
      const stat = await files.stat(from);
      // A moved file would have another path, which no rule hides.
      const below =
        stat?.type === "directory" ? await files.glob("**/*", { path: from }) : undefined;
      for (const path of below?.paths ?? []) refuseUnread(path);
      return files.rename(from, to);
    },
    async list(path) {
      const { entries, cut } = await files.list(path);
      return { entries: entries.filter((entry) => mayName(inRoot(entry.path))), cut };
    },
    async glob(pattern, options) {
      const { paths, ...rest } = await files.glob(pattern, options);
      return { ...rest, paths: paths.filter((path) => mayName(inRoot(path))) };
    },
    async grep(query, options) {
      const { matches, ...rest } = await files.grep(query, options);
      return { ...rest, matches: matches.filter(({ path }) => maySearch(inRoot(path))) };
    },
    ...(files.shell && { shell: guardShell(files.shell, (path) => !mayRead(inRoot(path))) }),
  };
}

/** Returns a shell whose commands cannot read some files. */
function guardShell(shell: Shell, hides: (path: string) => boolean): Shell {
  const { jail, limits } = shell;
  return { jail, limits, run: (script, options) => shell.run(script, { ...options, hides }) };
}
