import {
  type Approval,
  approvalOf,
  type Message,
  type Store,
  type TaskRecord,
} from "../../contract/index.ts";
import { nextStep, stopCallId } from "./next.ts";
import { readTranscript } from "./transcript.ts";

/** An unfinished task and its pending approvals. */
export interface WaitingTask {
  readonly record: TaskRecord;
  readonly approvals: readonly Approval[];
}

/** The pending approvals of a tree, or of all trees of a root session. */
export async function waitingTasks(
  store: Store,
  where: { readonly rootTaskId: string } | { readonly conversation: string },
): Promise<readonly WaitingTask[]> {
  // A running task may have suspended calls beside running ones.
  const records = await store.tasks({ ...where, status: ["in_progress", "suspended"] });
  return Promise.all(
    records.map(async (record) =>
      waitingIn(record, (await readTranscript(store, record)).messages),
    ),
  );
}

/** The pending approvals in a task's transcript. */
function waitingIn(record: TaskRecord, messages: readonly Message[]): WaitingTask {
  const step = nextStep(messages, record.agentName);
  if (step.type !== "act" && step.type !== "wait") return { record, approvals: [] };
  const approvals = step.calls.flatMap(({ call, suspension, answer }) =>
    suspension && !answer ? [approvalOf(record, call, suspension)] : [],
  );
  if (step.stop) approvals.push(approvalOf(record, noCall, step.stop));
  return { record, approvals };
}

const noCall = { id: stopCallId, name: "", input: {} };
