export { connect, type RemoteServer, type RemoteSessions, type SessionTask } from "./connect.ts";
export type { Connection } from "./reader.ts";
export type { RemoteAgent } from "./remote-agent.ts";
export type { RemoteEventsOptions, RemoteRun } from "./remote-run.ts";
export type { ConnectOptions } from "./request.ts";
export {
  createTaskStore,
  type TaskStore,
  type TaskStoreOptions,
  type TaskStoreSnapshot,
} from "./task-store.ts";
