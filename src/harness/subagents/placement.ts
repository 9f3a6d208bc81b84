import { isAbsolute, posix, relative, resolve } from "node:path";
import { RivuletError } from "../../protocol/error.ts";
import { fileError } from "../filesystem/file-error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { localFilesystem } from "../filesystem/local.ts";
import { foldName } from "../filesystem/name.ts";
import { exactText } from "../filesystem/text.ts";
import type { LocalSubagent } from "./declaration.ts";

/** Where a subagent lives and what it is told. */
export interface Placement {
  /** The root of its files. */
  readonly files: Filesystem;
  /** What its system prompt begins with; may be empty. */
  readonly instructions: string;
}

/** What an operator allows besides the workspace. */
export interface PlacementOptions {
  /** Absolute paths of directories of this machine: a definition may lie below one of them. */
  readonly roots?: readonly string[];
}

/**
 * Places a subagent by its workspace and mode. A directory of its own is where it works when it is isolated, and only
 * tells what it is when it shares the files of its caller. Without one, isolated work is done in a directory that
 * carries its name and comes into being with the first file in it.
 */
export async function placeSubagent(
  declaration: LocalSubagent,
  main: Filesystem,
  options: PlacementOptions = {},
): Promise<Placement> {
  const { name, workspace, workspaceMode = "isolated", instructions = "" } = declaration;
  const isShared = workspaceMode === "shared";
  if (workspace === undefined) {
    return { files: isShared ? main : main.below(`agents/${name}/workspace`), instructions };
  }
  const definition = await openDefinition(workspace, main, { ...options, isShared });
  return { files: isShared ? main : definition, instructions: await personaIn(definition) };
}

/** The directory that defines a subagent. Throws when it lies elsewhere than it may, or cannot be worked in. */
export async function openDefinition(
  path: string,
  main: Filesystem,
  { roots = [], isShared }: PlacementOptions & { readonly isShared: boolean },
): Promise<Filesystem> {
  let definition: Filesystem;
  try {
    definition = main.below(path);
  } catch (error) {
    const root = isAbsolute(path) ? roots.find((one) => isWithin(one, path)) : undefined;
    if (root === undefined) throw withRootsHint(error);
    const below = relative(root, resolve(path)).replaceAll("\\", "/");
    if (!isShared) checkWorkable(below, path);
    return localFilesystem(root).below(below);
  }
  if (!isShared) checkWorkable((await main.stat(path))?.path ?? posix.normalize(path), path);
  return definition;
}

/** Who works in a directory may write there, and what steers other agents must stay out of reach. */
function checkWorkable(path: string, asWritten: string): void {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const [first = "", ...below] = names.map(foldName);
  const steers = first === "subagents" || first === "skills";
  const holdsAll = first === "agents" && below.length === 0;
  if (!steers && !holdsAll && ![first, ...below].includes(".git")) return;
  throw fileError(
    "read_only",
    `A subagent cannot work in ${JSON.stringify(asWritten)}.`,
    "Give it another directory, or let it share the workspace.",
  );
}

function isWithin(root: string, path: string): boolean {
  const between = relative(root, resolve(path));
  return between !== ".." && !/^\.\.[/\\]/.test(between) && !isAbsolute(between);
}

function withRootsHint(error: unknown): unknown {
  if (!(error instanceof RivuletError) || error.code !== "outside_workspace") return error;
  const hint = "Move it into the workspace, or list a root above it and give its absolute path.";
  return new RivuletError(error.code, error.message, { hint });
}

async function personaIn(definition: Filesystem): Promise<string> {
  try {
    const { data } = await definition.read("AGENTS.md");
    return exactText(data, "AGENTS.md")
      .replace(/^\uFEFF/, "")
      .trim();
  } catch (error) {
    if (error instanceof RivuletError && error.code === "not_found") return "";
    throw error;
  }
}
