import { notFound } from "../base/error.ts";
import type { Agent, TaskRecord } from "../contract/index.ts";
import { unknownAgent } from "./errors.ts";
import type { Call } from "./route.ts";

/** A task that the caller may see, with its root; every other task does not exist for the caller. */
export async function findTask({
  services,
  caller,
  params,
}: Pick<Call, "services" | "caller" | "params">): Promise<FoundTask> {
  const { store } = services;
  const { id: taskId = "" } = params;
  const record = await store.task(taskId);
  const root = record && (await store.task(record.rootTaskId));
  if (record === undefined || root === undefined || root.userId !== caller.userId)
    throw notFound("task", taskId.slice(0, 128));
  return { record, root };
}

/** A task and the root of its log. */
export interface FoundTask {
  readonly record: TaskRecord;
  readonly root: TaskRecord;
}

/** The agent of a task: the one that its root was started with. */
export function agentOf(
  { services }: Pick<Call, "services">,
  { root }: Pick<FoundTask, "root">,
): Agent {
  const agent = services.agents.get(root.agentName);
  if (agent) return agent;
  throw unknownAgent(root.agentName, services.agents);
}

/** The options that limit a call of an agent to the caller's own sessions. */
export function ownedBy({ userId }: Call["caller"]): { readonly userId?: string } {
  return userId === undefined ? {} : { userId };
}
