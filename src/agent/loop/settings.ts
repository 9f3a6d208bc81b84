import type { Tracer } from "@opentelemetry/api";
import type { Agent, Awaitable, Budget } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import { systemClock } from "../../protocol/clock.ts";
import type { IdSource } from "../../protocol/id.ts";
import { createIds } from "../../protocol/id.ts";
import type { Store, TaskRecord } from "../../protocol/store.ts";
import type { Usage } from "../../protocol/task.ts";
import { openStore } from "../../store/index.ts";
import { checkBudget, type Money } from "../base/budget.ts";
import type { Execution } from "../base/execution.ts";
import { frozenCopy } from "../base/plain.ts";
import { checkAgentId, invalid } from "../base/validation.ts";
import { providerTools } from "../model/request.ts";
import type { Model } from "../model/resolve.ts";
import { checkModel } from "../model/resolve.ts";
import { type ContextValues, ownValues } from "../tool/context.ts";
import { type Permissions, permissionsHint, permissionsProblem } from "../tool/permission.ts";
import type { Tool } from "../tool/tool.ts";
import { Toolkit, type ToolSource } from "../tool/toolkit.ts";
import { checkOptions } from "./check-options.ts";
import type { Hook } from "./hooks.ts";
import { inOrder } from "./hooks.ts";
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

/** The same, checked and with every default in place. Shared by all runs and never changed. */
export interface AgentSettings {
  readonly name: string;
  readonly agentId: string;
  readonly description: string | undefined;
  readonly models: readonly Model[];
  readonly systemPrompt: string;
  readonly toolkit: Toolkit;
  readonly hooks: readonly Hook[];
  readonly prepareInput: PrepareInput | undefined;
  readonly store: Store;
  readonly maxIters: number;
  readonly parallel: boolean;
  readonly execution: Execution;
  readonly modelExecution: Execution & { readonly stallMs?: number | null };
  readonly modelOptions: Readonly<Record<string, unknown>>;
  readonly permissions: Permissions;
  readonly approvalTimeoutMs: number | undefined;
  readonly references: boolean;
  readonly rawReasoning: boolean;
  readonly budget: Budget;
  readonly price: ReActAgentOptions["price"];
  readonly context: ContextValues | undefined;
  readonly resolveChild: ResolveChild | undefined;
  readonly wakeOnCompletion: boolean;
  readonly leaseMs: number;
  readonly tracer: Tracer | undefined;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Checks options and fills them in; what cannot work is an error here and not at the first call. */
export function settingsOf(options: ReActAgentOptions): AgentSettings {
  checkOptions(options);
  const { name, maxIters = 10, tools = [], toolkit } = options;
  if (typeof name !== "string" || name.trim() === "" || name.includes("/")) {
    throw invalid("An agent needs a name without slashes.", 'For example: name: "assistant".');
  }
  if (toolkit !== undefined && tools.length > 0) {
    throw invalid(
      "An agent takes tools or a toolkit, not both.",
      "Put the tools into the toolkit.",
    );
  }
  checkBudget(options.budget, options.price !== undefined);
  providerTools(options.modelOptions ?? {});
  const wrongRules = permissionsProblem(options.permissions);
  if (wrongRules !== undefined) throw invalid(`Wrong rules: ${wrongRules}.`, permissionsHint);
  const models = Array.isArray(options.model)
    ? [...(options.model as readonly Model[])]
    : [options.model];
  if (models.length === 0) {
    throw invalid("An agent needs a model.", 'For example: model: "openai:gpt-5-mini".');
  }
  for (const model of models) checkModel(model);
  const { agentId = name } = options;
  checkAgentId(agentId);
  const hooks = inOrder(options.hooks ?? []);
  const fromHooks = hooks.flatMap((hook) => hook.tools ?? []);
  const kit = toolkit ?? new Toolkit({ tools });
  const clock = options.clock ?? systemClock;
  return Object.freeze({
    name,
    agentId,
    description: options.description,
    models,
    systemPrompt: options.systemPrompt ?? "",
    toolkit: kit.with(fromHooks, options.toolSources),
    hooks,
    prepareInput: options.prepareInput,
    store: openStore(options.store ?? "memory"),
    maxIters,
    parallel: options.parallel ?? true,
    execution: frozenCopy(options.execution ?? {}),
    modelExecution: frozenCopy(options.modelExecution ?? {}),
    modelOptions: frozenCopy(options.modelOptions ?? {}),
    permissions: frozenCopy(options.permissions ?? {}),
    approvalTimeoutMs: options.approvalTimeoutMs,
    references: options.references ?? false,
    rawReasoning: options.rawReasoning ?? false,
    budget: frozenCopy(options.budget ?? {}),
    price: options.price,
    context: options.context && ownValues(options.context),
    resolveChild: options.resolveChild,
    wakeOnCompletion: options.wakeOnCompletion ?? false,
    leaseMs: options.leaseMs ?? 10_000,
    tracer: options.tracer,
    clock,
    ids: options.ids ?? createIds({ clock }),
  });
}

/** Where an agent of this package keeps its settings. */
export const settingsKey = Symbol("settings");

/** The settings of an agent of this package; undefined for any other object with the `Agent` interface. */
export function settingsBehind(agent: Agent): AgentSettings | undefined {
  return (agent as { readonly [settingsKey]?: AgentSettings })[settingsKey];
}
