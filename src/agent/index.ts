export { agentTool, childResult } from "./agent-tool.ts";
export type { Money } from "./base/budget.ts";
export type { Execution } from "./base/execution.ts";
export type {
  ActingVerdict,
  Hook,
  HookContext,
  ModelCall,
  ReasoningChunk,
  ReasoningVerdict,
  ToolCall,
  ToolChunk,
  ToolResult,
} from "./loop/hooks.ts";
export type { PrepareInput } from "./loop/input.ts";
export type { ReActAgentOptions } from "./loop/settings.ts";
export type { LanguageModel, Model } from "./model/resolve.ts";
export { ReActAgent } from "./react-agent.ts";
export type { ChildOptions, ChildOutcome, ContextValues, ToolContext } from "./tool/context.ts";
export { ContextStore } from "./tool/context.ts";
export type { Permissions, Rule } from "./tool/permission.ts";
export { jsonSchema } from "./tool/schema.ts";
export type { Tool, ToolOptions } from "./tool/tool.ts";
export { isCallOf, tool } from "./tool/tool.ts";
export type { ToolGroup, ToolGroups, ToolkitOptions, ToolSource } from "./tool/toolkit.ts";
export { Toolkit } from "./tool/toolkit.ts";
