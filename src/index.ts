export * from "./agent/index.ts";
export * from "./ai/index.ts";
export * from "./harness/index.ts";
export type { McpAddress, McpConnection, McpOptions, McpProgram, McpServer } from "./mcp/index.ts";
export { connectMcp } from "./mcp/index.ts";
export { RivuletError } from "./protocol/error.ts";
export type {
  Agent,
  AgentEvent,
  Answer,
  Approval,
  Block,
  Budget,
  Clock,
  Input,
  InputMessage,
  Message,
  ObserveOptions,
  Reply,
  Run,
  RunOptions,
  SearchMatch,
  SessionInfo,
  Source,
  StandardSchema,
  Store,
  StreamOptions,
  TaskEvent,
  TaskRef,
} from "./protocol/index.ts";
export { assistantMessage, userMessage } from "./protocol/message.ts";
export type { MemoryStoreOptions, SqliteStoreOptions } from "./store/index.ts";
export {
  exportConversations,
  type Imported,
  importConversations,
  type LogRetention,
  memoryStore,
  type Retention,
  sqliteStore,
} from "./store/index.ts";
