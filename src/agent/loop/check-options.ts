import {
  anything,
  callback,
  checkExecution,
  checkFields,
  checkModelExecution,
  count,
  type Fields,
  flag,
  list,
  record,
  text,
} from "../base/validation.ts";
import { checkHook } from "./hooks.ts";
import type { ReActAgentOptions } from "./settings.ts";

/** The types of all options of an agent; `settingsOf` checks the rest. */
export const agentFields: Fields<ReActAgentOptions> = {
  name: anything,
  agentId: anything,
  description: text,
  model: anything,
  systemPrompt: text,
  tools: { ...list, example: "[search]" },
  toolkit: record,
  toolSources: { ...list, example: "[await connectMcp(server)]" },
  hooks: { ...list, example: "[audit]" },
  prepareInput: callback,
  store: anything,
  maxIters: count,
  parallel: flag,
  execution: record,
  modelExecution: record,
  modelOptions: record,
  permissions: anything,
  approvalTimeoutMs: { ...count, expected: "an integer of at least 1 (milliseconds)" },
  references: flag,
  rawReasoning: flag,
  budget: anything,
  price: {
    ...callback,
    example: '(usage, model) => ({ amount: 0.002, currency: "USD" })',
  },
  context: anything,
  resolveChild: callback,
  wakeOnCompletion: flag,
  leaseMs: { ...count, expected: "an integer of at least 1 (milliseconds)" },
  tracer: anything,
  clock: anything,
  ids: anything,
};

/** Throws `invalid_settings` for unknown options and for options of the wrong type. */
export function checkOptions(options: ReActAgentOptions): void {
  checkFields("An agent", options, agentFields, "");
  checkExecution("execution", options.execution);
  checkModelExecution("modelExecution", options.modelExecution);
  for (const hook of options.hooks ?? []) checkHook(hook);
}
