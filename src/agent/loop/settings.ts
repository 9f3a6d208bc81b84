import type { Tracer } from "@opentelemetry/api";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { createIds, type IdSource } from "../../base/id.ts";
import * as is from "../../base/options.ts";
import { type Fields, invalid, readArgument, readOptions } from "../../base/options.ts";
import { frozenCopy } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import type { Hook } from "../../contract/index.ts";
import {
  type Agent,
  agentIdField,
  type Budget,
  budgetField,
  callFields,
  type ObserveOptions,
  type OutsideTool,
  type RunOptions,
  type Store,
  type StreamOptions,
  sessionIdField,
  type TaskRecord,
  viewFields,
} from "../../contract/index.ts";
import type { Usage } from "../../protocol/index.ts";
import { openStore, storeField } from "../../store/index.ts";
import { checkBudget, type Money } from "../base/budget.ts";
import { type Execution, executionField, modelExecutionField } from "../base/execution.ts";
import { providerTools } from "../model/request.ts";
import { type Model, type ModelSettings, modelField, modelSettings } from "../model/resolve.ts";
import { type ContextValues, contextField, ownValues } from "../tool/context.ts";
import { type Permissions, permissionsField } from "../tool/permission.ts";
import { jsonSchema } from "../tool/schema.ts";
import { type Tool, tool, toolsField } from "../tool/tool.ts";
import { sourcesField, Toolkit, type ToolSource, toolkitField } from "../tool/toolkit.ts";
import { checkHook, inOrder } from "./hooks.ts";
import type { PrepareInput } from "./input.ts";

/** Returns the agent of a child's record; undefined if it no longer exists. */
export type ResolveChild = (child: TaskRecord) => Awaitable<Agent | undefined>;

/** Options of a ReActAgent. */
export interface ReActAgentOptions {
  /** The agent's name, also on its messages in a transcript. */
  readonly name: string;
  /** The kind of agent, in sources and paths; defaults to the name. */
  readonly agentId?: string;
  readonly description?: string;
  /** Any AI SDK language model, `"provider:id"`, or a list of which the later ones are fallbacks. */
  readonly model: Model;
  /** Other models that a call may choose with its option `model`. */
  readonly models?: readonly Model[];
  readonly systemPrompt?: string;
  readonly tools?: readonly Tool[];
  readonly toolkit?: Toolkit;
  /** Sources of tools that may change while the agent exists, such as MCP servers. */
  readonly toolSources?: readonly ToolSource[];
  readonly hooks?: readonly Hook[];
  /** Converts a caller's messages before they are stored. */
  readonly prepareInput?: PrepareInput;
  /** A store, `"memory"`, `"sqlite:path"` or `"postgres://…"`; defaults to memory. */
  readonly store?: Store | string;
  /** How many model calls a task may make before the summary; defaults to 10. */
  readonly maxIters?: number;
  /** False: the calls of a reply run one after the other. */
  readonly parallel?: boolean;
  readonly execution?: Execution;
  readonly modelExecution?: Execution & { readonly stallMs?: number | null };
  /** Call options for the model, such as temperature, maxOutputTokens, providerOptions and provider tools. */
  readonly modelOptions?: Readonly<Record<string, unknown>>;
  readonly permissions?: Permissions;
  /** How long an approval may wait before it is denied; defaults to no limit. */
  readonly approvalTimeoutMs?: number;
  /** True: every tool result can be cited. */
  readonly references?: boolean;
  /** True: streams the model's thinking unabridged, not as a summary. */
  readonly rawReasoning?: boolean;
  readonly budget?: Budget;
  /** Returns the cost of a model call, for `budget.cost` and usage events; `model` is `provider/id`. */
  readonly price?: (usage: Usage, model: string) => Money;
  readonly context?: ContextValues;
  /** Finds the agent of a child that continues without the call that started it. */
  readonly resolveChild?: ResolveChild;
  /** True: the end of background work starts an idle session. */
  readonly wakeOnCompletion?: boolean;
  /** After this many milliseconds without a renewal, another process takes over a session; defaults to 10 000. */
  readonly leaseMs?: number;
  /** The version of the agent's code, for `rollout`; absent: the same as any other. */
  readonly version?: string;
  /**
   * `move` (default): a run continues on any version. `finish`: it stays on its version while a process has that, and
   * moves after ten minutes without one, or when it was suspended.
   */
  readonly rollout?: "move" | "finish";
  /** The local resources that runs depend on: only agents with the same place continue them; defaults to none. */
  readonly place?: string;
  readonly tracer?: Tracer;
  readonly clock?: Clock;
  readonly ids?: IdSource;
}

const penalty = is.number("a number");
/** The call options of AI SDK models, except the prompt and the signal, which the agent sets. */
const modelOptionFields = {
  maxOutputTokens: is.count,
  temperature: penalty,
  stopSequences: is.listOf(is.text),
  topP: penalty,
  topK: penalty,
  presencePenalty: penalty,
  frequencyPenalty: penalty,
  responseFormat: is.data,
  seed: is.integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
  tools: is.anything,
  toolChoice: is.anything,
  includeRawChunks: is.flag,
  headers: is.recordOf(is.text),
  reasoning: is.text,
  providerOptions: is.data,
};

/** The rules for all options of an agent; `settingsOf` checks the rest. */
export const agentFields: Fields<ReActAgentOptions> = {
  name: is.anything,
  agentId: is.anything,
  description: is.text,
  model: is.required(modelField),
  models: { ...is.listOf(modelField), example: '["openai:gpt-5-mini"]' },
  systemPrompt: is.text,
  tools: toolsField,
  toolkit: toolkitField,
  toolSources: { ...sourcesField, example: "[await connectMcp(server)]" },
  hooks: callFields.hooks,
  prepareInput: is.callback,
  store: storeField,
  maxIters: is.count,
  parallel: is.flag,
  execution: executionField,
  modelExecution: modelExecutionField,
  modelOptions: is.options(modelOptionFields),
  permissions: permissionsField,
  approvalTimeoutMs: is.duration,
  references: is.flag,
  rawReasoning: is.flag,
  budget: budgetField,
  price: {
    ...is.callback,
    example: '(usage, model) => ({ amount: 0.002, currency: "USD" })',
  },
  context: contextField,
  resolveChild: is.callback,
  wakeOnCompletion: is.flag,
  leaseMs: is.duration,
  version: is.name,
  rollout: is.oneOf("move", "finish"),
  place: is.name,
  tracer: is.withFunctions("startSpan"),
  clock: is.clock,
  ids: is.withFunctions("next", "uuid"),
};

const defaults = {
  ...{ systemPrompt: "", maxIters: 10, parallel: true, references: false, rawReasoning: false },
  ...{ execution: {}, modelExecution: {}, modelOptions: {}, permissions: {}, budget: {} },
  ...{ hooks: [], wakeOnCompletion: false, leaseMs: 10_000, clock: systemClock },
} satisfies Partial<ReActAgentOptions>;
type Filled = keyof typeof defaults | "agentId" | "toolkit" | "ids";

/** Checked options with defaults, frozen and shared by all runs. */
export interface AgentSettings
  extends Omit<ReActAgentOptions, Filled | "model" | "models" | "tools" | "toolSources" | "store">,
    Required<Pick<ReActAgentOptions, Filled>>,
    ModelSettings {
  readonly store: Store;
}

/** Checks options and applies defaults, so that invalid options throw in the constructor and not in the first call. */
export function settingsOf(given: ReActAgentOptions): AgentSettings {
  const options = { ...defaults, ...readOptions("An agent", given, agentFields) };
  const { name, agentId = name, model, models, tools = [], toolkit, ...others } = options;
  const { toolSources, store, ...rest } = others;
  for (const hook of rest.hooks) checkHook(hook);
  if (typeof name !== "string" || name.trim() === "" || !/^[^/\p{Cc}]{1,128}$/u.test(name)) {
    throw invalid("An agent needs a name of 1 to 128 characters, no slash.", 'Try "assistant".');
  }
  if (toolkit !== undefined && tools.length > 0) {
    throw invalid(
      "An agent takes tools or a toolkit, not both.",
      "Put the tools into the toolkit.",
    );
  }
  if (rest.rollout === "finish" && rest.version === undefined)
    throw invalid('rollout: "finish" needs a version.', 'Add version: "2025-06-01", or a commit.');
  checkBudget(rest.budget, rest.price !== undefined);
  providerTools(rest.modelOptions);
  readArgument("agentId", agentId, agentIdField);
  const hooks = inOrder(rest.hooks);
  const fromHooks = hooks.flatMap((hook) => hook.tools ?? []);
  return Object.freeze({
    ...rest,
    name,
    agentId,
    ...modelSettings(model, models),
    toolkit: (toolkit ?? new Toolkit({ tools })).with(fromHooks, toolSources),
    hooks,
    store: openStore(store ?? "memory"),
    execution: frozenCopy(rest.execution),
    modelExecution: frozenCopy(rest.modelExecution),
    modelOptions: frozenCopy(rest.modelOptions),
    permissions: frozenCopy(rest.permissions),
    budget: frozenCopy(rest.budget),
    ...(rest.context && { context: ownValues(rest.context) }),
    ids: rest.ids ?? createIds({ clock: rest.clock }),
  });
}

/** The settings of a task with a chosen model; throws `model_not_allowed`. */
export function withModel(settings: AgentSettings, chosen: string | undefined): AgentSettings {
  if (chosen === undefined) return settings;
  const { name, choices } = settings;
  const models = choices.get(chosen);
  if (models) return { ...settings, models };
  const shown = JSON.stringify(chosen.slice(0, 128));
  throw new RivuletError("model_not_allowed", `Agent ${name} does not allow the model ${shown}.`, {
    hint: `Pass one of its models: ${[...choices.keys()].join(", ")}. Others must be in its option \`models\`.`,
  });
}

/** The settings of a task with tools that its caller executes; throws for a name that the agent has. */
export function withOutsideTools(
  settings: AgentSettings,
  outside: readonly OutsideTool[] | undefined,
): AgentSettings {
  if (outside === undefined || outside.length === 0) return settings;
  const { toolkit } = settings;
  const taken = outside.find(({ name }) => toolkit.names.includes(name));
  if (taken !== undefined)
    throw new RivuletError(
      "invalid_argument",
      `\`outsideTools\`: the agent has a tool ${taken.name}.`,
      {
        hint: "Give the outside tool another name.",
      },
    );
  return { ...settings, toolkit: toolkit.with(outside.map(outsideTool)) };
}

/** A tool without `execute`, whose result always comes from outside. */
function outsideTool({ name, description = "", parameters }: OutsideTool): Tool {
  const input = jsonSchema(parameters ?? { type: "object" });
  return tool({ name, description, input });
}

/** The rules for the options of `call` and `run`. */
export const runFields: Fields<RunOptions> = { ...callFields, context: contextField };
/** The rules for the options of `stream`. */
export const streamFields: Fields<StreamOptions> = { ...runFields, ...viewFields };
/** The rules for the options of `observe`. */
export const observeFields: Fields<ObserveOptions> = {
  sessionId: is.required(sessionIdField, '"my-session"'),
  ...{ userId: runFields.userId, signal: is.signal, onBusy: runFields.onBusy, onWait: is.callback },
};

/** The property that holds the settings of an agent of this package. */
export const settingsKey = Symbol("settings");

/** The settings of an agent of this package; undefined for any other object with the `Agent` interface. */
export function settingsBehind(agent: Agent): AgentSettings | undefined {
  return (agent as { readonly [settingsKey]?: AgentSettings })[settingsKey];
}

/** The name that an agent's messages carry. */
export function nameOf(agent: Agent): string {
  return settingsBehind(agent)?.name ?? agent.name;
}
