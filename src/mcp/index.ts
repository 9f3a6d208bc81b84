export {
  checkServer,
  connectMcp,
  type McpAddress,
  type McpConnection,
  type McpOptions,
  type McpProgram,
  type McpServer,
  mcpFields,
  serverFields,
} from "./connect.ts";
