import { agentFields, type PrepareInput, type ReActAgentOptions } from "../agent/index.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import * as is from "../base/options.ts";
import { type Field, type Fields, invalid, readOptions } from "../base/options.ts";
import type { Agent, Hook, Store } from "../contract/index.ts";
import { checkServer, mcpFields, serverFields } from "../mcp/index.ts";
import { openStore } from "../store/index.ts";
import { type CompactionOptions, compactionFields } from "./context/compaction.ts";
import { evictionField } from "./context/eviction.ts";
import type { NoteSource } from "./context/notes.ts";
import { type Filesystem, filesystemField } from "./filesystem/filesystem.ts";
import { localFilesystem } from "./filesystem/local.ts";
import { type IsolationScope, scopeField } from "./filesystem/path.ts";
import { placeOf, rootOf } from "./filesystem/place.ts";
import { type FilesChoice, isFilesChoice, sandboxFilesystem } from "./filesystem/sandbox.ts";
import { storeFilesystem } from "./filesystem/store.ts";
import {
  type McpServers,
  type McpServersByName,
  mcpServers,
  readToolsFile,
  type ToolsFileOptions,
  toolsFileName,
} from "./mcp-servers.ts";
import { type AgentMemory, type MemoryOptions, memoryFields, openMemory } from "./memory/memory.ts";
import { openSkills, type Skills } from "./skills/skills.ts";
import { checkDeclarations, type SubagentDeclaration } from "./subagents/declaration.ts";
import { deepestSpawn, type SubagentLimits } from "./subagents/spawn.ts";
import { defaultWorkspace, FileCache, openWorkspace, type Workspace } from "./workspace.ts";

/** Options of a HarnessAgent. Each piece that it adds to a ReActAgent can be switched off or replaced. */
export interface HarnessAgentOptions extends ReActAgentOptions {
  /** A store, `"memory"`, `"sqlite:path"` or `"postgres://…"`; defaults to `sqlite:.rivulet/rivulet.db`. */
  readonly store?: Store | string;
  /** The directory of the agent's files; defaults to `.rivulet/workspace`. */
  readonly workspace?: string;
  /**
   * The files of the workspace, instead of a local directory; `"store"`: in the store, for all processes; or whether they
   * can execute commands, and with `store: true` in the store; false: no files.
   */
  readonly filesystem?: Filesystem | FilesChoice | "store" | false;
  /** Which tasks share files; defaults to `user`: each user has their own. */
  readonly isolation?: IsolationScope;
  /** The files in the system prompt, the most important first, or a hook that replaces them. */
  readonly contextFiles?: readonly string[] | Hook | false;
  /** The estimated token limit of the context files; defaults to 8000. */
  readonly maxContextTokens?: number;
  /** Handles `@path` in a user's message; by default the file is attached. */
  readonly attachments?: PrepareInput | false;
  /** Saves longer tool results to a file (default 80 000 characters), or a hook that replaces this. */
  readonly eviction?: { readonly maxChars?: number } | Hook | false;
  /** Shortens what the model sees of a long session, or a hook that replaces this. */
  readonly compaction?: CompactionOptions | Hook | false;
  /** True: the model keeps a todo list, which readers see as `rivulet.todos`. */
  readonly todos?: boolean;
  /** True: the agent only reads until a person approves its plan; a message with `metadata.planMode` changes that. */
  readonly planMode?: boolean;
  /** MCP servers by name; false: none, not even those of `tools.json`. */
  readonly mcp?: McpServersByName | false;
  /** The names of the skills in `skills/` to offer; defaults to all. False: none. */
  readonly skills?: readonly string[] | false;
  /** Distils facts from sessions into `MEMORY.md`; by default only the tools to search it. False: not even those. */
  readonly memory?: MemoryOptions | false;
  /** Options for the workspace's `tools.json`; false: ignore the file. */
  readonly toolsFile?: ToolsFileOptions | false;
  /** Subagents besides those in `subagents/*.md`; false: none at all. */
  readonly subagents?: readonly SubagentDeclaration[] | false;
  /** False: ignore `subagents/*.md`. */
  readonly subagentFiles?: false;
  /** Absolute paths outside the workspace that may contain the `workspace.path` of a subagent file. */
  readonly subagentRoots?: readonly string[];
  readonly limits?: SubagentLimits;
  /** Called for problems such as a skipped file; defaults to a process warning. */
  readonly onWarning?: (message: string) => void;
}

/** The checked options of a HarnessAgent, and the resources that they name. */
export interface Harness {
  readonly options: HarnessAgentOptions;
  readonly store: Store;
  readonly clock: Clock;
  /** The place of its local files, on a store that machines share. */
  readonly place: string | undefined;
  /** Absent when the agent has no files. */
  readonly workspace?: Workspace;
  /** Absent when the agent can have no MCP servers. */
  readonly servers?: McpServers;
  /** Absent when the agent has no memory. */
  readonly memory?: AgentMemory;
  /** Absent when the agent offers no skills of its own. */
  readonly skills?: Skills;
  warn(message: string): void;
  /** Creates an agent of the same class, for a child. */
  create(options: HarnessAgentOptions): Agent;
}

/** A tool, subagent or skill, as a person sees it in a list; a subagent with what its declaration gives to it. */
export interface Offered {
  readonly name: string;
  readonly description: string;
  readonly tools?: readonly string[];
  readonly subagents?: readonly Offered[];
}

/** The model and the workspace of an agent, and the tools, subagents and skills that it offers to its model. */
export interface Offer {
  /** Its model, as `provider:id`. */
  readonly model?: string;
  /** The models that a run may choose, its own first; absent without a choice. */
  readonly models?: readonly string[];
  /** The name of its directory. */
  readonly workspace?: string;
  readonly tools: readonly Offered[];
  readonly subagents: readonly Offered[];
  readonly skills: readonly Offered[];
}

/** The options that a part of the harness adds to an agent. */
export type Piece = Pick<
  ReActAgentOptions,
  "hooks" | "toolSources" | "prepareInput" | "resolveChild"
> & {
  /** The subagents or skills of the part, for lists. */
  readonly offers?: () => Promise<Partial<Offer>>;
  /** Texts for the model that change during a session. */
  readonly notes?: readonly NoteSource[];
};

/** A harness with the parts that its agent is made of. */
export interface AssembledHarness extends Harness {
  readonly pieces: readonly Piece[];
}

/** The property of a HarnessAgent with its parts. */
export const harnessKey = Symbol("harness");

/** The parts of a HarnessAgent; undefined for another agent. */
export function harnessBehind(agent: Agent): AssembledHarness | undefined {
  return (agent as { readonly [harnessKey]?: AssembledHarness })[harnessKey];
}

/** Checks options and opens the resources that they name; throws `invalid_settings`. */
export function openHarness(given: HarnessAgentOptions, create: Harness["create"]): Harness {
  const options = readOptions("An agent", given, { ...agentFields, ...ownFields });
  check(options);
  const { clock = systemClock, isolation = "user" } = options;
  const store = openStore(options.store ?? "sqlite:.rivulet/rivulet.db");
  const warn = options.onWarning ?? warnProcess;
  const filesystem = filesOf(options, store, warn);
  const workspace = filesystem ? openWorkspace(filesystem, isolation) : undefined;
  const servers = serversOf(options, workspace, clock, warn);
  const { skills: names } = options;
  const { files } = workspace ?? {};
  const skills = files && names !== false ? openSkills({ files, clock, warn, names }) : undefined;
  const root = filesystem && store.isShared ? rootOf(filesystem) : undefined;
  const place = options.place ?? (root === undefined ? undefined : placeOf(root));
  const harness = { options, store, clock, place, workspace, servers, skills, warn, create };
  return { ...harness, memory: openMemory(harness) };
}

/** One function for all agents, because a message is reported once to each. */
function warnProcess(message: string): void {
  process.emitWarning(message, "RivuletWarning");
}

function filesOf(
  { filesystem = { sandbox: false }, workspace = defaultWorkspace }: HarnessAgentOptions,
  store: Store,
  onWarning: Harness["warn"],
): Filesystem | false {
  if (filesystem === "store") return storeFilesystem(store);
  if (filesystem === false || !("sandbox" in filesystem)) return filesystem;
  const { sandbox, store: isStored = false } = filesystem;
  const given = sandbox === false ? false : { onWarning, ...(sandbox !== true && sandbox) };
  if (isStored) return storeFilesystem(store, { sandbox: given });
  return given ? sandboxFilesystem(workspace, given) : localFilesystem(workspace);
}

function serversOf(
  { mcp = {}, toolsFile = {} }: HarnessAgentOptions,
  workspace: Workspace | undefined,
  clock: Clock,
  warn: Harness["warn"],
): McpServers | undefined {
  const files = toolsFile !== false && workspace ? workspace.files : undefined;
  if (!files && Object.keys(mcp || {}).length === 0) return undefined;
  const cache = new FileCache(clock, (content) => readToolsFile(content, toolsFile || {}));
  const readFile = () => files && cache.get({ key: "", files }, toolsFileName);
  return mcpServers(mcp, readFile, clock, warn);
}

const limitFields: Fields<SubagentLimits> = {
  maxSpawnDepth: is.integer(1, deepestSpawn),
  childrenPerTask: is.count,
  parallelChildren: is.count,
};
const { name: _, ...placeFields } = serverFields;
const { prefix, execution, connectTimeoutMs, trustReadOnly } = mcpFields;
const mcpServerFields = { ...placeFields, prefix, execution, connectTimeoutMs, trustReadOnly };
const toolsFileFields: Fields<ToolsFileOptions> = { variables: is.record };

/** A piece that a hook can replace; the agent checks the hook. */
function orHook(field: Field): Field {
  return is.orFalse(
    is.or(field, "a hook", (value) => typeof (value as Partial<Hook>).name === "string"),
  );
}

const ownFields: Fields<Omit<HarnessAgentOptions, keyof ReActAgentOptions>> = {
  workspace: { ...is.name, example: '"./workspace"' },
  filesystem: is.orFalse(
    is.or(
      filesystemField,
      '"store" or { sandbox: true }',
      (value) => value === "store" || isFilesChoice(value),
    ),
  ),
  isolation: scopeField,
  contextFiles: orHook(is.listOf(is.name)),
  maxContextTokens: is.count,
  attachments: is.orFalse(is.callback),
  eviction: orHook(evictionField),
  compaction: orHook(is.options(compactionFields)),
  todos: is.flag,
  planMode: is.flag,
  mcp: is.orFalse(is.recordOf(is.options(mcpServerFields))),
  memory: is.orFalse(is.options(memoryFields)),
  skills: is.orFalse({ ...is.listOf(is.name), example: '["pdf"]' }),
  toolsFile: is.orFalse(is.options(toolsFileFields)),
  subagents: is.orFalse({ ...is.list, example: "[{ name, description }]" }),
  subagentFiles: { fits: (value) => value === false, expected: "false or undefined" },
  subagentRoots: is.listOf(is.name),
  limits: is.options(limitFields),
  onWarning: is.callback,
};

/** Removes the options that only a HarnessAgent has. */
export function agentOptionsOf(options: HarnessAgentOptions): ReActAgentOptions {
  const own = Object.entries(options).filter(([name]) => !Object.hasOwn(ownFields, name));
  return Object.fromEntries(own) as unknown as ReActAgentOptions;
}

function check(options: HarnessAgentOptions): void {
  const { workspace, filesystem } = options;
  const isLocal = typeof filesystem === "object" && "sandbox" in filesystem && !filesystem.store;
  if (workspace !== undefined && filesystem !== undefined && !isLocal) {
    const hint = "Pass a directory, a filesystem, or filesystem: false for no files.";
    throw invalid("workspace and filesystem are both set.", hint);
  }
  if (filesystem === false) {
    const { contextFiles, toolsFile, skills, memory } = options;
    const paths = Array.isArray(contextFiles) && contextFiles;
    const needs = Object.entries({ contextFiles: paths, toolsFile, skills, memory });
    const [needing] = needs.find(([, value]) => value) ?? [];
    if (needing) throw invalid(`${needing} needs files.`, `Remove it, or filesystem: false.`);
  }
  for (const [name, server] of Object.entries(options.mcp || {})) checkServer({ name, ...server });
  if (options.subagents) checkDeclarations(options.subagents);
}
