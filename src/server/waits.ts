import {
  hasHome,
  misfit,
  settingsBehind,
  Workload,
  waitReason,
  withUserLimit,
} from "../agent/index.ts";
import type { WaitReason } from "../contract/index.ts";
import type { FoundTask } from "./found-task.ts";
import type { Call } from "./route.ts";

/** The wait of a task, as it is shown. */
export interface ShownWait {
  readonly waits: { readonly reason: WaitReason["reason"]; readonly left_ms?: number };
}

/**
 * The reason why a task does not move, in the words of `onWait`: it is queued, or it runs and its owner is silent. A task
 * that has just been queued may wait for a moment only.
 */
export async function waitOf(
  { services }: Pick<Call, "services">,
  { record, root }: FoundTask,
): Promise<ShownWait | undefined> {
  const isRunning = record.status === "in_progress";
  if (!isRunning && record.status !== "queued") return undefined;
  const { store, agents } = services;
  const agent = agents.get(root.agentName);
  const settings = agent && settingsBehind(agent);
  const owner = await store.owner(root.sessionId);
  // Another server may have the agent of a task that runs.
  if (settings === undefined)
    return isRunning && owner ? undefined : { waits: { reason: "unknown_agent" } };
  const missing = owner === undefined && misfit(settings, root);
  if (missing && !(await hasHome(store, root))) return { waits: { reason: missing } };
  // A process with the agent takes over a task whose lease has expired.
  if (isRunning && owner === undefined) return { waits: { reason: "owner_silent", left_ms: 0 } };
  const workload = isRunning ? idle : await Workload.read(store, root.sessionId);
  const found = waitReason({ settings }, workload, record, owner ?? {});
  if (found === undefined) return undefined;
  const { reason, leftMs } = await withUserLimit(store, root, found);
  return { waits: { reason, ...(leftMs !== undefined && { left_ms: leftMs }) } };
}

/** A running task waits for no other one, so nothing is read. */
const idle = new Workload([], []);
