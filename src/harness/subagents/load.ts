import { type Clock, systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { FileStat, Filesystem } from "../filesystem/filesystem.ts";
import { exactText } from "../filesystem/text.ts";
import { oneLine } from "../prompts.ts";
import { isSettled, trackPaths } from "../workspace.ts";
import { checkDeclaration, type LocalSubagent } from "./declaration.ts";
import { readFrontMatter } from "./front-matter.ts";
import { openDefinition, type PlacementOptions } from "./placement.ts";

/** A problem with a file: a warning, or the reason why the file was skipped. */
export interface LoadProblem {
  readonly path: string;
  readonly level: "warning" | "skipped";
  readonly reason: string;
}

/** The declarations in a directory, ordered by file name. */
export interface LoadedDeclarations {
  readonly declarations: readonly LocalSubagent[];
  readonly problems: readonly LoadProblem[];
}

type Candidates = Awaited<ReturnType<typeof candidatesIn>>;
interface Loaded {
  /** The list of files; "" if they must be read again. */
  readonly seen: string;
  /** A cheap check of the files; false if they cannot be tracked. */
  readonly isCurrent: () => boolean;
  readonly loaded: LoadedDeclarations;
}
type Data = Readonly<Record<string, unknown>>;

const extension = ".md";
const maxFiles = 256;
const maxFileBytes = 256 * 1024;
const maxWarnings = 5; // about unknown keys of one file
const maxKey = 100;

/** Reads one subagent from each file of a directory; loads again when a file changes, or else returns the same object. */
export function declarationLoader(
  files: Filesystem,
  directory = "subagents",
  { clock = systemClock, ...options }: PlacementOptions & { readonly clock?: Clock } = {},
): () => Promise<LoadedDeclarations> {
  let last: Loaded | undefined;
  return async () => {
    if (last?.isCurrent()) return last.loaded;
    const isListCurrent = trackPaths(files, [directory]);
    const candidates = await candidatesIn(files, directory);
    const seen = JSON.stringify(candidates);
    if (!isListCurrent && last?.seen === seen) return last.loaded;
    const isEachCurrent = trackPaths(
      files,
      candidates.entries.map(({ path }) => path),
    );
    const now = clock.now();
    const { loaded, isComplete } = await load(files, candidates, options);
    const isCacheable = isComplete && candidates.entries.every((entry) => isSettled(entry, now));
    const isSame = JSON.stringify(last?.loaded) === JSON.stringify(loaded);
    last = {
      seen: isCacheable ? seen : "",
      isCurrent: () => isCacheable && isListCurrent?.() === true && isEachCurrent?.() === true,
      loaded: last && isSame ? last.loaded : loaded,
    };
    return last.loaded;
  };
}

async function candidatesIn(files: Filesystem, directory: string) {
  const skipped = (reason: string): LoadProblem => ({ path: directory, level: "skipped", reason });
  try {
    const { entries, cut } = await files.list(directory);
    const found = entries.filter(
      ({ path, type }) => type !== "directory" && path.endsWith(extension),
    );
    const hasMore = cut || found.length > maxFiles;
    return {
      entries: found.slice(0, maxFiles),
      problems: hasMore ? [skipped(`Only the first ${maxFiles} files are read.`)] : [],
    };
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    const problems = error.code === "not_found" ? [] : [skipped(reasonOf(error))];
    return { entries: [], problems };
  }
}

async function load(files: Filesystem, candidates: Candidates, options: PlacementOptions) {
  const declarations: LocalSubagent[] = [];
  const problems = [...candidates.problems];
  const paths = new Map<string, string>();
  let isComplete = true;
  for (const entry of candidates.entries) {
    const { path } = entry;
    try {
      const { declaration, warnings } = await readDeclaration(files, entry, options);
      const folded = declaration.name.toLowerCase();
      const earlier = paths.get(folded);
      if (earlier !== undefined) throw unusable(`${earlier} declares the same name.`);
      paths.set(folded, path);
      declarations.push(declaration);
      for (const reason of warnings) problems.push({ path, level: "warning", reason });
    } catch (error) {
      if (!(error instanceof RivuletError)) throw error;
      // The same file may be readable the next time.
      if (error.code === "file_failed" || error.code === "not_found") isComplete = false;
      problems.push({ path, level: "skipped", reason: reasonOf(error) });
    }
  }
  return { loaded: { declarations, problems }, isComplete };
}

async function readDeclaration(files: Filesystem, entry: FileStat, options: PlacementOptions) {
  const { path, type, size } = entry;
  if (type !== "file") throw unusable("It is not a regular file. Links are not followed.");
  const data = size > maxFileBytes ? undefined : (await files.read(path)).data;
  if (!data || data.byteLength > maxFileBytes) {
    throw unusable(`It is larger than ${maxFileBytes} bytes.`);
  }
  const parts = await readFrontMatter(exactText(data, path));
  if ("problem" in parts) throw unusable(parts.problem);
  if (parts.data === undefined) {
    throw unusable("It must start with front matter: a line that is exactly ---.");
  }
  const name = path.slice(path.lastIndexOf("/") + 1, -extension.length);
  const read = declarationOf(name, parts.data, parts.body.replaceAll("\r\n", "\n").trim());
  const { workspace, workspaceMode } = read.declaration;
  if (workspace !== undefined) {
    openDefinition(workspace, files, { ...options, isShared: workspaceMode === "shared" });
  }
  return read;
}

const fileKeys = ["description", "workspace", "model", "maxIters", "steps", "tools"];
const workspaceKeys = ["mode", "path"];

/** Hints for keys that have another name here. */
const advice: Readonly<Record<string, string>> = {
  name: "the file name is the name",
  url: "declare remote subagents in code",
  headers: "declare remote subagents in code",
  "workspace.mode": "put mode below workspace",
  "workspace.path": "put path below workspace",
};

function declarationOf(name: string, data: Data, body: string) {
  if (Array.isArray(data.model)) throw unusable("Its model must be one name, got a list.");
  const place = workspaceOf(data.workspace);
  const hasBoth = isSet(place.path) && body !== "";
  const warnings = [
    ...unknownKeys(data, fileKeys, ""),
    ...unknownKeys(place, workspaceKeys, "workspace."),
    ...(isSet(data.steps) && isSet(data.maxIters) ? ["steps is ignored: maxIters is set."] : []),
    ...(hasBoth ? ["Its text is ignored: the AGENTS.md of its workspace is used."] : []),
  ];
  const settings = {
    name,
    description: trimmed(data.description),
    model: data.model,
    maxIters: numberOf(data.maxIters ?? data.steps),
    tools: toolsOf(data.tools),
    workspaceMode: place.mode,
    workspace: place.path,
    systemPrompt: isSet(place.path) || body === "" ? undefined : body,
  };
  const entries = Object.entries(settings).filter(([, value]) => isSet(value));
  const declaration: unknown = Object.fromEntries(entries);
  checkDeclaration(declaration);
  return { declaration: declaration as LocalSubagent, warnings };
}

function workspaceOf(value: unknown): Data {
  if (!isSet(value)) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Data;
  throw unusable("Its workspace must have the keys mode or path.");
}

function unknownKeys(data: Data, keys: readonly string[], prefix: string): readonly string[] {
  const unknown = Object.keys(data).filter((key) => !keys.includes(key));
  const warnings = unknown.slice(0, maxWarnings).map((key) => {
    const name = prefix + key;
    const reason = Object.hasOwn(advice, name) ? advice[name] : "it is an unknown key";
    return `${JSON.stringify(oneLine(name, maxKey))} is ignored: ${reason}.`;
  });
  const more = unknown.length - warnings.length;
  return more > 0 ? [...warnings, `${more} more unknown keys are ignored.`] : warnings;
}

/** YAML reads a key without a value as null. */
function isSet<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}

function trimmed(value: unknown): unknown {
  return typeof value === "string" ? value.trim() : value;
}

function numberOf(value: unknown): unknown {
  return typeof value === "string" && /^\d{1,9}$/.test(value.trim()) ? Number(value) : value;
}

/** Accepts a list or a string with commas. */
function toolsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(trimmed);
  if (typeof value !== "string") return value;
  return value.split(",").flatMap((name) => name.trim() || []);
}

function unusable(reason: string): RivuletError {
  return new RivuletError("invalid_declaration", reason);
}

function reasonOf({ message, hint }: RivuletError): string {
  return hint === undefined ? message : `${message} ${hint}`;
}
