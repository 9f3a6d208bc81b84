import { settingsBehind, Workload, waitReason } from "../agent/index.ts";
import type { FoundTask } from "./found-task.ts";
import type { Call } from "./route.ts";

/** The wait of a queued task, as it is shown. */
export interface ShownWait {
  readonly waits: { readonly reason: string; readonly left_ms?: number };
}

/** The reason why a queued task waits, in the words of `onWait`. A task that has just been queued may wait for a moment only. */
export async function waitOf(
  { services }: Pick<Call, "services">,
  { record, root }: FoundTask,
): Promise<ShownWait | undefined> {
  if (record.status !== "queued") return undefined;
  const { store, agents } = services;
  const agent = agents.get(root.agentName);
  const settings = agent && settingsBehind(agent);
  if (settings === undefined) return { waits: { reason: "unknown_agent" } };
  const workload = await Workload.read(store, root.sessionId);
  const owner = await store.owner(root.sessionId);
  const found = waitReason({ settings }, workload, record, owner ?? {});
  if (found === undefined) return undefined;
  const { reason, leftMs } = found;
  return { waits: { reason, ...(leftMs !== undefined && { left_ms: leftMs }) } };
}
