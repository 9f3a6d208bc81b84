import { agentKeyOf } from "../../base/id.ts";
import { frozenCopy } from "../../base/plain.ts";
import type { RunOptions, StandardSchema, TaskRecord } from "../../contract/index.ts";
import type { ChildStarted, TaskObject } from "../../protocol/index.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { TaskRun } from "../loop/task-run.ts";
import { toJsonSchema } from "../tool/schema.ts";

/** The record of a new root task. */
export function rootRecord(
  settings: AgentSettings,
  sessionId: string,
  options: RunOptions<StandardSchema | undefined>,
): TaskRecord {
  const { ids, clock, agentId, name } = settings;
  const taskId = options.taskId ?? ids.next("task");
  return {
    taskId,
    rootTaskId: taskId,
    agentId,
    agentName: name,
    agentKey: agentKeyOf(agentId, ids.uuid()),
    sessionId,
    ...(options.userId !== undefined && { userId: options.userId }),
    depth: 0,
    path: sessionId,
    createdAt: clock.now(),
    mode: "sync",
    status: "queued",
    committedOutput: 0,
    ...(options.output && { outputSchema: toJsonSchema(options.output) }),
    ...(options.budget && { budget: frozenCopy(options.budget) }),
    ...(options.model !== undefined && { model: options.model }),
    ...(options.outsideTools && { outsideTools: frozenCopy(options.outsideTools) }),
    ...(options.metadata && { metadata: frozenCopy(options.metadata) }),
    ...(options.origin && { origin: frozenCopy(options.origin) }),
  };
}

/** The record of a descendant of the child. */
export function childRecord(
  { state: { record: parent } }: TaskRun,
  { child_task_id: taskId, agent, item_id: parentItemId, mode }: ChildStarted,
  sessionId: string,
  { created_at: createdAt = 0, mode: created = mode }: Partial<TaskObject> = {},
): TaskRecord {
  const { rootTaskId, userId, depth, path, sessionId: parentSessionId, remote } = parent;
  const { id: agentId, name: agentName = agentId, key: agentKey } = agent;
  return {
    taskId,
    rootTaskId,
    parentTaskId: parent.taskId,
    parentItemId,
    agentId,
    agentName,
    agentKey,
    sessionId,
    parentSessionId,
    ...(userId !== undefined && { userId }),
    depth: depth + 1,
    path: `${path}/${agentId}`,
    createdAt,
    mode: created,
    status: "queued",
    committedOutput: 0,
    ...(remote && { remote }),
  };
}
