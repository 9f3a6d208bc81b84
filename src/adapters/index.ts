export { a2aRoutes, loadA2a } from "./a2a/routes.ts";
export { agUiRoutes } from "./ag-ui/routes.ts";
export { agentScopeRoutes } from "./agentscope/routes.ts";
export { aiSdkRoutes } from "./ai-sdk/routes.ts";
export { type McpOffer, type McpServed, mcpOfferFields } from "./mcp/offer.ts";
export { loadMcp, loadMcpStdio, mcpRoutes } from "./mcp/routes.ts";
export type { McpStreams } from "./mcp/stdio.ts";
export { responsesRoutes } from "./responses/routes.ts";
