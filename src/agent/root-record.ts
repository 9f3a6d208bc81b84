import type { Budget, RunOptions, StandardSchema } from "../protocol/agent.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { frozenCopy } from "./plain.ts";
import type { AgentSettings } from "./settings.ts";
import { toJsonSchema } from "./tool/schema.ts";

/** The record of a new root task. */
export function rootRecord(
  settings: AgentSettings,
  sessionId: string,
  options: RunOptions<StandardSchema | undefined>,
): TaskRecord {
  const { ids, clock, agentId, name } = settings;
  const taskId = ids.next("task");
  return {
    taskId,
    rootTaskId: taskId,
    agentId,
    agentName: name,
    agentKey: `agent:${agentId}:${ids.uuid()}`,
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
  };
}

/** The same record when a later call gives limits too: they come before those of the calls before it. */
export function withBudget(record: TaskRecord, budget: Budget | undefined): TaskRecord {
  return budget ? { ...record, budget: { ...record.budget, ...budget } } : record;
}
