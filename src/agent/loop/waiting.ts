import type { Approval } from "../../protocol/agent.ts";
import type { Message, SuspensionBlock } from "../../protocol/message.ts";
import type { Store, TaskRecord } from "../../protocol/store.ts";
import { approvalOf } from "../tool/permission.ts";
import { nextStep, stopCallId } from "./next.ts";

/** A task of a tree that has not ended, and what it waits for. */
export interface WaitingTask {
  readonly record: TaskRecord;
  readonly approvals: readonly Approval[];
  /** A stop that a hook asked for; the next call without input answers it. */
  readonly stop?: SuspensionBlock;
}

/** Everything in a tree, or in all trees of a root session, that waits for somebody. */
export async function waitingTasks(
  store: Store,
  where: { readonly rootTaskId: string } | { readonly conversation: string },
): Promise<readonly WaitingTask[]> {
  // One that still works may have a call that waits beside those that run.
  const records = await store.tasks({ ...where, status: ["in_progress", "suspended"] });
  return Promise.all(
    records.map(async (record) => waitingIn(record, await store.session(record.sessionId))),
  );
}

/** What waits in one task's transcript. */
function waitingIn(record: TaskRecord, messages: readonly Message[]): WaitingTask {
  const step = nextStep(messages, record.agentName);
  const calls = step.type === "act" || step.type === "wait" ? step.calls : [];
  const approvals = calls.flatMap(({ call, suspension, answer }) =>
    suspension && !answer ? [approvalOf(record, call, suspension)] : [],
  );
  const isStopped = record.status === "suspended" && step.type === "wait";
  const stop = isStopped ? openStop(messages) : undefined;
  return { record, approvals, ...(stop && { stop }) };
}

/** The stop that nothing has been said to yet. */
export function openStop(messages: readonly Message[]): SuspensionBlock | undefined {
  const blocks = messages.flatMap((message) => message.content);
  const stop = blocks.findLast(
    (block) => block.type === "suspension" && block.callId === stopCallId,
  );
  if (stop?.type !== "suspension") return undefined;
  const isAnswered = blocks.some(
    (block) => block.type === "answer" && block.approvalId === stop.approvalId,
  );
  return isAnswered ? undefined : stop;
}
