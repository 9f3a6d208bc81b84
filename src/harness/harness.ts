import {
  anything,
  callback,
  checkFields,
  type Fields,
  flag,
  invalid,
  list,
  record,
  text,
} from "../agent/check-fields.ts";
import { agentFields } from "../agent/check-options.ts";
import type { Hook } from "../agent/hook.ts";
import type { PrepareInput } from "../agent/input.ts";
import type { ReActAgentOptions } from "../agent/settings.ts";
import { checkServer } from "../agent/tool/mcp.ts";
import { maxResultCharacters } from "../agent/tool/result.ts";
import type { Agent } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import { systemClock } from "../protocol/clock.ts";
import type { Store } from "../protocol/store.ts";
import { openStore } from "../store/index.ts";
import { FileCache } from "./file-cache.ts";
import type { Filesystem } from "./filesystem/filesystem.ts";
import { localFilesystem } from "./filesystem/local.ts";
import type { IsolationScope } from "./filesystem/namespace.ts";
import { type McpServers, type McpServersByName, mcpServers } from "./mcp-servers.ts";
import { checkDeclarations, type SubagentDeclaration } from "./subagents/declaration.ts";
import type { SubagentLimits } from "./subagents/limits.ts";
import {
  readToolsFile,
  type ToolsFile,
  type ToolsFileOptions,
  toolsFileName,
} from "./tools-file.ts";
import { defaultWorkspace, openWorkspace, type Workspace } from "./workspace.ts";

/** What a HarnessAgent is made of: a ReActAgent, and pieces that each can be switched off or replaced. */
export interface HarnessAgentOptions extends ReActAgentOptions {
  /** A store, `"memory"` or `"sqlite:path"`; `sqlite:.rivulet/rivulet.db` by default. */
  readonly store?: Store | string;
  /** The directory that the agent lives in; `.rivulet/workspace` by default. */
  readonly workspace?: string;
  /** The files of the workspace, if they are not in a local directory; false: the agent has no files. */
  readonly filesystem?: Filesystem | false;
  /** Among whom the files of the workspace are shared; each user has their own by default. */
  readonly isolation?: IsolationScope;
  /** The files whose text goes into the system prompt, the most important first; or a hook in their place. */
  readonly contextFiles?: readonly string[] | Hook | false;
  /** How much of them goes there, by a rough count; 8000 by default. */
  readonly maxContextTokens?: number;
  /** What is made of `@path` in a user's message; absent: the file is attached. */
  readonly attachments?: PrepareInput | false;
  /** From how many characters on a tool's result goes to a file, 80 000 by default; or a hook in its place. */
  readonly eviction?: { readonly maxChars?: number } | Hook | false;
  /** MCP servers by name; false: none, also not those of `tools.json`. */
  readonly mcp?: McpServersByName | false;
  /** How the workspace's `tools.json` is read; false: it is not. */
  readonly toolsFile?: ToolsFileOptions | false;
  /** Agents that it can call on, besides those in `subagents/*.md`; false: none at all. */
  readonly subagents?: readonly SubagentDeclaration[] | false;
  /** False: files in the workspace declare no subagents. */
  readonly subagentFiles?: false;
  /** Absolute paths of directories outside the workspace: the `workspace.path` of a file may lie below one of them. */
  readonly subagentRoots?: readonly string[];
  readonly limits?: SubagentLimits;
  /** Told of what is wrong but not fatal, such as a file that was skipped; a process warning by default. */
  readonly onWarning?: (message: string) => void;
}

/** The options of a HarnessAgent, checked, and what they stand for. */
export interface Harness {
  readonly options: HarnessAgentOptions;
  readonly store: Store;
  readonly clock: Clock;
  /** Absent: the agent has no files. */
  readonly workspace?: Workspace;
  /** Absent: there can be none. */
  readonly servers?: McpServers;
  warn(message: string): void;
  /** Makes an agent of the same kind, for a child. */
  create(options: HarnessAgentOptions): Agent;
}

/** Checks options, and opens what they name; what cannot work is an error here and not at the first call. */
export function openHarness(options: HarnessAgentOptions, create: Harness["create"]): Harness {
  check(options);
  const { clock = systemClock, isolation = "user" } = options;
  const store = openStore(options.store ?? "sqlite:.rivulet/rivulet.db");
  const filesystem = options.filesystem ?? localFilesystem(options.workspace ?? defaultWorkspace);
  const workspace = filesystem ? openWorkspace(filesystem, isolation) : undefined;
  const servers = serversOf(options, workspace, clock);
  const warn = options.onWarning ?? ((message) => process.emitWarning(message, "RivuletWarning"));
  const opened = { ...(workspace && { workspace }), ...(servers && { servers }) };
  return { options, store, clock, ...opened, warn, create };
}

function serversOf(
  { mcp = {}, toolsFile = {} }: HarnessAgentOptions,
  workspace: Workspace | undefined,
  clock: Clock,
): McpServers | undefined {
  const files = toolsFile !== false && workspace ? workspace.files : undefined;
  const servers = mcp || {};
  if (!files && Object.keys(servers).length === 0) return undefined;
  const cache = new FileCache<ToolsFile>(clock, (content) =>
    readToolsFile(content, toolsFile || {}),
  );
  const readFile = async () => files && cache.get({ key: "", files }, toolsFileName);
  return mcpServers({ servers, readFile, useFileServers: mcp !== false, clock });
}

const scopes: readonly IsolationScope[] = ["session", "user", "agent", "global"];

const ownFields: Fields<Omit<HarnessAgentOptions, keyof ReActAgentOptions>> = {
  workspace: text,
  filesystem: anything,
  isolation: anything,
  contextFiles: anything,
  maxContextTokens: anything,
  attachments: anything,
  eviction: anything,
  mcp: anything,
  toolsFile: anything,
  subagents: anything,
  subagentFiles: flag,
  subagentRoots: list,
  limits: record,
  onWarning: callback,
};

/** Those of the options that every agent has. */
export function agentOptionsOf(options: HarnessAgentOptions): ReActAgentOptions {
  const own = Object.entries(options).filter(([name]) => !Object.hasOwn(ownFields, name));
  return Object.fromEntries(own) as unknown as ReActAgentOptions;
}

function check(options: HarnessAgentOptions): void {
  checkFields("An agent", options, { ...agentFields, ...ownFields }, "");
  const { workspace, filesystem, isolation, maxContextTokens, eviction } = options;
  if (workspace !== undefined && filesystem !== undefined) {
    const hint = "Give the directory, or the filesystem, or filesystem: false for none.";
    throw invalid("An agent takes a workspace or a filesystem, not both.", hint);
  }
  if (workspace === "") throw invalid("The workspace has no path.", 'For example: "./workspace".');
  if (isolation !== undefined && !scopes.includes(isolation)) {
    throw invalid(`There is no isolation "${isolation}".`, `There are: ${scopes.join(", ")}.`);
  }
  if (filesystem === false) {
    const needing = [
      ...(Array.isArray(options.contextFiles) ? ["contextFiles"] : []),
      ...(options.toolsFile ? ["toolsFile"] : []),
    ];
    if (needing.length > 0) {
      throw invalid(`Without files there can be no ${needing.join(" and no ")}.`, "Leave it out.");
    }
  }
  for (const [name, server] of Object.entries(options.mcp || {})) checkServer({ name, ...server });
  if (options.subagents) checkSubagents(options.subagents);
  for (const [name, value] of Object.entries(options.limits ?? {})) {
    checkCount(`limits.${name}`, value, name === "maxSpawnDepth" ? 3 : Number.MAX_SAFE_INTEGER);
  }
  checkCount("maxContextTokens", maxContextTokens, Number.MAX_SAFE_INTEGER);
  if (eviction && !("name" in eviction)) {
    checkCount("eviction.maxChars", eviction.maxChars, maxResultCharacters);
  }
}

function checkSubagents(declared: readonly SubagentDeclaration[]): void {
  checkDeclarations(declared);
  for (const { name, url, skills, subagents = [] } of declared) {
    if (url !== undefined) {
      const hint = "Declare it with agent, create, instructions or workspace.";
      throw invalid(`The subagent ${name} is on another server, which cannot be called yet.`, hint);
    }
    if (skills !== undefined) {
      const hint = "Put them into its instructions.";
      throw invalid(`The subagent ${name} has skills, which agents cannot have yet.`, hint);
    }
    checkSubagents(subagents);
  }
}

function checkCount(name: string, value: number | undefined, most: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= most)) return;
  const range = most === Number.MAX_SAFE_INTEGER ? "at least 1" : `from 1 to ${most}`;
  throw invalid(`${name} is ${value}.`, `It is a whole number, ${range}.`);
}
