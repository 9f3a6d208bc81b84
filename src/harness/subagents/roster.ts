import { isAbsolute } from "node:path";
import {
  agentWith,
  joinPermissions,
  settingsBehind,
  Toolkit,
  type ToolSource,
} from "../../agent/index.ts";
import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { matchesGlob } from "../../base/glob.ts";
import { describe, invalid } from "../../base/options.ts";
import type { Awaitable } from "../../base/time.ts";
import { whenDone } from "../../base/time.ts";
import { type Agent, linkBehind, type TaskRef, type Tool } from "../../contract/index.ts";
import { childContextFiles } from "../context/context-files.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { withSandbox } from "../filesystem/sandbox.ts";
import { steering } from "../filesystem/steering.ts";
import type { Harness, HarnessAgentOptions } from "../harness.ts";
import { generalPurposeDescription, subagentContext } from "../prompts.ts";
import type { SkillsOfChild } from "../skills/skills.ts";
import { fileTools } from "../tools/files.ts";
import { executeName, shellTools } from "../tools/shell.ts";
import { loadSkillName } from "../tools/skills.ts";
import {
  isAgent,
  isLocal,
  type LocalSubagent,
  type MadeSubagent,
  type SubagentDeclaration,
} from "./declaration.ts";
import { declarationLoader, type LoadedDeclarations } from "./load.ts";
import { openDefinition, placeSubagent } from "./placement.ts";
import { remoteAgents } from "./remote.ts";

const generalPurpose = "general-purpose";

/** The tools for subagents and their tasks. */
export const subagentToolNames: ReadonlySet<string> = new Set([
  "agent_spawn",
  "agent_send",
  "agent_list",
  "task_output",
  "task_wait",
  "task_cancel",
  "task_list",
]);

const noFiles: LoadedDeclarations = { declarations: [], problems: [] };

const idleMs = 10 * 60_000; // how long an agent from a factory is kept after its last use

/** The child that an agent is needed for. */
export interface ForChild {
  readonly agentKey: string;
  readonly task: TaskRef;
  readonly depth: number;
  readonly userId?: string;
}

/** An agent type that a model can spawn. */
export interface RosterEntry {
  readonly name: string;
  readonly description: string;
  /** Absent for the built-in subagent. */
  readonly declaration?: SubagentDeclaration;
  /** The address of the server that it runs on; absent for one that runs here. */
  readonly url?: string;
  /** Returns the agent of a child. Children share one agent, unless a factory creates one for each. */
  agentFor(child: ForChild): Promise<Agent>;
}

/** The subagents of an agent. */
export interface Roster {
  entries(): Awaitable<readonly RosterEntry[]>;
  find(name: string): Promise<RosterEntry | undefined>;
}

/** Merges the built-in subagent, declarations in code, workspace files and factories; the later of two names wins. */
export function openRoster(harness: Harness, declared: readonly SubagentDeclaration[]): Roster {
  const { options, workspace, clock, warn } = harness;
  const { subagentRoots: roots = [] } = options;
  const builtIn: RosterEntry = {
    name: generalPurpose,
    description: generalPurposeDescription,
    agentFor: cached(async () => mirrorAgent(harness)),
  };
  const inCode = declared.filter(({ create }) => create === undefined).map(entryOf);
  const factories = declared.filter(({ create }) => create !== undefined).map(entryOf);
  const readsFiles = workspace && options.subagentFiles !== false;
  const load =
    readsFiles && declarationLoader(workspace.files, steering.subagents, { clock, roots });
  const { tools, toolkit = new Toolkit(tools && { tools }), toolSources = [] } = options;
  const sources = [...toolSources, ...(harness.servers ? [harness.servers] : [])];
  const ownTools = workspace ? [...fileTools(workspace.files), ...shellTools(workspace.files)] : [];
  const fileToolNames = ownTools.map(({ name }) => name);
  const skillToolNames = harness.skills ? [loadSkillName] : [];
  const namesOf = (source: ToolSource) => source.tools().map(({ name }) => name);
  const ownNames = [...toolkit.names, ...fileToolNames, ...skillToolNames];
  const toolNames = () => [...ownNames, ...sources.flatMap(namesOf)];
  // More tools can appear later, so a pattern that matches none is not certain to be wrong.
  const isOpen = toolkit.hasSources || sources.length > 0;
  const [unmatched] = isOpen ? [] : unmatchedPatterns(declared, toolNames());
  if (unmatched !== undefined) throw invalid(unmatched, "Use names or globs of the agent's tools.");
  checkPlaces(declared, workspace?.files);
  let loaded: readonly SubagentDeclaration[] | undefined;
  let merged: readonly RosterEntry[] = [];

  function entryOf(declaration: SubagentDeclaration): RosterEntry {
    const { name, description, agent, a2a } = declaration;
    const url = declaration.url ?? a2a ?? (agent && linkBehind(agent)?.url);
    const agentFor = agentSource(harness, declaration);
    return { name, description, declaration, agentFor, ...(url !== undefined && { url }) };
  }

  function merge(entries: readonly RosterEntry[]): readonly RosterEntry[] {
    const byName = new Map<string, RosterEntry>();
    for (const entry of entries) {
      const key = entry.name.toLowerCase();
      if (byName.has(key)) warn(`Subagent ${entry.name} is declared twice: the later one is used.`);
      byName.set(key, entry);
    }
    return [...byName.values()];
  }

  function entries(): Awaitable<readonly RosterEntry[]> {
    return load ? whenDone(load(), entriesWith) : entriesWith(noFiles);
  }

  function entriesWith({ declarations, problems }: LoadedDeclarations): readonly RosterEntry[] {
    if (declarations === loaded) return merged;
    loaded = declarations;
    for (const { path, reason } of problems) warn(`${path}: ${reason}`);
    for (const problem of unmatchedPatterns([...declared, ...declarations], toolNames())) {
      warn(problem);
    }
    merged = merge([builtIn, ...inCode, ...declarations.map(entryOf), ...factories]);
    return merged;
  }

  return {
    entries,
    async find(name) {
      const key = name.toLowerCase();
      return (await entries()).find((entry) => entry.name.toLowerCase() === key);
    },
  };
}

/** Describes the patterns of declarations, and of those below them, that match none of the tools. */
function unmatchedPatterns(
  declarations: readonly SubagentDeclaration[],
  names: readonly string[],
): readonly string[] {
  return declarations.flatMap(({ name, tools, subagents = [] }) => {
    const patterns = tools?.filter((entry) => typeof entry === "string") ?? [];
    const problems = patterns
      .filter((pattern) => pattern !== "*" && !names.some((tool) => matchesGlob(pattern, tool)))
      .map(
        (pattern) =>
          `The subagent ${name} has ${describe(pattern)} in tools, which matches no tool.`,
      );
    const isAllowed = tools ? allowlistOf(tools).allows : () => true;
    const added = tools?.flatMap((entry) => (typeof entry === "string" ? [] : entry.name)) ?? [];
    return [...problems, ...unmatchedPatterns(subagents, [...names.filter(isAllowed), ...added])];
  });
}

/** Throws if the directory of a declaration in code cannot be used. */
function checkPlaces(
  declarations: readonly SubagentDeclaration[],
  files: Filesystem | undefined,
): void {
  for (const { name, workspace, workspaceMode, subagents = [] } of declarations) {
    checkPlaces(subagents, files);
    if (workspace === undefined) continue;
    const problem = `The subagent ${name} has workspace ${describe(workspace)}`;
    if (!files) throw invalid(`${problem}, and the agent has no files.`, "Use systemPrompt.");
    try {
      openDefinition(workspace, files, {
        isShared: workspaceMode === "shared",
        roots: isAbsolute(workspace) ? [workspace] : [],
      });
    } catch (error) {
      if (!(error instanceof RivuletError)) throw error;
      const hint = "Use a directory inside the workspace, or an absolute path.";
      throw invalid(`${problem}: ${error.message}`, hint);
    }
  }
}

function agentSource(
  harness: Harness,
  declaration: SubagentDeclaration,
): (child: ForChild) => Promise<Agent> {
  if (isLocal(declaration)) return cached(() => declaredAgent(harness, declaration));
  if (declaration.url !== undefined || declaration.a2a !== undefined)
    return remoteAgents(declaration);
  const { agent } = declaration;
  if (agent) return cached(async () => withDeclaration(agent, declaration));
  const { create } = declaration as MadeSubagent;
  return cachedByKey(harness.clock, async ({ task, depth, userId }) => {
    const made: unknown = await create({ task, depth, ...(userId !== undefined && { userId }) });
    if (isAgent(made)) return withDeclaration(made, declaration);
    const message = `create of the subagent ${declaration.name} returned ${describe(made)}.`;
    throw invalid(message, "Return an Agent, such as a ReActAgent.");
  });
}

function withDeclaration(
  agent: Agent,
  { displayName, permissions, budget }: SubagentDeclaration,
): Agent {
  const own = settingsBehind(agent);
  if (own === undefined) return agent;
  return agentWith(agent, {
    ...(displayName !== undefined && { name: displayName }),
    ...(permissions && { permissions: joinPermissions([own.permissions, permissions]) }),
    ...(budget && { budget: { ...own.budget, ...budget } }),
  });
}

function cached<T>(create: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () => {
    value ??= create().catch((error: unknown) => {
      value = undefined;
      throw error;
    });
    return value;
  };
}

function cachedByKey(
  clock: Clock,
  create: (child: ForChild) => Promise<Agent>,
): (child: ForChild) => Promise<Agent> {
  const kept = new Map<string, { readonly agent: Promise<Agent>; usedAt: number }>();
  return (child) => {
    const now = clock.now();
    for (const [key, { usedAt }] of kept) if (now - usedAt > idleMs) kept.delete(key);
    const { agent } = kept.get(child.agentKey) ?? { agent: create(child) };
    kept.set(child.agentKey, { agent, usedAt: now });
    agent.catch(() => kept.delete(child.agentKey));
    return agent;
  };
}

/** Creates a subagent with the options of its parent, but without subagents. */
function mirrorAgent(harness: Harness): Agent {
  const { options } = harness;
  const common = commonOptions(harness, { owner: generalPurpose, isHere: true });
  return harness.create({
    ...options,
    ...common,
    hooks: [
      ...(options.hooks ?? []),
      ...common.hooks,
      ...(harness.memory ? [harness.memory.childHook] : []),
    ],
    name: generalPurpose,
    agentId: generalPurpose,
    contextFiles: options.contextFiles ?? (harness.memory ? childContextFiles : undefined),
    systemPrompt: joinSections(options.systemPrompt, subagentContext),
    subagents: false,
  });
}

/** Creates the agent of a declaration, with the options that it inherits from its parent. */
async function declaredAgent(harness: Harness, declaration: LocalSubagent): Promise<Agent> {
  const { options, workspace } = harness;
  const { tools, toolkit = new Toolkit(tools && { tools }), subagentRoots = [] } = options;
  const { name, displayName = name, description, maxIters, budget, permissions } = declaration;
  const { workspace: definition = "", subagents, leaf = subagents === undefined } = declaration;
  // A declaration in code may name any absolute path; the loader checks those in files.
  const roots = [...subagentRoots, ...(isAbsolute(definition) ? [definition] : [])];
  const placed = workspace && (await placeSubagent(declaration, workspace.files, { roots }));
  const added = (declaration.tools ?? []).filter((entry) => typeof entry !== "string");
  const addedNames = new Set(added.map((tool) => tool.name));
  const { skills, workspaceMode } = declaration;
  const common = commonOptions(harness, {
    owner: `The subagent ${name}`,
    isHere: workspaceMode === "shared",
    ...(skills && { names: skills }),
  });
  // An ancestor's list does not apply to the tools that this declaration adds.
  const sources = common.toolSources.map((source: ToolSource | Allowlist) =>
    "including" in source ? source.including(addedNames) : source,
  );
  const { filesystem: choice } = declaration;
  const files = placed && choice ? withSandbox(placed.files, choice) : placed?.files;
  return harness.create({
    ...Object.fromEntries(inheritedKeys.map((key) => [key, options[key]])),
    ...common,
    toolkit: toolkit.without(addedNames).with(added),
    toolSources: declaration.tools ? [...sources, allowlistFor(declaration)] : sources,
    name: displayName,
    agentId: name,
    description,
    ...modelOf(declaration, options),
    systemPrompt: joinSections(placed?.systemPrompt ?? declaration.systemPrompt, subagentContext),
    ...(placed && {
      filesystem: files,
      contextFiles: withoutPersona(options.contextFiles),
    }),
    eviction: declaration.eviction ?? options.eviction,
    maxIters,
    budget,
    permissions,
    subagents: leaf ? false : (subagents ?? []),
    // The parent's model can write to its workspace and must not declare agents there.
    subagentFiles: false,
  });
}

/** The model of a declaration, or the parent's with the options that are made for it. */
function modelOf({ model, compaction }: LocalSubagent, options: HarnessAgentOptions) {
  if (model !== undefined) return { model, compaction };
  const { model: inherited, models, modelOptions } = options;
  return { model: inherited, models, modelOptions, compaction: compaction ?? options.compaction };
}

/** The options that every child has, whatever its declaration says. */
function commonOptions(harness: Harness, child: SkillsOfChild) {
  const { options, store, clock, workspace, servers } = harness;
  const skills = child.names?.length === 0 ? undefined : harness.skills?.forChild(child);
  return {
    store,
    clock,
    workspace: undefined,
    filesystem: workspace ? workspace.files : (false as const),
    // Children run where their root runs.
    place: harness.place,
    wakeOnCompletion: false,
    // Children use their parent's MCP servers.
    mcp: false,
    toolsFile: false,
    toolSources: [...(options.toolSources ?? []), ...(servers ? [servers] : [])],
    // Only root sessions are distilled.
    memory: false,
    // Their skills come from the workspace of their parent.
    skills: false,
    hooks: [...(servers ? [servers.hook] : []), ...(skills ? [skills.hook] : [])],
  } as const;
}

const inheritedKeys: readonly (keyof HarnessAgentOptions)[] = [
  "execution",
  "modelExecution",
  "price",
  "tracer",
  "ids",
  "references",
  "rawReasoning",
  "approvalTimeoutMs",
  "isolation",
  "limits",
  "todos",
  "planMode",
  "onWarning",
];

interface Allowlist extends ToolSource {
  allows: (name: string) => boolean;
  /** Returns a list that also allows these names. */
  including(names: ReadonlySet<string>): Allowlist;
}

/** Returns whether the lists that limit an agent's tools include the one for commands. */
export function mayExecute({ toolSources = [] }: HarnessAgentOptions): boolean {
  return toolSources.every((source) => source.allows?.(executeName) ?? true);
}

function allowlist(allows: (name: string) => boolean): Allowlist {
  return {
    refresh: () => Promise.resolve(),
    tools: () => [],
    allows,
    including: (names) => allowlist((name) => names.has(name) || allows(name)),
  };
}

function allowlistOf(entries: readonly (string | Tool)[]): Allowlist {
  const added = new Set(entries.map((entry) => (typeof entry === "string" ? "" : entry.name)));
  const globs = entries.filter((entry) => typeof entry === "string");
  const isSelected = (name: string) => globs.some((glob) => matchesGlob(glob, name));
  // The subagent tools are never inherited, so the list does not apply to them.
  return allowlist((name) => added.has(name) || subagentToolNames.has(name) || isSelected(name));
}

/** A declaration that names skills also allows the tool that loads them. */
function allowlistFor({ tools = [], skills = [] }: LocalSubagent): Allowlist {
  const list = allowlistOf(tools);
  return skills.length > 0 ? list.including(new Set([loadSkillName])) : list;
}

/** The persona in the main workspace is the parent's, and so is a hook that replaces the files. */
function withoutPersona(
  files: HarnessAgentOptions["contextFiles"] = childContextFiles,
): readonly string[] | false {
  if (files === false) return false;
  const paths = "name" in files ? childContextFiles : files;
  return paths.filter((path) => path !== steering.instructions);
}

function joinSections(...sections: readonly (string | undefined)[]): string {
  return sections.filter((text) => text !== undefined && text.trim() !== "").join("\n\n");
}
