import { isAbsolute, relative, resolve } from "node:path";
import { RivuletError } from "../../base/error.ts";
import { fileError } from "../filesystem/file-error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { localFilesystem } from "../filesystem/local.ts";
import { foldName } from "../filesystem/path.ts";
import { steering } from "../filesystem/steering.ts";
import { exactText } from "../filesystem/text.ts";
import type { LocalSubagent } from "./declaration.ts";

/** Directories that the operator allows besides the workspace. */
export interface PlacementOptions {
  /** Absolute paths of directories that may contain definitions. */
  readonly roots?: readonly string[];
}

/**
 * Returns the files and system prompt of a subagent. With `workspace`, an isolated subagent works there, and a shared one
 * only takes its system prompt from there. Without it, an isolated subagent works in `agents/<name>/workspace`.
 */
export async function placeSubagent(
  declaration: LocalSubagent,
  main: Filesystem,
  options: PlacementOptions = {},
): Promise<{ readonly files: Filesystem; readonly systemPrompt: string }> {
  const { name, workspace, workspaceMode = "isolated", systemPrompt = "" } = declaration;
  const isShared = workspaceMode === "shared";
  if (workspace === undefined) {
    return {
      files: isShared ? main : main.below(`${steering.agents}/${name}/workspace`),
      systemPrompt,
    };
  }
  const definition = openDefinition(workspace, main, { ...options, isShared });
  return { files: isShared ? main : definition, systemPrompt: await personaIn(definition) };
}

/** Opens the directory that defines a subagent; throws if it is outside the allowed directories or not workable. */
export function openDefinition(
  path: string,
  main: Filesystem,
  { roots = [], isShared }: PlacementOptions & { readonly isShared: boolean },
): Filesystem {
  let definition: Filesystem;
  let below: string;
  try {
    definition = main.below(path);
    below = main.normalize(path);
  } catch (error) {
    const root = isAbsolute(path)
      ? roots.find((candidate) => isWithin(candidate, path))
      : undefined;
    if (root === undefined) throw withRootsHint(error);
    below = relative(root, resolve(path)).replaceAll("\\", "/");
    definition = localFilesystem(root).below(below);
  }
  if (!isShared) checkWorkable(below, path);
  return definition;
}

/** An agent can write where it works, so it must not work where other agents are configured. */
function checkWorkable(path: string, asWritten: string): void {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const [first = "", ...below] = names.map(foldName);
  const isConfiguration = first === steering.subagents || first === steering.skills;
  const holdsAgents = first === steering.agents && below.length === 0;
  if (!isConfiguration && !holdsAgents && ![first, ...below].includes(".git")) return;
  throw fileError(
    "read_only",
    `A subagent cannot work in ${JSON.stringify(asWritten)}.`,
    "Choose another directory, or set the mode to shared.",
  );
}

function isWithin(root: string, path: string): boolean {
  const between = relative(root, resolve(path));
  return between !== ".." && !/^\.\.[/\\]/.test(between) && !isAbsolute(between);
}

function withRootsHint(error: unknown): unknown {
  if (!(error instanceof RivuletError) || error.code !== "outside_workspace") return error;
  const hint =
    "Move it into the workspace, or add a directory above it to subagentRoots and use its absolute path.";
  return new RivuletError(error.code, error.message, { hint });
}

async function personaIn(definition: Filesystem): Promise<string> {
  try {
    const { data } = await definition.read(steering.instructions);
    return exactText(data, steering.instructions)
      .replace(/^\uFEFF/, "")
      .trim();
  } catch (error) {
    if (error instanceof RivuletError && error.code === "not_found") return "";
    throw error;
  }
}
