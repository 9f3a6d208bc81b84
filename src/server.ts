export {
  type AdapterName,
  type AppOptions,
  createApp,
  type McpOffer,
  type McpPrompt,
  type McpReader,
  type McpResource,
  type ServeOptions,
  type Serving,
  serve,
} from "./app/index.ts";
export type {
  AuthOptions,
  Identity,
  JwtOptions,
  RequestLog,
  Scope,
  ServerLimits,
} from "./server/index.ts";
