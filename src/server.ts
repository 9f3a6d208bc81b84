export {
  type AdapterName,
  type AppOptions,
  createApp,
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
