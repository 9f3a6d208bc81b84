export { agentTool, childResult } from "./agent-tool.ts";
export { lowerBudget, type Money } from "./base/budget.ts";
export { backoffMs, type Execution, executionField } from "./base/execution.ts";
export { placeholders, toolErrors } from "./base/prompts.ts";
export { answerRows } from "./drive/answers.ts";
export type { Conversation } from "./drive/conversation.ts";
export { hasHome, isAtUserLimit, misfit, moveConversation } from "./drive/home.ts";
export { postCancel, unfinished, Workload } from "./drive/plan.ts";
export { processOf } from "./drive/process.ts";
export { cancelTask, taskReached, waitReason, withUserLimit } from "./drive/rest.ts";
export type { FlushQueue } from "./events/flush-queue.ts";
export { foldTask } from "./events/fold-log.ts";
export { childReport, describeChild, outcomeOf, standing } from "./loop/child-outcome.ts";
export { tellAnyway } from "./loop/hooks.ts";
export type { PrepareInput } from "./loop/input.ts";
export {
  type AgentSettings,
  agentFields,
  observeFields,
  type ReActAgentOptions,
  runFields,
  settingsBehind,
  settingsKey,
} from "./loop/settings.ts";
export { keptFor, type OnModelCall, type StandIn, type TaskRun } from "./loop/task-run.ts";
export { taskBehind, taskKey } from "./loop/tool-context.ts";
export { iterationOf, wholeTranscript } from "./loop/transcript.ts";
export { waitingTasks } from "./loop/waiting.ts";
export { runTurn } from "./model/model.ts";
export { toPrompt } from "./model/request.ts";
export {
  addProvider,
  type CreateModel,
  checkModel,
  flattenModels,
  type LanguageModel,
  type Model,
  modelField,
  modelSettings,
  resolveModel,
} from "./model/resolve.ts";
export type { Turn, TurnRequest, TurnSink, TurnTool } from "./model/turn.ts";
export { agentWith, ReActAgent } from "./react-agent.ts";
export { enter } from "./stream/door.ts";
export { TaskHandle } from "./stream/run.ts";
export { isCommandPattern } from "./tool/command.ts";
export {
  type ChildOptions,
  type ChildOutcome,
  ContextStore,
  type ContextValues,
  type Resumed,
  type ToolContext,
} from "./tool/context.ts";
export {
  decide,
  isAlwaysAllowed,
  joinPermissions,
  type Permissions,
  permissionsHint,
  permissionsProblem,
  type Rule,
} from "./tool/permission.ts";
export { cutText, jsonOf, maxResultCharacters } from "./tool/result.ts";
export { jsonSchema } from "./tool/schema.ts";
export {
  definitionOf,
  isCallOf,
  type ToolDefinition,
  ToolFailure,
  type ToolOptions,
  tool,
} from "./tool/tool.ts";
export {
  type ToolGroup,
  type ToolGroups,
  Toolkit,
  type ToolkitOptions,
  type ToolSource,
} from "./tool/toolkit.ts";
export { toolAgent, toolBehind } from "./tool-agent.ts";
