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
  // An absolute path can only come from code: a file that has one is not loaded.
  const roots = isAbsolute(definition) ? [definition] : [];
  const placed = workspace && (await placeSubagent(declaration, workspace.files, { roots }));
  const { contextFiles = defaultContextFiles } = options;
  const added = (declaration.tools ?? []).filter((one) => typeof one !== "string");
  const common = shared(harness);
  const isLeaf = declaration.leaf ?? true;
  return harness.create({
    ...inherited(options),
    ...common,
    toolkit: toolkitOf(options, added),
    toolSources: [...common.toolSources, ...allowlistOf(declaration.tools)],
    name: displayName,
    agentId: name,
    description,
    model: declaration.model ?? options.model,
    ...(declaration.model === undefined &&
      options.modelOptions && { modelOptions: options.modelOptions }),
    systemPrompt: joined(placed?.instructions ?? declaration.instructions, subagentContext()),
    ...(placed && { filesystem: placed.files }),
    // The persona in the main workspace is the parent's.
    ...(Array.isArray(contextFiles) && placed && { contextFiles: withoutPersona(contextFiles) }),
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

/** The parent's own tools, with those that a declaration adds. */
function toolkitOf({ tools = [], toolkit }: HarnessAgentOptions, added: readonly Tool[]): Toolkit {
  if (toolkit) return toolkit.with(added);
  const names = new Set(added.map(({ name }) => name));
  return new Toolkit({ tools: [...tools.filter(({ name }) => !names.has(name)), ...added] });
}

/** Of what is inherited, only what a name or a glob of the list selects; without a list everything is. */
function allowlistOf(chosen: readonly (string | Tool)[] | undefined): readonly ToolSource[] {
  if (chosen === undefined) return [];
  const added = new Set(chosen.map((one) => (typeof one === "string" ? "" : one.name)));
  const globs = chosen.filter((one) => typeof one === "string");
  const isChosen = (name: string) => globs.some((glob) => matchesGlob(glob, name));
  return [
    {
      refresh: () => Promise.resolve(),
      tools: () => [],
      // What serves its own subagents is not inherited: it has that itself, or not at all.
      allows: (name) => added.has(name) || subagentToolNames.has(name) || isChosen(name),
    },
  ];
}

function withoutPersona(files: readonly string[]): readonly string[] {
  return files.filter((path) => path !== "AGENTS.md");
}

function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part.trim() !== "").join("\n\n");
}

function defined<T extends object>(values: T): Partial<T> {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Partial<T>;
}
