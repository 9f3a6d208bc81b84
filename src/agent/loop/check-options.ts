import type { ObserveOptions, RunOptions, StreamOptions } from "../../protocol/agent.ts";
import {
  budgetField,
  callFields,
  sessionIdField,
  viewFields,
} from "../../protocol/call-options.ts";
import type { Fields } from "../../protocol/options.ts";
import * as is from "../../protocol/options.ts";
import { storeField } from "../../store/index.ts";
import { executionField, modelExecutionField } from "../base/validation.ts";
import { modelField } from "../model/resolve.ts";
import { contextField } from "../tool/context.ts";
import { permissionsField } from "../tool/permission.ts";
import { sourcesField, toolkitField } from "../tool/toolkit.ts";
import type { ReActAgentOptions } from "./settings.ts";

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
  systemPrompt: is.text,
  tools: { ...is.list, example: "[search]" },
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
  tracer: is.withFunctions("startSpan"),
  clock: is.clock,
  ids: is.withFunctions("next", "uuid"),
};

/** The rules for the options of `call` and `run`. */
export const runFields: Fields<RunOptions> = { ...callFields, context: contextField };
/** The rules for the options of `stream`. */
export const streamFields: Fields<StreamOptions> = { ...runFields, ...viewFields };
/** The rules for the options of `observe`. */
export const observeFields: Fields<ObserveOptions> = {
  sessionId: is.required(sessionIdField, '"my-session"'),
  ...{ userId: is.name, signal: is.signal, onBusy: runFields.onBusy, onWait: is.callback },
};
