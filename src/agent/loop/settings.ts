import type { Tracer } from "@opentelemetry/api";
import type { Agent, Awaitable, Budget } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import { systemClock } from "../../protocol/clock.ts";
import type { IdSource } from "../../protocol/id.ts";
import { createIds } from "../../protocol/id.ts";
import { invalid, readOptions } from "../../protocol/options.ts";
import type { Store, TaskRecord } from "../../protocol/store.ts";
import type { Usage } from "../../protocol/task.ts";
import { openStore } from "../../store/index.ts";
import { checkBudget, type Money } from "../base/budget.ts";
import type { Execution } from "../base/execution.ts";
import { frozenCopy } from "../base/plain.ts";
import { checkAgentId } from "../base/validation.ts";
import { providerTools } from "../model/request.ts";
import type { Model } from "../model/resolve.ts";
import { type ContextValues, ownValues } from "../tool/context.ts";
import type { Permissions } from "../tool/permission.ts";
import type { Tool } from "../tool/tool.ts";
import { Toolkit, type ToolSource } from "../tool/toolkit.ts";
import { agentFields } from "./check-options.ts";
import type { Hook } from "./hooks.ts";
import { checkHook, inOrder } from "./hooks.ts";
import type { PrepareInput } from "./input.ts";

/** The agent behind a child's record; undefined when there is none of its kind any more. */
export type ResolveChild = (child: TaskRecord) => Awaitable<Agent | undefined>;

/** What a ReActAgent is made of. */
export interface ReActAgentOptions {
  /** Who speaks; also names the agent's messages in a transcript. */
  readonly name: string;
  /** The kind of agent, in sources and paths; the name by default. */
  readonly agentId?: string;
  readonly description?: string;
  /** Any AI SDK language model, `"provider:id"`, or a list of which the later ones are fallbacks. */
  readonly model: Model;
  readonly systemPrompt?: string;
  readonly tools?: readonly Tool[];
  readonly toolkit?: Toolkit;
  /** Tools that come and go while the agent exists. */
  readonly toolSources?: readonly ToolSource[];
  readonly hooks?: readonly Hook[];
  /** Makes what is stored of what a caller says; absent: it is stored as it is. */
  readonly prepareInput?: PrepareInput;
  /** A store, `"memory"` or `"sqlite:path"`; in memory by default. */
  readonly store?: Store | string;
  /** How many model calls a task may make before it has to sum up. */
  readonly maxIters?: number;
  /** False: the calls of a batch run one after the other. */
  readonly parallel?: boolean;
  readonly execution?: Execution;
  readonly modelExecution?: Execution & { readonly stallMs?: number | null };
  /** Call options for the model: temperature, maxOutputTokens, providerOptions, tools of the provider and so on. */
  readonly modelOptions?: Readonly<Record<string, unknown>>;
  readonly permissions?: Permissions;
  /** How long a question may wait for its answer; then it counts as denied. For ever by default. */
  readonly approvalTimeoutMs?: number;
  /** True: every tool result may be cited. */
  readonly references?: boolean;
  /** True: thinking is shown as it is, not as a summary. */
  readonly rawReasoning?: boolean;
  readonly budget?: Budget;
  /** What a model call costs, for `budget.cost` and the usage on the wire; `model` is `provider/id`. */
  readonly price?: (usage: Usage, model: string) => Money;
  readonly context?: ContextValues;
  /** Finds the agent of a child that is to go on without the call that started it. */
  readonly resolveChild?: ResolveChild;
  /** True: an idle session starts by itself when background work of it has ended. */
  readonly wakeOnCompletion?: boolean;
  /** After this many milliseconds without a sign of life, another process takes a session over; defaults to 10 000. */
  readonly leaseMs?: number;
  readonly tracer?: Tracer;
  readonly clock?: Clock;
  readonly ids?: IdSource;
}

const defaults = {
  ...{ systemPrompt: "", maxIters: 10, parallel: true, references: false, rawReasoning: false },
  ...{ execution: {}, modelExecution: {}, modelOptions: {}, permissions: {}, budget: {} },
  ...{ hooks: [], wakeOnCompletion: false, leaseMs: 10_000, clock: systemClock },
} satisfies Partial<ReActAgentOptions>;
type Filled = keyof typeof defaults | "agentId" | "toolkit" | "ids";

/** The same, checked and with every default in place. Shared by all runs and never changed. */
export interface AgentSettings
  extends Omit<ReActAgentOptions, Filled | "model" | "tools" | "toolSources" | "store">,
    Required<Pick<ReActAgentOptions, Filled>> {
  readonly models: readonly Model[];
  readonly store: Store;
}

/** Checks options and fills them in; what cannot work is an error here and not at the first call. */
export function settingsOf(given: ReActAgentOptions): AgentSettings {
  const options = { ...defaults, ...readOptions("An agent", given, agentFields) };
  const { name, agentId = name, model, tools = [], toolkit, toolSources, store, ...rest } = options;
  for (const hook of rest.hooks) checkHook(hook);
  if (typeof name !== "string" || name.trim() === "" || name.includes("/")) {
    throw invalid("An agent needs a name without slashes.", 'For example: name: "assistant".');
  }
  if (toolkit !== undefined && tools.length > 0) {
    throw invalid(
      "An agent takes tools or a toolkit, not both.",
      "Put the tools into the toolkit.",
    );
  }
  checkBudget(rest.budget, rest.price !== undefined);
  providerTools(rest.modelOptions);
  checkAgentId(agentId);
  const hooks = inOrder(rest.hooks);
  const fromHooks = hooks.flatMap((hook) => hook.tools ?? []);
  return Object.freeze({
    ...rest,
    name,
    agentId,
    models: Array.isArray(model) ? [...(model as readonly Model[])] : [model],
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

/** Where an agent of this package keeps its settings. */
export const settingsKey = Symbol("settings");

/** The settings of an agent of this package; undefined for any other object with the `Agent` interface. */
export function settingsBehind(agent: Agent): AgentSettings | undefined {
  return (agent as { readonly [settingsKey]?: AgentSettings })[settingsKey];
}
