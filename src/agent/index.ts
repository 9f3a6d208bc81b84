export { agentTool, childResult } from "./agent-tool.ts";
export type { Execution } from "./execution.ts";
export type {
  ActingVerdict,
  Hook,
  HookContext,
  ModelCall,
  ReasoningVerdict,
  ToolCall,
  ToolResult,
} from "./hook.ts";
export type { PrepareInput } from "./input.ts";
export type { LanguageModel, Model } from "./model/resolve.ts";
export { ReActAgent } from "./react-agent.ts";
export type { Money, ReActAgentOptions } from "./settings.ts";
export type { ChildOptions, ChildOutcome, ContextValues, ToolContext } from "./tool/context.ts";
export { ContextStore } from "./tool/context.ts";
export type { ToolGroup, ToolGroups } from "./tool/groups.ts";
export type { McpConnection, McpOptions } from "./tool/mcp.ts";
export { connectMcp } from "./tool/mcp.ts";
export type { McpAddress, McpProgram, McpServer } from "./tool/mcp-link.ts";
export type { Permissions, Rule } from "./tool/permission.ts";
export { jsonSchema } from "./tool/schema.ts";
export type { Tool, ToolOptions } from "./tool/tool.ts";
export { tool } from "./tool/tool.ts";
export type { ToolkitOptions, ToolSource } from "./tool/toolkit.ts";
export { Toolkit } from "./tool/toolkit.ts";
