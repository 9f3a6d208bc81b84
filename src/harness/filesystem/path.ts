import { fileError, shown } from "./file-error.ts";
import { foldName, nameProblem, reservedPrefix } from "./name.ts";
import { type Namespace, namespaceDirectory } from "./namespace.ts";

/** Which files a path can reach, and which of them can be written. */
export interface View {
  /** The names that lead from the root of all files to what is the caller's own. */
  readonly own: readonly string[];
  /** The names that lead to what all namespaces share. */
  readonly common: readonly string[];
  /** First names of what is shared, for reading; folded. */
  readonly shared: ReadonlySet<string>;
  /** First names under which nothing can be written; folded. */
  readonly readOnly: ReadonlySet<string>;
  /** Absolute paths of what is the caller's own, where there is such a thing. */
  readonly absolute: readonly string[];
}

/** Where a path leads. */
export interface Place {
  /** The path without detours, as the model may know it; "" is the root. */
  readonly path: string;
  /** The names from the root of all files to where the path begins. */
  readonly base: readonly string[];
  /** The names of the path. */
  readonly names: readonly string[];
  readonly writable: boolean;
}

/** What steers the agent: its tools may read it and never write it. */
const controlFiles: readonly string[] = ["subagents", "skills", "tools.json", "agents"];

/** What every namespace reads from the root, because it is the agent's and not a user's. */
const sharedFiles: readonly string[] = [
  "AGENTS.md",
  "knowledge",
  "skills",
  "subagents",
  "tools.json",
];

/** Where the namespaces are, below the root. */
const namespaces = [reservedPrefix, "namespaces"] as const;
// A hook or a setting in it runs the next time that somebody uses git.
const neverWritable = ".git";

const maxPathBytes = 4096;
/** The most names that a path may have. */
export const maxDepth = 64;

/** Whose files are looked at, and from which directory. */
export interface Viewpoint {
  readonly namespace?: Namespace;
  readonly below?: readonly string[];
}

/** How a filesystem is looked at. */
export function viewOf(
  options: { readonly readOnly?: readonly string[]; readonly shared?: readonly string[] },
  { namespace, below = [] }: Viewpoint = {},
): View {
  const base = namespace === undefined ? [] : [...namespaces, namespaceDirectory(namespace)];
  return {
    own: [...base, ...below],
    common: below,
    shared: new Set(namespace && (options.shared ?? sharedFiles).map(foldName)),
    readOnly: new Set((options.readOnly ?? controlFiles).map(foldName)),
    absolute: [],
  };
}

/**
 * The one way from a path, as a model wrote it, to a place. The names it gives are used exactly as they were checked;
 * nothing is decoded, trimmed or normalised. It does not look at any disk, so what it refuses tells nothing about one.
 */
export function resolvePath(path: string, view: View): Place {
  const names = namesOf(path, view);
  for (const name of names) {
    const problem = nameProblem(name);
    if (problem !== undefined) {
      throw fileError("invalid_path", `${shown(path)} cannot be used: ${shown(name)} ${problem}.`);
    }
  }
  if (names.length > maxDepth) {
    throw fileError("invalid_path", `${shown(path)} has more than ${maxDepth} names.`);
  }
  return placeOf(names, view);
}

function placeOf(names: readonly string[], view: View): Place {
  const first = foldName(names[0] ?? "");
  const isShared = view.shared.has(first);
  return {
    path: names.join("/"),
    base: isShared ? view.common : view.own,
    names,
    writable:
      !isShared &&
      !view.readOnly.has(first) &&
      !names.some((name) => foldName(name) === neverWritable),
  };
}

/** The place, when something may be written there. */
export function resolveForWriting(path: string, view: View): Place {
  const place = resolvePath(path, view);
  if (place.writable) return place;
  throw fileError("read_only", `${shown(place.path)} is read-only.`, "Write to another path.");
}

function namesOf(path: string, view: View): readonly string[] {
  if (!path.isWellFormed() || Buffer.byteLength(path) > maxPathBytes) {
    const problem = `is not text of at most ${maxPathBytes} bytes`;
    throw fileError("invalid_path", `The path ${shown(path.toWellFormed())} ${problem}.`);
  }
  const names: string[] = [];
  for (const name of relative(path, view).split("/")) {
    if (name === "" || name === ".") continue;
    if (name !== "..") names.push(name);
    else if (names.pop() === undefined) throw outside(path);
  }
  // A shell would read these as somebody's home.
  if (/^~[\w.-]*$/.test(names[0] ?? "")) throw outside(path);
  return names;
}

/** An absolute path is good only for what is the caller's own; `/` alone is the root. */
function relative(path: string, view: View): string {
  if (!path.startsWith("/") || path === "/") return path;
  for (const base of view.absolute) {
    if (path === base) return "";
    if (path.startsWith(`${base}/`)) return path.slice(base.length + 1);
  }
  throw outside(path);
}

function outside(path: string): Error {
  return fileError(
    "outside_workspace",
    `${shown(path)} is outside the workspace.`,
    'Use a path relative to the workspace, such as "notes/plan.md".',
  );
}
