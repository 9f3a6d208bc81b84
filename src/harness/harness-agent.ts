import { basename, resolve } from "node:path";
import {
  enter,
  type Model,
  observeFields,
  type PrepareInput,
  ReActAgent,
  type ReActAgentOptions,
  settingsBehind,
  settingsKey,
  TaskHandle,
  unfinished,
} from "../agent/index.ts";
import { withCallerStack } from "../base/error.ts";
import { type Field, readArgument, readOptions } from "../base/options.ts";
import type { Awaitable } from "../base/time.ts";
import { whenDone } from "../base/time.ts";
import {
  type Agent,
  type CompactionBlock,
  type Hook,
  type HookContext,
  type ModelCall,
  type ObserveOptions,
  userIdField,
} from "../contract/index.ts";
import { attachments } from "./context/attachments.ts";
import { compaction, compactionOf } from "./context/compaction.ts";
import { contextHook } from "./context/context.ts";
import { contextFiles, defaultContextFiles } from "./context/context-files.ts";
import { eviction } from "./context/eviction.ts";
import { nestedFiles } from "./context/nested-files.ts";
import type { Note } from "./context/notes.ts";
import { deleteSession } from "./delete-session.ts";
import {
  type AssembledHarness,
  agentOptionsOf,
  type Harness,
  type HarnessAgentOptions,
  harnessBehind,
  harnessKey,
  type Offer,
  type Offered,
  openHarness,
  type Piece,
} from "./harness.ts";
import { childrenStarted, levelsAbove } from "./hook-task.ts";
import { type Memory, type MemoryScope, memoryIn } from "./memory/memory-of.ts";
import { planInput, planMode } from "./plan-mode.ts";
import { delegationPrompt, tasksNote } from "./prompts.ts";
import type { Skill } from "./skills/skill.ts";
import type { SubagentDeclaration } from "./subagents/declaration.ts";
import { mayExecute, openRoster, subagentToolNames } from "./subagents/roster.ts";
import { subagentLimits } from "./subagents/spawn.ts";
import { agentTools } from "./tools/agents.ts";
import { fileTools } from "./tools/files.ts";
import { executeName, lostCommandAgent, shellTools } from "./tools/shell.ts";
import { loadSkillName } from "./tools/skills.ts";
import { taskTools } from "./tools/tasks.ts";
import { todoNote, todoTool } from "./tools/todos.ts";
import { defaultWorkspace } from "./workspace.ts";

/** The model, workspace, tools, subagents and skills of an agent; of those that change at run time, the current ones. */
export async function offerOf(agent: Agent): Promise<Offer> {
  const { toolkit, name = "", choices } = settingsBehind(agent) ?? {};
  const harness = harnessBehind(agent);
  const offer = { subagents: [], skills: [], ...(harness && (await partsOffered(harness))) };
  const tools = (toolkit?.active([], name) ?? []).filter(
    (tool) => tool.name !== loadSkillName || offer.skills.length > 0,
  );
  const names = [...(choices?.keys() ?? [])];
  const [model] = names;
  return {
    ...(model !== undefined && { model }),
    ...(names.length > 1 && { models: names }),
    ...offer,
    tools: tools.map(({ name, description }) => ({ name, description })),
  };
}

async function partsOffered({ options, pieces }: AssembledHarness): Promise<Partial<Offer>> {
  const { workspace = defaultWorkspace, filesystem = { sandbox: false } } = options;
  const isFolder = typeof filesystem === "object" && "sandbox" in filesystem && !filesystem.store;
  const parts = await Promise.all(pieces.map((piece) => piece.offers?.()));
  return Object.assign(isFolder ? { workspace: basename(resolve(workspace)) } : {}, ...parts);
}

type Declared = Pick<SubagentDeclaration, "name" | "description" | "tools" | "subagents">;
function offeredSubagent({ name, description, tools, subagents }: Declared): Offered {
  return {
    ...{ name, description },
    ...(tools && { tools: tools.map((tool) => (typeof tool === "string" ? tool : tool.name)) }),
    ...(subagents && { subagents: subagents.map(offeredSubagent) }),
  };
}

/** The same agent with another model, which its subagents without a model of their own use as well. */
export function harnessAgentWith(agent: Agent, model: Model): HarnessAgent | undefined {
  const harness = harnessBehind(agent);
  if (harness === undefined) return undefined;
  const { options, store, clock } = harness;
  return new HarnessAgent({ ...options, store, clock, model });
}

/** An agent with a workspace: a ReActAgent with the pieces that `assemble` lists. */
export class HarnessAgent extends ReActAgent implements AsyncDisposable {
  readonly #harness: AssembledHarness;

  constructor(options: HarnessAgentOptions) {
    const harness = withCallerStack(new.target, () =>
      openHarness(options, (child) => new HarnessAgent(child)),
    );
    const pieces = piecesOf(harness);
    super(assemble(harness, pieces));
    this.#harness = { ...harness, pieces };
  }

  /** @internal */
  get [harnessKey](): AssembledHarness {
    return this.#harness;
  }

  /** Returns what the agent remembers about a user; without a user, what it remembers from sessions without one. */
  memory(scope: MemoryScope = {}): Memory {
    return memoryIn(this[settingsKey], this.#harness.memory, scope);
  }

  /** Resolves to the skills that the agent offers to its model, by name. */
  async skills(): Promise<readonly Skill[]> {
    return (await this.#harness.skills?.list()) ?? [];
  }

  /**
   * Compacts a session, after the task that it runs. Resolves to the size of the prompt before and after, in tokens;
   * undefined when it could not be shortened. Rejects with `session_suspended` while the session waits for an answer.
   */
  async compact(
    sessionId: string,
    options: Omit<ObserveOptions, "sessionId"> = {},
  ): Promise<CompactionBlock["tokens"]> {
    const { sessionId: idField, ...fields } = observeFields;
    const id = readArgument("sessionId", sessionId, idField as Field);
    const read = { ...readOptions("compact()", options, fields), sessionId: id };
    const run = new TaskHandle(this[settingsKey], read, (call) =>
      enter(call, undefined, "compacts"),
    );
    const { task } = await run.result();
    return compactionOf(this.#harness.store, task);
  }

  /**
   * Deletes a session with its children, its logs and the tool results that were saved for it. Resolves to false if it
   * does not exist; rejects with `conflict` while it runs.
   */
  async deleteSession(
    sessionId: string,
    options: { readonly userId?: string } = {},
  ): Promise<boolean> {
    const { userId } = readOptions("deleteSession()", options, userField);
    return deleteSession(this.#harness.store, this, sessionId, userId);
  }

  /** Stops its MCP servers and the work on its memory; the next task starts them again. The store stays open. */
  async close(): Promise<void> {
    this.#harness.memory?.close();
    await this.#harness.servers?.close();
  }

  /** Closes the agent at the end of its block: `await using agent = new HarnessAgent(…)`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const userField = { userId: userIdField };

function piecesOf(harness: Harness): readonly Piece[] {
  const { options, workspace, servers, clock } = harness;
  const { isolation: scope } = workspace ?? {};
  const prepareInput =
    options.attachments ?? (workspace && attachments(workspace, options.permissions));
  return [
    options,
    { hooks: workspace ? [{ name: "files", tools: fileTools(workspace.files, { scope }) }] : [] },
    shellPiece(harness),
    servers ? { hooks: [servers.hook], toolSources: [servers] } : {},
    harness.memory ? { hooks: [harness.memory.hook], notes: [harness.memory.note] } : {},
    skillsPiece(harness),
    { hooks: options.compaction && "name" in options.compaction ? [options.compaction] : [] },
    { hooks: evictionHooks(harness) },
    subagentsPiece(harness),
    options.todos ? { hooks: [{ name: "todos", tools: [todoTool()] }], notes: [todoNote] } : {},
    options.planMode ? planMode : {},
    prepareInput ? { prepareInput: ofPeople(prepareInput) } : {},
    workspace && options.contextFiles !== false ? { notes: [nestedFiles(workspace, clock)] } : {},
    { hooks: contextHooks(harness) },
  ];
}

/** Only the input of a root task is written by people: a model writes that of a child, here or on another server. */
function ofPeople(prepare: PrepareInput): PrepareInput {
  return (messages, task) => {
    const isChild = task.depth > 0 || task.origin?.via !== undefined;
    return isChild ? messages : prepare(messages, task);
  };
}

function assemble(harness: Harness, pieces: readonly Piece[]): ReActAgentOptions {
  const { options, store, clock, place } = harness;
  const notes = pieces.flatMap(({ notes = [] }) => notes);
  const resolvers = pieces.flatMap(({ resolveChild }) => resolveChild ?? []);
  return {
    ...agentOptionsOf(options),
    store,
    clock,
    ...(place !== undefined && { place }),
    hooks: [...pieces.flatMap(({ hooks = [] }) => hooks), contextHook(compactor(harness), notes)],
    toolSources: pieces.flatMap(({ toolSources = [] }) => toolSources),
    async prepareInput(messages, task) {
      let prepared = messages;
      for (const piece of pieces)
        prepared = (await piece.prepareInput?.(prepared, task)) ?? prepared;
      return prepared;
    },
    ...(resolvers.length > 0 && {
      async resolveChild(record) {
        for (const resolve of resolvers) {
          const agent = await resolve(record);
          if (agent) return agent;
        }
        return undefined;
      },
    }),
  };
}

function skillsPiece({ skills }: Harness): Piece {
  if (!skills) return {};
  const asOffered = ({ name, description }: Skill): Offered => ({ name, description });
  return {
    hooks: [skills.hook],
    offers: async () => ({ skills: (await skills.list()).map(asOffered) }),
  };
}

/** A hook of the user that compacts comes with the other hooks. */
function compactor(harness: Harness): Hook | undefined {
  const { compaction: option = {} } = harness.options;
  const listeners = harness.memory ? [harness.memory.onCompact] : [];
  return option === false || "name" in option ? undefined : compaction(harness, option, listeners);
}

function shellPiece({ options, workspace }: Harness): Piece {
  if (!workspace?.files.shell) return {};
  const tools = shellTools(workspace.files, { scope: workspace.isolation });
  // Without subagents, a command is the only background task.
  const more = options.subagents === false && mayExecute(options) ? taskTools() : [];
  return {
    hooks: [{ name: "shell", tools: [...tools, ...more] }],
    resolveChild: ({ agentId }) => (agentId === executeName ? lostCommandAgent() : undefined),
  };
}

function evictionHooks({ options, workspace }: Harness): readonly Hook[] {
  const { eviction: option = {} } = options;
  if (option === false) return [];
  return ["name" in option ? option : eviction(workspace, option.maxChars)];
}

function contextHooks({ options, workspace, clock }: Harness): readonly Hook[] {
  const { contextFiles: paths = defaultContextFiles, maxContextTokens: maxTokens = 8_000 } =
    options;
  if (paths === false) return [];
  if ("name" in paths) return [paths];
  return workspace ? [contextFiles(workspace, paths, maxTokens, clock)] : [];
}

const noneAfterKey = "harness.no-tasks-after";
const noTasks: readonly Note[] = [{ key: "tasks", text: tasksNote([]), isEmpty: true }];

function subagentsPiece(harness: Harness): Piece {
  const { store, options } = harness;
  if (options.subagents === false) return {};
  const limits = { ...subagentLimits, ...options.limits };
  const roster = openRoster(harness, options.subagents ?? []);
  const inputOf = options.planMode ? planInput : undefined;

  function preReasoning(context: HookContext, call: ModelCall): Awaitable<void> {
    if ((context.source?.depth ?? 0) + levelsAbove(context) >= limits.maxSpawnDepth) {
      call.tools = call.tools.filter(({ name }) => !subagentToolNames.has(name));
    }
    if (!call.tools.some(({ name }) => name === "agent_spawn")) return undefined;
    return whenDone(roster.entries(), (entries) => {
      const prompt = delegationPrompt(entries);
      call.systemPrompt = call.systemPrompt === "" ? prompt : `${call.systemPrompt}\n\n${prompt}`;
    });
  }

  /** Only the running task of a session starts children, so an empty list stays empty until a call has started one. */
  function unfinishedTasks(context: HookContext): Awaitable<readonly Note[]> {
    const { task, state } = context;
    const started = childrenStarted(context);
    if (started !== undefined && state.get(noneAfterKey) === started) return noTasks;
    const query = { parentSessionId: task.sessionId, status: unfinished };
    return store.tasks(query).then((tasks) => {
      if (tasks.length === 0) state.set(noneAfterKey, started);
      return tasks.length === 0 ? noTasks : [{ key: "tasks", text: tasksNote(tasks.toReversed()) }];
    });
  }

  return {
    notes: [unfinishedTasks],
    offers: async () => ({
      subagents: (await roster.entries()).map(({ name, description, declaration }) =>
        offeredSubagent({ ...declaration, name, description }),
      ),
    }),
    hooks: [
      { name: "subagents", priority: 80, preReasoning },
      { name: "subagents", tools: [...agentTools(roster, limits, inputOf), ...taskTools()] },
    ],
    async resolveChild(record) {
      const { agentKey, agentId, depth, userId, taskId, rootTaskId, sessionId } = record;
      const entry = await roster.find(agentId);
      const task = { taskId, rootTaskId, sessionId };
      return entry?.agentFor({ agentKey, task, depth, ...(userId !== undefined && { userId }) });
    },
  };
}
