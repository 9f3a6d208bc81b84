export { type AdapterName, type AppOptions, createApp } from "./app.ts";
export type { AuthOptions, Identity, JwtOptions, Scope } from "./auth.ts";
export type { RequestLog } from "./door.ts";
export type { ServerLimits } from "./limits.ts";
export { type ServeOptions, type Serving, serve } from "./serve.ts";
