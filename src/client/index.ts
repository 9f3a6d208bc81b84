export { ask } from "./ask.ts";
export {
  connect,
  type ListedApproval,
  type RemoteServer,
  type RemoteSessions,
  type SessionTask,
} from "./connect.ts";
export { ignoredEvents } from "./ignored-events.ts";
export { type Connection, passingError } from "./reader.ts";
export { RemoteAgent } from "./remote-agent.ts";
export { type RemoteEventsOptions, RemoteRun } from "./remote-run.ts";
export { replyIn } from "./reply.ts";
export { type ConnectOptions, Server } from "./request.ts";
export { withoutSecrets } from "./safe-link.ts";
export {
  createTaskStore,
  type TaskStore,
  type TaskStoreOptions,
  type TaskStoreSnapshot,
} from "./task-store.ts";
