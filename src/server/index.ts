export { type AccessToken, AccessTokens } from "./access-tokens.ts";
export { approvalRoutes } from "./approvals.ts";
export {
  type Addresses,
  type AuthOptions,
  authenticator,
  authField,
  credentialOf,
  type Identity,
  type JwtOptions,
  loopback,
  type Scope,
  tokenField,
} from "./auth.ts";
export { blobRoutes } from "./blobs.ts";
export { commonHeaders, Door, type RequestLog } from "./door.ts";
export { badRequest, errorResponse, publicError, statusOf, unknownAgent } from "./errors.ts";
export { Feeds } from "./feed.ts";
export { agentOf, type FoundTask, findTask, ownedBy } from "./found-task.ts";
export { checkBody, hashOf, taskIdOf } from "./idempotency.ts";
export { limitFields, limitsOf, type ServerLimits, UserLimits } from "./limits.ts";
export { Metrics, metricsRoute } from "./metrics.ts";
export { Names } from "./names.ts";
export { nodeRoutes } from "./nodes.ts";
export { openApi } from "./openapi.ts";
export { pageRoutes } from "./page.ts";
export { PageSessions } from "./page-sessions.ts";
export { keepPrompts, promptRoutes } from "./prompts.ts";
export { retryOf, retryRoute } from "./retry.ts";
export type { Call, Route, Services } from "./route.ts";
export { beginRun } from "./runs.ts";
export { deleteSession, forkSession, sessionRoutes } from "./sessions.ts";
export { openSink, untilDrained } from "./sink.ts";
export { type Sink, UnsentBytes } from "./sink-queue.ts";
export type { OpenStream } from "./stream.ts";
export { Streams } from "./streams.ts";
export { taskRoutes } from "./tasks.ts";
export { Trees } from "./trees.ts";
export { pricesField, usageRoutes } from "./usage.ts";
