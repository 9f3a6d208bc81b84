export { billedRecord, billSessions } from "./bill.ts";
export type { CompactionOptions } from "./context/compaction.ts";
export { deleteSession } from "./delete-session.ts";
export type { Filesystem, FilesystemOptions } from "./filesystem/filesystem.ts";
export { type LocalFilesystemOptions, localFilesystem } from "./filesystem/local.ts";
export type { IsolationScope, Namespace } from "./filesystem/path.ts";
export {
  type SandboxChoice,
  type SandboxFilesystem,
  type SandboxFilesystemOptions,
  sandboxFilesystem,
} from "./filesystem/sandbox.ts";
export { configFiles } from "./filesystem/steering.ts";
export { type StoreFilesystemOptions, storeFilesystem } from "./filesystem/store.ts";
export { type HarnessAgentOptions, harnessBehind } from "./harness.ts";
export { HarnessAgent, harnessAgentWith, offerOf } from "./harness-agent.ts";
export type { McpServerOptions, ToolsFileOptions } from "./mcp-servers.ts";

export type { MemoryOptions } from "./memory/memory.ts";
export type { Memory, MemoryFile } from "./memory/memory-of.ts";
export {
  type AgentView,
  type AskedView,
  type CallView,
  type RunView,
  runOf,
} from "./runs/agents-view.ts";
export { withoutIds } from "./runs/difference.ts";
export {
  type RunRecording,
  recordingOf,
} from "./runs/recording.ts";
export { type ReplayedRun, type ReplayOptions, replayRecording } from "./runs/replay.ts";
export type { SandboxOptions } from "./sandbox/jail.ts";
export {
  type ForkOrigin,
  forkOriginOf,
  messageWithoutRepeat,
  type SessionExportHeader,
  type Sessions,
  sessionsOf,
} from "./session.ts";
export { skillsOf } from "./skills/served.ts";
export type { Skill } from "./skills/skill.ts";
export type { SubagentDeclaration } from "./subagents/declaration.ts";
export type { SubagentLimits } from "./subagents/spawn.ts";
export { listApprovals, type SessionApproval } from "./tasks/approval-list.ts";
export { startHeartbeat } from "./tasks/heartbeat.ts";
export { type Overview, overviewOf, type WaitingSession } from "./tasks/overview.ts";
export { type TaskRunner, type TaskRunnerOptions, taskRunner } from "./tasks/task-runner.ts";
export { fileTools } from "./tools/files.ts";
export { shellTools } from "./tools/shell.ts";
