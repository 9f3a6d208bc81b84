import type {
  AgentEvent,
  AttachOptions,
  ObserveOptions,
  RunOptions,
  StreamOptions,
} from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import * as is from "../../protocol/options.ts";
import { describe, type Field, type Fields } from "../../protocol/options.ts";
import { storeField } from "../../store/index.ts";
import { budgetField } from "../base/budget.ts";
import { executionField, modelExecutionField } from "../base/validation.ts";
import { modelField } from "../model/resolve.ts";
import { contextField } from "../tool/context.ts";
import { permissionsField } from "../tool/permission.ts";
import { sourcesField, toolkitField } from "../tool/toolkit.ts";
import type { ReActAgentOptions } from "./settings.ts";

const hooks = { ...is.list, example: "[audit]" };
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
  hooks,
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

const until = is.oneOf("root", "tree");
const sessionId: Field = {
  fits(value) {
    if (is.name.fits(value) && (value as string).length <= 128 && !(value as string).includes("/"))
      return true;
    throw new RivuletError(
      "invalid_session_id",
      `A session id must have 1 to 128 characters and no slash, got ${describe(value)}.`,
      { hint: "Omit it to start a new session." },
    );
  },
  expected: "a session id",
};

const taskId: Field = {
  fits: (value) => typeof value === "string" && /^[\w-]{1,128}$/.test(value),
  expected: "1 to 128 letters, digits, `_` and `-`",
};
const metadata: Field = {
  fits: (value) => is.data.fits(value) && JSON.stringify(value).length <= 16_384,
  expected: "an object of plain data, with at most 16384 characters of JSON",
};

/** The rules for the options of `call` and `run`. */
export const runFields: Fields<RunOptions> = {
  sessionId,
  taskId,
  userId: is.name,
  signal: is.signal,
  output: is.anything,
  until,
  onBusy: is.oneOf("queue", "fail"),
  onSuspended: is.oneOf("fail", "deny"),
  context: contextField,
  hooks,
  budget: budgetField,
  metadata,
  onWait: is.callback,
};
/** The rules for the options of `observe`. */
export const observeFields: Fields<ObserveOptions> = {
  sessionId: is.required(sessionId, '"my-session"'),
  ...{ userId: is.name, signal: is.signal, onBusy: runFields.onBusy, onWait: is.callback },
};

const eventTypes: Readonly<Record<AgentEvent["type"], true>> = {
  reasoning: true,
  tool_call: true,
  progress: true,
  tool_result: true,
  child: true,
  retry: true,
  hint: true,
  summary: true,
  approval: true,
  agent_result: true,
};

/** The rules for the options of `stream`. */
export const streamFields: Fields<StreamOptions> = {
  ...runFields,
  types: is.listOf(is.oneOf(...Object.keys(eventTypes))),
  incremental: is.flag,
  chunks: is.flag,
};

/** The rules for the target of `attach`. */
export const targetFields = { sessionId: is.name, taskId: is.name };
/** The rules for the query of `approvals`. */
export const approvalsFields = { sessionId: is.required(is.name, '"my-session"'), userId: is.name };
/** The rules for the options of `attach`. */
export const attachFields: Fields<AttachOptions> = {
  userId: is.name,
  after: is.integer(-1),
  until,
};
/** The rules for the options of `events`. */
export const eventsFields = { after: is.integer(-1), until };
