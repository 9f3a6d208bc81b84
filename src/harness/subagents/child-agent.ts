import { isAbsolute } from "node:path";
import { matchesGlob } from "../../agent/tool/permission.ts";
import type { Tool } from "../../agent/tool/tool.ts";
import { Toolkit, type ToolSource } from "../../agent/tool/toolkit.ts";
import type { Agent } from "../../protocol/agent.ts";
import { defaultContextFiles } from "../context-files.ts";
import type { Harness, HarnessAgentOptions } from "../harness.ts";
import type { LocalSubagent } from "./declaration.ts";
import { placeSubagent } from "./placement.ts";
import { subagentContext } from "./prompt.ts";
import { subagentToolNames } from "./tool-names.ts";

/** The name of the subagent that is always there. */
export const generalPurpose = "general-purpose";

/** A subagent like its parent: same workspace, tools, hooks and switches; only it has no subagents itself. */
export function mirrorAgent(harness: Harness): Agent {
  const { options } = harness;
  const common = shared(harness);
  return harness.create({
    ...options,
    ...common,
    hooks: [...(options.hooks ?? []), ...common.hooks],
    name: generalPurpose,
    agentId: generalPurpose,
    systemPrompt: joined(options.systemPrompt, subagentContext()),
    subagents: false,
  });
}

/** The agent that a declaration describes, with what it has from its parent. */
export async function declaredAgent(harness: Harness, declaration: LocalSubagent): Promise<Agent> {
  const { options, workspace } = harness;
  const { name, displayName = name, description, maxIters, budget, permissions } = declaration;
  const { workspace: definition = "" } = declaration;
  // A file is not loaded with an absolute path that is below none of the roots; code may name any.
  const { subagentRoots = [] } = options;
  const roots = [...subagentRoots, ...(isAbsolute(definition) ? [definition] : [])];
  const placed = workspace && (await placeSubagent(declaration, workspace.files, { roots }));
  const added = (declaration.tools ?? []).filter((one) => typeof one !== "string");
  const common = shared(harness);
  const isLeaf = declaration.leaf ?? true;
  return harness.create({
    ...inherited(options),
    ...common,
    toolkit: toolkitOf(options, added),
    toolSources: [
      ...exempting(common.toolSources, added),
      ...(declaration.tools ? [allowlistOf(declaration.tools)] : []),
    ],
    name: displayName,
    agentId: name,
    description,
    model: declaration.model ?? options.model,
    ...(declaration.model === undefined &&
      options.modelOptions && { modelOptions: options.modelOptions }),
    systemPrompt: joined(placed?.instructions ?? declaration.instructions, subagentContext()),
    ...(placed && { filesystem: placed.files }),
    ...(placed && { contextFiles: withoutPersona(options.contextFiles) }),
    ...(maxIters !== undefined && { maxIters }),
    ...(budget && { budget }),
    ...(permissions && { permissions }),
    subagents: isLeaf ? false : (declaration.subagents ?? []),
    // Its parent's model may write where it lives, and must not declare agents there.
    subagentFiles: false,
  });
}

/** What every child has from its parent, whatever its declaration says. */
function shared({ options, store, clock, workspace, servers }: Harness) {
  return {
    store,
    clock,
    workspace: undefined,
    filesystem: workspace ? workspace.files : (false as const),
    wakeOnCompletion: false,
    // The parent's servers serve its children too.
    mcp: false,
    toolsFile: false,
    toolSources: [...(options.toolSources ?? []), ...(servers ? [servers] : [])],
    hooks: servers ? [servers.hook] : [],
  } as const;
}

/** What a declared child has from its parent unless it says otherwise. */
function inherited(options: HarnessAgentOptions) {
  const { execution, modelExecution, price, tracer, ids, references, rawReasoning } = options;
  const { approvalTimeoutMs, isolation, limits, onWarning } = options;
  return defined({
    execution,
    modelExecution,
    price,
    tracer,
    ids,
    references,
    rawReasoning,
    approvalTimeoutMs,
    isolation,
    limits,
    onWarning,
  });
}

/** The parent's own tools, with those that a declaration adds; an added one takes the place of one with its name. */
function toolkitOf(
  { tools, toolkit = new Toolkit(tools && { tools }) }: HarnessAgentOptions,
  added: readonly Tool[],
): Toolkit {
  return toolkit.without(new Set(added.map(({ name }) => name))).with(added);
}

/** The names that a child may use, wherever the tools come from. */
interface Allowlist extends ToolSource {
  allows(name: string): boolean;
  /** The same list with more names. */
  and(names: ReadonlySet<string>): Allowlist;
}

function allowlist(allows: (name: string) => boolean): Allowlist {
  return {
    refresh: () => Promise.resolve(),
    tools: () => [],
    allows,
    and: (names) => allowlist((name) => names.has(name) || allows(name)),
  };
}

/** Of what is inherited, only what a name or a glob of the list selects; and what the list adds. */
function allowlistOf(chosen: readonly (string | Tool)[]): Allowlist {
  const added = new Set(chosen.map((one) => (typeof one === "string" ? "" : one.name)));
  const globs = chosen.filter((one) => typeof one === "string");
  const isChosen = (name: string) => globs.some((glob) => matchesGlob(glob, name));
  // What serves its own subagents is not inherited: it has that itself, or not at all.
  return allowlist((name) => added.has(name) || subagentToolNames.has(name) || isChosen(name));
}

/** What a child adds is its own: the lists of those above it do not hold for that. */
function exempting(
  sources: readonly (ToolSource | Allowlist)[],
  added: readonly Tool[],
): readonly ToolSource[] {
  const names = new Set(added.map(({ name }) => name));
  return sources.map((source) => ("and" in source ? source.and(names) : source));
}

/** The persona in the main workspace is the parent's, and so are the hooks that stand for its files. */
function withoutPersona(
  files: HarnessAgentOptions["contextFiles"] = defaultContextFiles,
): readonly string[] | false {
  if (files === false) return false;
  const paths = "name" in files ? defaultContextFiles : files;
  return paths.filter((path) => path !== "AGENTS.md");
}

function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part.trim() !== "").join("\n\n");
}

function defined<T extends object>(values: T): Partial<T> {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Partial<T>;
}
