import { RivuletError } from "../protocol/error.ts";
import type { Message, Reply, TaskRef } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { waitingTasks } from "./waiting.ts";

/** The names of a task. */
export function refOf({ taskId, rootTaskId, sessionId }: TaskRecord): TaskRef {
  return { taskId, rootTaskId, sessionId };
}

/** What a task hands back that somebody else has driven; throws what it failed with. */
export async function recordReply(store: Store, record: TaskRecord): Promise<Reply<unknown>> {
  const { taskId, rootTaskId, agentName, status, result, error } = record;
  if (status === "failed") {
    const { code = "failed", message = "The task failed.", ...more } = error ?? {};
    throw new RivuletError(code, message, more);
  }
  const waiting = status === "suspended" ? await waitingTasks(store, { rootTaskId }) : [];
  const isBelow = (path: string) => path === record.path || path.startsWith(`${record.path}/`);
  const approvals = waiting
    .filter((other) => isBelow(other.record.path))
    .flatMap((other) => other.approvals);
  const said: Message = result ?? { id: taskId, role: "assistant", name: agentName, content: [] };
  return {
    ...said,
    text: textOf(said.content),
    generateReason:
      record.generateReason ?? (status === "suspended" ? "approval_required" : "model_stop"),
    structured: record.structured,
    approvals,
    task: refOf(record),
  };
}
