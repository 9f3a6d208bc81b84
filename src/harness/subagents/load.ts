import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import { fileLoader, type LoadProblem, problemReason } from "../filesystem/file-loader.ts";
import type { FileStat, Filesystem } from "../filesystem/filesystem.ts";
import { steering } from "../filesystem/steering.ts";
import { exactText } from "../filesystem/text.ts";
import { readFrontMatter, unknownKeys } from "../front-matter.ts";
import { checkDeclaration, type LocalSubagent } from "./declaration.ts";
import { openDefinition, type PlacementOptions } from "./placement.ts";

/** The declarations in a directory, ordered by file name. */
export interface LoadedDeclarations {
  readonly declarations: readonly LocalSubagent[];
  readonly problems: readonly LoadProblem[];
}

type Candidates = Awaited<ReturnType<typeof candidatesIn>>;
type Data = Readonly<Record<string, unknown>>;

const extension = ".md";
const maxFiles = 256;
const maxFileBytes = 256 * 1024;

/** Reads one subagent from each file of a directory; loads again when a file changes, or else returns the same object. */
export function declarationLoader(
  files: Filesystem,
  directory: string = steering.subagents,
  { clock, ...options }: PlacementOptions & { readonly clock?: Clock } = {},
): () => Awaitable<LoadedDeclarations> {
  const find = () => candidatesIn(files, directory);
  const loadFound = (found: Candidates) => load(files, found, options);
  return fileLoader(files, directory, { find, load: loadFound }, clock);
}

async function candidatesIn(files: Filesystem, directory: string) {
  const skipped = (reason: string): LoadProblem => ({ path: directory, level: "skipped", reason });
  try {
    const { entries, cut } = await files.list(directory);
    const found = entries.filter(
      ({ path, type }) => type !== "directory" && path.endsWith(extension),
    );
    const hasMore = cut || found.length > maxFiles;
    const kept = found.slice(0, maxFiles);
    return {
      entries: kept,
      paths: kept.map(({ path }) => path),
      problems: hasMore ? [skipped(`Only the first ${maxFiles} files are read.`)] : [],
    };
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    const problems = error.code === "not_found" ? [] : [skipped(problemReason(error))];
    return { entries: [], paths: [], problems };
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
      problems.push({ path, level: "skipped", reason: problemReason(error) });
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

const fileKeys = [
  ...["description", "workspace", "filesystem", "model", "maxIters", "steps", "tools", "skills"],
  ...["compaction", "eviction"],
];
const workspaceKeys = ["mode", "path"];
const filesystemKeys = ["sandbox"];

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
  const place = objectOf("workspace", data.workspace, workspaceKeys);
  const files = objectOf("filesystem", data.filesystem, filesystemKeys);
  // The jail itself is for the operator's code to choose.
  if (isSet(files.sandbox) && typeof files.sandbox !== "boolean") {
    throw unusable("Its filesystem.sandbox must be true or false.");
  }
  const hasBoth = isSet(place.path) && body !== "";
  const warnings = [
    ...unknownKeys(data, fileKeys, advice),
    ...unknownKeys(place, workspaceKeys, advice, "workspace."),
    ...unknownKeys(files, filesystemKeys, advice, "filesystem."),
    ...(isSet(data.steps) && isSet(data.maxIters) ? ["steps is ignored: maxIters is set."] : []),
    ...(hasBoth ? ["Its text is ignored: the AGENTS.md of its workspace is used."] : []),
  ];
  const settings = {
    name,
    description: trimmed(data.description),
    model: data.model,
    maxIters: numberOf(data.maxIters ?? data.steps),
    tools: namesOf(data.tools),
    skills: namesOf(data.skills),
    compaction: data.compaction,
    eviction: data.eviction,
    workspaceMode: place.mode,
    workspace: place.path,
    filesystem: isSet(files.sandbox) ? { sandbox: files.sandbox } : undefined,
    systemPrompt: isSet(place.path) || body === "" ? undefined : body,
  };
  const entries = Object.entries(settings).filter(([, value]) => isSet(value));
  const declaration: unknown = Object.fromEntries(entries);
  checkDeclaration(declaration);
  return { declaration: declaration as LocalSubagent, warnings };
}

function objectOf(key: string, value: unknown, keys: readonly string[]): Data {
  if (!isSet(value)) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Data;
  const [noun, names] = [keys.length > 1 ? "keys" : "key", keys.join(" or ")];
  throw unusable(`Its ${key} must have the ${noun} ${names}.`);
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
function namesOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(trimmed);
  if (typeof value !== "string") return value;
  return value.split(",").flatMap((name) => name.trim() || []);
}

function unusable(reason: string): RivuletError {
  return new RivuletError("invalid_declaration", reason);
}
