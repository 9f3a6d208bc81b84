import { oneOf, readArgument, required, text } from "../../base/options.ts";
import { sha256 } from "../../base/plain.ts";
import { fileError, quotePath } from "./file-error.ts";
import { controlFiles, steering } from "./steering.ts";

/** The owner of private files: other users, sessions or agents cannot reach them. */
export interface Namespace {
  readonly scope: "session" | "user" | "agent";
  readonly id: string;
}

/** Which tasks share files. */
export type IsolationScope = Namespace["scope"] | "global";

/** The rule for an isolation scope. */
export const scopeField = oneOf<IsolationScope>("session", "user", "agent", "global");

/** The ids of a running task that can select a namespace. */
export interface TaskOwner {
  readonly userId?: string;
  readonly sessionId: string;
  readonly agentId: string;
}

/** The files that a path can reach, and those of them that can be written. */
export interface View {
  /** Names from the root of all files to the start of a path. */
  readonly base: readonly string[];
  /** Folded names at the start of a path that are read-only. */
  readonly readOnly: ReadonlySet<string>;
  readonly absolute: readonly string[];
}

/** A resolved path. */
export interface Place {
  /** The normalized path as the model may see it; "" is the root. */
  readonly path: string;
  /** Names from the root of all files to the start of the path. */
  readonly base: readonly string[];
  readonly names: readonly string[];
  readonly writable: boolean;
  /** True: it steers the agent, so a layer never has it, whatever a command has left there. */
  readonly isCommon?: boolean;
}

/** The folded name of instructions, which are read-only in every directory. */
const foldedInstructions = "agents.md";

/** Prefix of internal names (namespaces, locks, temporary files), which no model's path can reach. */
export const reservedPrefix = ".rivulet";
/** Prefix of a file that hides the common file or directory with the rest of its name, as in OCI image layers. */
export const whiteoutPrefix = ".wh.";
// A hook or setting in it would run the next time someone uses git.
const neverWritable = ".git";

/** The maximum number of names in a path. */
export const maxDepth = 64;
const maxPathBytes = 4096;
const maxNameBytes = 255 - whiteoutPrefix.length;
const maxIdLength = 256;
const maxDirectoryName = 120;

/** Refused on every system, so that a path means the same everywhere. */
const refusedNames: readonly (readonly [RegExp, string])[] = [
  [/\p{Cc}/u, "has a control character"],
  [/[\p{Bidi_Control}\p{Noncharacter_Code_Point}\p{Zl}\p{Zp}]/u, "has an invisible character"],
  [/\\/, "has a backslash: use / between names"],
  [/:/, "has a colon"],
  [/[\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68]/u, "has a character that looks like a slash"],
  [/^\s|[\s.]$/u, "starts or ends with a space, or ends with a dot"],
  [/%(?:00|2[5ef]|5c|c[01]|e0%[89]|f0%8|u[0-9a-f]{4})/i, "has an encoded dot or slash"],
  [/^(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])(?:\.|$)/i, "names a device"],
  [/^[^~.]{1,8}~[0-9]{1,6}(?:\.[^.]{0,3})?$/, "looks like a short 8.3 name"],
];

/** Returns why a name cannot be used for a file or directory; undefined when it can. */
export function nameProblem(name: string): string | undefined {
  if (Buffer.byteLength(name) > maxNameBytes) return `is longer than ${maxNameBytes} bytes`;
  for (const [pattern, problem] of refusedNames) if (pattern.test(name)) return problem;
  // Some systems treat look-alike characters as the real ones.
  if (/[/\\]|^\.+$/.test(name.normalize("NFKC"))) return "has look-alikes of dots or slashes";
  const folded = foldName(name);
  const isReserved = folded.startsWith(reservedPrefix) || folded.startsWith(whiteoutPrefix);
  return isReserved ? "is reserved" : undefined;
}

/** Returns whether a file with this name in any directory holds instructions for an agent. */
export function isInstructions(name: string): boolean {
  // Nearly all names are of this kind, and a walk asks about each.
  if (/^[ -~]+$/.test(name)) return name.toLowerCase() === foldedInstructions;
  return foldName(name) === foldedInstructions;
}

/** Returns whether a path can contain this name; volumes hide all other names. */
export function isUsableName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && nameProblem(name) === undefined;
}

/** Maps all spellings that some disk treats as the same name to one form. */
export function foldName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .toUpperCase()
    .toLowerCase();
}

/** Joins a directory's path and a name. */
export function pathIn(directory: string, name: string): string {
  return directory === "" ? name : `${directory}/${name}`;
}

/** Compares by path, the order of every result. */
export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}

/** Returns the namespace of a task; undefined is the root, which tasks without a user also use. */
export function namespaceOf(scope: IsolationScope, owner: TaskOwner): Namespace | undefined {
  const { userId: user, sessionId: session, agentId: agent } = owner;
  const id = { user, session, agent, global: undefined }[scope];
  return scope === "global" || id === undefined ? undefined : { scope, id };
}

/**
 * Returns the directory name of a namespace. Two ids never share one, even on disks that ignore case or normalize
 * letters: every character except small letters, digits, `-` and `_` is encoded as its bytes.
 */
export function namespaceDirectory({ scope, id }: Namespace): string {
  if (id === "" || id.length > maxIdLength || !id.isWellFormed()) {
    const rule = `must have 1 to ${maxIdLength} characters of well-formed text`;
    throw fileError("invalid_namespace", `A ${scope} id ${rule}.`);
  }
  const name = id.replace(/[^a-z0-9_-]/gu, (character) =>
    Buffer.from(character).toString("hex").replace(/../g, "=$&"),
  );
  if (name.length <= maxDirectoryName) return `${scope}-${name}`;
  // An encoded name never has "==", so a hash cannot collide with one.
  return `${scope}-==${sha256(id)}`;
}

/** Returns the names from the root of all files to the layer of a namespace. */
export function layerOf(namespace: Namespace): readonly string[] {
  return [reservedPrefix, "namespaces", namespaceDirectory(namespace)];
}

/** Creates the view of a directory. */
export function viewOf(
  readOnly: readonly string[] = controlFiles,
  base: readonly string[] = [],
  absolute: readonly string[] = [],
): View {
  return { base, readOnly: new Set(readOnly.map(foldName)), absolute };
}

/**
 * Resolves a model's path; nothing else turns a path into a place. It does not decode, trim or normalize names, and it
 * does not access a disk, so an error reveals nothing about one.
 */
export function resolvePath(path: string, view: View): Place {
  const names = namesOf(path, view);
  for (const name of names) {
    const problem = nameProblem(name);
    if (problem === undefined) continue;
    const message = `${quotePath(path)} cannot be used: ${quotePath(name)} ${problem}.`;
    throw fileError("invalid_path", message);
  }
  if (names.length > maxDepth) {
    throw fileError("invalid_path", `${quotePath(path)} has more than ${maxDepth} names.`);
  }
  const folded = names.map(foldName);
  const steers = (name: string, depth: number) =>
    view.readOnly.has(name) && (depth === 0 || name === foldedInstructions);
  const isReadOnly = folded.some((name, depth) => name === neverWritable || steers(name, depth));
  // The workspaces of subagents are read-only from here, but their files may be in a layer.
  const isCommon = folded.some((name, depth) => name !== steering.agents && steers(name, depth));
  const place = { path: names.join("/"), base: view.base, names, writable: !isReadOnly };
  return isCommon ? { ...place, isCommon } : place;
}

/** Resolves a path for writing; throws `read_only`. */
export function resolveForWriting(path: string, view: View): Place {
  const place = resolvePath(path, view);
  if (place.writable) return place;
  throw fileError("read_only", `${quotePath(place.path)} is read-only.`, "Write to another path.");
}

function namesOf(path: string, view: View): readonly string[] {
  readArgument("path", path, required(text, '"notes/today.md"'));
  if (!path.isWellFormed() || Buffer.byteLength(path) > maxPathBytes) {
    const rule = `must be well-formed text of at most ${maxPathBytes} bytes`;
    throw fileError("invalid_path", `The path ${quotePath(path.toWellFormed())} ${rule}.`);
  }
  const names: string[] = [];
  for (const name of relativePath(path, view).split("/")) {
    if (name === "" || name === ".") continue;
    if (name !== "..") names.push(name);
    else if (names.pop() === undefined) throw outside(path);
  }
  // A shell would expand these to a home directory.
  if (/^~[\w.-]*$/.test(names[0] ?? "")) throw outside(path);
  return names;
}

/** An absolute path must lead to the caller's files; `/` alone is the root. */
function relativePath(path: string, view: View): string {
  if (!path.startsWith("/") || path === "/") return path;
  for (const base of view.absolute) {
    if (path === base) return "";
    if (path.startsWith(`${base}/`)) return path.slice(base.length + 1);
  }
  throw outside(path);
}

function outside(path: string): Error {
  const message = `${quotePath(path)} is outside the workspace.`;
  const hint = 'Use a path relative to the workspace, such as "notes/plan.md".';
  return fileError("outside_workspace", message, hint);
}
