import { checkExecution, checkModelExecution } from "./check-execution.ts";
import {
  anything,
  callback,
  checkFields,
  count,
  type Fields,
  flag,
  list,
  record,
  text,
} from "./check-fields.ts";
import { checkHook } from "./check-hook.ts";
import type { ReActAgentOptions } from "./settings.ts";

/** Every option of an agent; those that are more than their type are looked at where they are read. */
export const agentFields: Fields<ReActAgentOptions> = {
  name: anything,
  agentId: anything,
  description: text,
  model: anything,
  systemPrompt: text,
  tools: list,
  toolkit: record,
  toolSources: list,
  hooks: list,
  prepareInput: callback,
  store: anything,
  maxIters: count,
  parallel: flag,
  execution: record,
  modelExecution: record,
  modelOptions: record,
  permissions: anything,
  approvalTimeoutMs: { ...count, is: "a whole number of milliseconds, at least 1" },
  references: flag,
  rawReasoning: flag,
  budget: anything,
  price: callback,
  context: anything,
  resolveChild: callback,
  wakeOnCompletion: flag,
  tracer: anything,
  clock: anything,
  ids: anything,
};

/** Refuses options that an agent does not have, and those that are not what they have to be. */
export function checkOptions(options: ReActAgentOptions): void {
  checkFields("An agent", options, agentFields, "");
  checkExecution("execution", options.execution);
  checkModelExecution("modelExecution", options.modelExecution);
  for (const hook of options.hooks ?? []) checkHook(hook);
}
