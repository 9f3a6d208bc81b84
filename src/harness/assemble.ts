import type { Hook } from "../agent/hook.ts";
import type { PrepareInput } from "../agent/input.ts";
import type { ReActAgentOptions, ResolveChild } from "../agent/settings.ts";
import type { Tool } from "../agent/tool/tool.ts";
import type { ToolSource } from "../agent/tool/toolkit.ts";
import { attachments } from "./attachments.ts";
import { contextFiles, defaultContextFiles } from "./context-files.ts";
import { eviction } from "./eviction.ts";
import { agentOptionsOf, type Harness } from "./harness.ts";
import { subagents } from "./subagents/subagents.ts";
import { fileTools } from "./tools/files.ts";

/** Something that a harness adds to an agent. */
export interface Piece {
  readonly name: string;
  readonly hooks?: readonly Hook[];
  readonly tools?: readonly Tool[];
  readonly toolSources?: readonly ToolSource[];
  readonly prepareInput?: PrepareInput;
  readonly resolveChild?: ResolveChild;
}

/** The agent's own options with everything that its harness adds; the loop stays what it is. */
export function assemble(harness: Harness): ReActAgentOptions {
  const { options, store, clock } = harness;
  const pieces: readonly Piece[] = [
    files(harness),
    mcp(harness),
    evictionOf(harness),
    subagentsOf(harness),
    attachmentsOf(harness),
    workspaceContext(harness),
  ];
  return {
    ...agentOptionsOf(options),
    store,
    clock,
    hooks: [...(options.hooks ?? []), ...pieces.flatMap(hooksOf)],
    toolSources: [
      ...(options.toolSources ?? []),
      ...pieces.flatMap(({ toolSources = [] }) => toolSources),
    ],
    ...resolverOf([options, ...pieces]),
    prepareInput: inTurn([options, ...pieces].flatMap(({ prepareInput }) => prepareInput ?? [])),
  };
}

function files({ workspace }: Harness): Piece {
  if (!workspace) return { name: "files" };
  return { name: "files", tools: fileTools(workspace.files, { scope: workspace.isolation }) };
}

function mcp({ servers }: Harness): Piece {
  return { name: "mcp", ...(servers && { hooks: [servers.hook], toolSources: [servers] }) };
}

function evictionOf({ options, workspace }: Harness): Piece {
  const chosen = options.eviction ?? {};
  if (chosen === false) return { name: "eviction" };
  const hook = "name" in chosen ? chosen : eviction(workspace, chosen.maxChars);
  return { name: "eviction", hooks: [hook] };
}

function subagentsOf(harness: Harness): Piece {
  const { subagents: declared = [] } = harness.options;
  return declared === false ? { name: "subagents" } : subagents(harness, declared);
}

function attachmentsOf({ options, workspace }: Harness): Piece {
  const chosen = options.attachments ?? (workspace && attachments(workspace));
  return { name: "attachments", ...(chosen && { prepareInput: chosen }) };
}

function workspaceContext({ options, workspace, clock }: Harness): Piece {
  const name = "workspace context";
  const chosen = options.contextFiles ?? defaultContextFiles;
  if (chosen !== false && "name" in chosen) return { name, hooks: [chosen] };
  if (chosen === false || !workspace) return { name };
  const { maxContextTokens: maxTokens = 8_000 } = options;
  return { name, hooks: [contextFiles(workspace, { paths: chosen, maxTokens, clock })] };
}

/** A piece's hooks; its tools come with a hook, as tools of hooks do. */
function hooksOf({ name, hooks = [], tools }: Piece): readonly Hook[] {
  return tools ? [...hooks, { name, tools }] : hooks;
}

function resolverOf(
  sources: readonly Pick<Piece, "resolveChild">[],
): Pick<ReActAgentOptions, "resolveChild"> {
  const resolvers = sources.flatMap(({ resolveChild }) => resolveChild ?? []);
  if (resolvers.length === 0) return {};
  return {
    async resolveChild(record) {
      for (const resolve of resolvers) {
        const agent = await resolve(record);
        if (agent) return agent;
      }
      return undefined;
    },
  };
}

function inTurn(steps: readonly PrepareInput[]): PrepareInput {
  return async (messages, task) => {
    let prepared = messages;
    for (const step of steps) prepared = await step(prepared, task);
    return prepared;
  };
}
