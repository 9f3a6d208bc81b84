import { type Clock, systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { FileStat, Filesystem } from "../filesystem/filesystem.ts";
import { exactText } from "../filesystem/text.ts";
import { checkDeclaration, type LocalSubagent } from "./declaration.ts";
import { readFrontMatter } from "./front-matter.ts";
import { openDefinition, type PlacementOptions } from "./placement.ts";

/** What is wrong with a file: it was read nevertheless, or it was left out. */
export interface LoadProblem {
  readonly path: string;
  readonly level: "warning" | "skipped";
  readonly reason: string;
}

/** What a directory declares. */
export interface LoadedDeclarations {
  /** Ordered by the names of their files. */
  readonly declarations: readonly LocalSubagent[];
  readonly problems: readonly LoadProblem[];
}

const extension = ".md";
const maxFiles = 256;
const maxFileBytes = 256 * 1024;
/** Two writes may have the same date; a directory with a file that was written so recently is read again. */
const freshMs = 2_000;

/**
 * Reads the subagents that the files of a directory declare, one each, not those of directories in it. A file that
 * cannot be used is left out and never stops the others; of two whose names differ only in case the first counts.
 */
export async function loadDeclarations(
  files: Filesystem,
  directory = "subagents",
  options: PlacementOptions = {},
): Promise<LoadedDeclarations> {
  return (await load(files, await candidatesIn(files, directory), options)).loaded;
}

/** Loads again what has changed since the last time; as long as nothing has, it gives the very same object. */
export function declarationLoader(
  files: Filesystem,
  directory = "subagents",
  { clock = systemClock, ...options }: PlacementOptions & { readonly clock?: Clock } = {},
): () => Promise<LoadedDeclarations> {
  let last: { readonly seen: string | undefined; readonly loaded: LoadedDeclarations } | undefined;
  return async () => {
    const candidates = await candidatesIn(files, directory);
    const seen = JSON.stringify(candidates);
    if (last?.seen === seen) return last.loaded;
    const now = clock.now();
    const { loaded, isWhole } = await load(files, candidates, options);
    const isSettled = candidates.entries.every(
      ({ modifiedAt }) => modifiedAt > 0 && now - modifiedAt > freshMs,
    );
    const isSame = last && JSON.stringify(last.loaded) === JSON.stringify(loaded);
    last = {
      seen: isWhole && isSettled ? seen : undefined,
      loaded: last && isSame ? last.loaded : loaded,
    };
    return last.loaded;
  };
}

interface Candidates {
  readonly entries: readonly FileStat[];
  readonly problems: readonly LoadProblem[];
}

async function candidatesIn(files: Filesystem, directory: string): Promise<Candidates> {
  const skipped = (reason: string): LoadProblem => ({ path: directory, level: "skipped", reason });
  try {
    const { entries, cut } = await files.list(directory);
    const found = entries.filter(({ path, type }) => type !== "directory" && isDeclaring(path));
    const isMore = cut || found.length > maxFiles;
    return {
      entries: found.slice(0, maxFiles),
      problems: isMore ? [skipped(`Only the first ${maxFiles} files in it are read.`)] : [],
    };
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    const problems = error.code === "not_found" ? [] : [skipped(reasonOf(error))];
    return { entries: [], problems };
  }
}

function isDeclaring(path: string): boolean {
  return path.endsWith(extension);
}

async function load(
  files: Filesystem,
  { entries, problems: found }: Candidates,
  options: PlacementOptions,
): Promise<{ readonly loaded: LoadedDeclarations; readonly isWhole: boolean }> {
  const declarations: LocalSubagent[] = [];
  const problems = [...found];
  const names = new Map<string, string>();
  let isWhole = true;
  for (const entry of entries) {
    const { path } = entry;
    try {
      const read = await readDeclaration(files, entry, options);
      const same = read.declaration.name.toLowerCase();
      const before = names.get(same);
      if (before !== undefined) throw unusable(`${before} declares the same name.`);
      names.set(same, path);
      declarations.push(read.declaration);
      for (const reason of read.warnings) problems.push({ path, level: "warning", reason });
    } catch (error) {
      if (!(error instanceof RivuletError)) throw error;
      // The file is as it was, and may still be read the next time.
      if (error.code === "file_failed" || error.code === "not_found") isWhole = false;
      problems.push({ path, level: "skipped", reason: reasonOf(error) });
    }
  }
  return { loaded: { declarations, problems }, isWhole };
}

interface ReadDeclaration {
  readonly declaration: LocalSubagent;
  readonly warnings: readonly string[];
}

async function readDeclaration(
  files: Filesystem,
  { path, type, size }: FileStat,
  options: PlacementOptions,
): Promise<ReadDeclaration> {
  if (type !== "file") throw unusable("It is not a regular file, and links are not followed.");
  if (size > maxFileBytes) throw tooLarge();
  const { data } = await files.read(path);
  if (data.byteLength > maxFileBytes) throw tooLarge();
  const parts = readFrontMatter(exactText(data, path));
  if ("problem" in parts) throw unusable(parts.problem);
  if (parts.data === undefined) {
    throw unusable("It does not begin with front matter: a line that is exactly ---.");
  }
  const name = path.slice(path.lastIndexOf("/") + 1, -extension.length);
  const read = declarationOf(name, parts.data, parts.body.replaceAll("\r\n", "\n").trim());
  const { workspace, workspaceMode } = read.declaration;
  if (workspace !== undefined) {
    await openDefinition(workspace, files, { ...options, isShared: workspaceMode === "shared" });
  }
  return read;
}

const knownKeys: readonly string[] = [
  "description",
  "workspace",
  "model",
  "maxIters",
  "steps",
  "tools",
];
const knownInWorkspace: readonly string[] = ["mode", "path"];

/** What to do in place of some keys that somebody may expect to work. */
const advice: Readonly<Record<string, string>> = {
  name: "the name of the file is the name",
  url: "declare a subagent on another server in code",
  headers: "declare a subagent on another server in code",
  "workspace.mode": "write mode below workspace",
  "workspace.path": "write path below workspace",
};

function declarationOf(
  name: string,
  data: Readonly<Record<string, unknown>>,
  body: string,
): ReadDeclaration {
  if (Array.isArray(data.model)) throw unusable("Its model is a list, and a file can name one.");
  const place = workspaceOf(data.workspace);
  const hasBoth = isSet(place.path) && body !== "";
  const warnings = [
    ...unknownKeys(data, knownKeys, ""),
    ...unknownKeys(place, knownInWorkspace, "workspace."),
    ...(isSet(data.steps) && isSet(data.maxIters) ? ["steps is ignored: maxIters is there."] : []),
    ...(hasBoth ? ["Its text is ignored: the AGENTS.md of its workspace counts."] : []),
  ];
  const declaration: unknown = Object.fromEntries(
    Object.entries({
      name,
      description: trimmed(data.description),
      model: data.model,
      maxIters: numberOf(data.maxIters ?? data.steps),
      tools: toolsOf(data.tools),
      workspaceMode: place.mode,
      workspace: place.path,
      instructions: isSet(place.path) || body === "" ? undefined : body,
    }).filter(([, value]) => isSet(value)),
  );
  checkDeclaration(declaration);
  return { declaration: declaration as LocalSubagent, warnings };
}

function workspaceOf(value: unknown): Readonly<Record<string, unknown>> {
  if (!isSet(value)) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  throw unusable("Its workspace has no keys. Write mode and path below it.");
}

function unknownKeys(
  data: Readonly<Record<string, unknown>>,
  known: readonly string[],
  prefix: string,
): readonly string[] {
  return Object.keys(data).flatMap((key) => {
    if (known.includes(key)) return [];
    const instead = Object.hasOwn(advice, prefix + key) ? advice[prefix + key] : "it is not known";
    return [`${JSON.stringify(prefix + key)} is ignored: ${instead}.`];
  });
}

/** A key without a value is as good as none. */
function isSet<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}

function trimmed(value: unknown): unknown {
  return typeof value === "string" ? value.trim() : value;
}

/** A number may stand between quotes. */
function numberOf(value: unknown): unknown {
  return typeof value === "string" && /^\d{1,9}$/.test(value.trim()) ? Number(value) : value;
}

/** A list may be written as one text with commas. */
function toolsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(trimmed);
  if (typeof value !== "string") return value;
  return value.split(",").flatMap((name) => name.trim() || []);
}

function unusable(reason: string): RivuletError {
  return new RivuletError("invalid_declaration", reason);
}

function tooLarge(): RivuletError {
  return unusable(`It is larger than ${maxFileBytes} bytes.`);
}

function reasonOf({ message, hint }: RivuletError): string {
  return hint === undefined ? message : `${message} ${hint}`;
}
