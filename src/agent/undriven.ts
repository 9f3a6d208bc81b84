import { RivuletError } from "../protocol/error.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { resumeChild } from "./child.ts";
import type { Conversation } from "./conversation.ts";
import { type Drive, startDrive } from "./drive.ts";
import { unfinishedBelow } from "./drivers.ts";
import { cancelled, failed } from "./ending.ts";
import { takeInbox } from "./inbox.ts";
import { driveTask, endTask, openTask, resumeTask } from "./lifecycle.ts";
import {
  childPlace,
  forgetAgent,
  nameOnly,
  openChild,
  openParent,
  settingsOfChild,
  sourceOf,
} from "./open-child.ts";
import { interruptedResult } from "./prompts.ts";
import { settlePending } from "./settle.ts";
import type { TaskRun } from "./task-run.ts";

/** Takes up a background task that nobody drives. One whose agent nobody knows any more has failed. */
export async function reviveChild(conversation: Conversation, record: TaskRecord): Promise<void> {
  const parent = await openParent(conversation, record);
  if (parent === undefined) return;
  const settings = await settingsOfChild(parent, record);
  if (conversation.drives.has(record.taskId)) return;
  if (settings !== undefined) resumeChild(parent, settings, record);
  else {
    const isLost = ({ status }: TaskRecord) => status === "queued" || status === "in_progress";
    await endUndriven(parent, record, async (current) => {
      if (isLost(current)) await failLost(conversation, current, parent);
    });
  }
}

/** Fails what no process drives any more, the deepest first: a parent's calls have ended when it ends. */
export async function failLostTasks(conversation: Conversation): Promise<void> {
  const { store, sessionId } = conversation;
  const lost = await store.tasks({ conversation: sessionId, status: ["queued", "in_progress"] });
  for (const record of [...lost].sort((one, other) => other.depth - one.depth)) {
    const parent = record.depth > 0 ? await openParent(conversation, record) : undefined;
    await failLost(conversation, record, parent);
  }
}

/** The process that drove it is gone, and it is not taken up. */
async function failLost(
  conversation: Conversation,
  record: TaskRecord,
  parent: TaskRun | undefined,
): Promise<void> {
  const messages = await conversation.store.session(record.sessionId);
  const { agentName: name, agentId } = record;
  const task = await openTask({
    settings: { ...conversation.settings, name, agentId },
    conversation,
    record,
    messages,
    caller: {},
    ...(parent && { parent }),
    ...(record.depth > 0 && { source: sourceOf(record) }),
  });
  if (record.status !== "queued") {
    await resumeTask(task, "recovered");
    await cancelChildren(task, "in_turn");
    await settlePending(task, "error", interruptedResult);
  }
  await endTask(task, failed(task, executorLost()));
}

function executorLost(): RivuletError {
  return new RivuletError("executor_lost", "executor lost", {
    hint: "The process that drove this task is gone. Start it again.",
  });
}

/**
 * Cancels what is below a task and driven by nobody: what waits, and what its process has left. What runs has been
 * told. `in_turn` are only those that the task's calls wait for.
 */
export async function cancelChildren(parent: TaskRun, which: "all" | "in_turn"): Promise<void> {
  const { store, drives } = parent.conversation;
  const { rootTaskId, taskId } = parent.ref;
  for (let hasMore = true; hasMore; ) {
    hasMore = false;
    const tree = await store.tasks({ rootTaskId });
    // Whoever stands in between sees to those below it.
    const ends = unfinishedBelow(tree, taskId).map((record) => {
      const isInTurn = record.mode === "sync" && record.parentTaskId === taskId;
      const driven = drives.get(record.taskId);
      if (which === "in_turn" && !isInTurn) return undefined;
      if (driven) return isInTurn ? driven.ended.catch(() => {}) : undefined;
      hasMore = true;
      return cancelUndriven(parent, record);
    });
    await Promise.all(ends);
  }
}

/** Cancels the child of a call that has its result without it: given up before it had looked, or looked in vain. */
export async function cancelChildOf(parent: TaskRun, callId: string): Promise<void> {
  if (!parent.childCalls.has(callId)) return;
  const child = await parent.conversation.store.task(callId);
  if (child?.mode === "sync" && !isTerminal(child.status)) await cancelUndriven(parent, child);
}

async function cancelUndriven(top: TaskRun, record: TaskRecord): Promise<void> {
  const above = await parentOf(top, record);
  const { signal } = top.controller;
  const reason = signal.aborted ? signal.reason : new Error("Its caller has ended.");
  const { store, drives } = top.conversation;
  const driven = drives.get(record.taskId);
  if (driven) {
    // Somebody has taken it up meanwhile.
    driven.controller.abort(reason);
    return driven.ended;
  }
  await endUndriven(above, record, async (current, { controller }) => {
    controller.abort(reason);
    // Nothing of it runs any more, so all that is needed of its agent is the name.
    const messages = await store.session(current.sessionId);
    const child = await openChild(above, nameOnly(above, current), current, messages, {
      controller,
    });
    if (current.status === "queued") {
      await takeInbox(child, "step");
      await endTask(child, cancelled(child));
    } else {
      // As one that works it is found again, should this process be lost.
      await resumeTask(child, "cancelled");
      await driveTask(child);
    }
    forgetAgent(store, record.taskId);
    if (current.mode === "background" || !above.openResults.has(record.taskId)) return;
    const place = childPlace(above, record.taskId);
    const status = child.record.status as TerminalStatus;
    above.emitter.emit({ type: "task.child.finished", ...place, status, usage: child.usage });
  });
}

/** Ends a task that nobody drives; while it ends, this drives it, so that nobody takes it up. */
async function endUndriven(
  { conversation, ancestors, ref }: TaskRun,
  record: TaskRecord,
  end: (current: TaskRecord, drive: Drive) => Promise<void>,
): Promise<void> {
  const { store } = conversation;
  const drive = startDrive({
    conversation,
    record,
    ancestors: [...ancestors, ref.taskId],
    input: [],
    isWritten: true,
    async open(own) {
      own.record = (await store.task(record.taskId)) ?? record;
      if (!isTerminal(own.record.status)) await end(own.record, own);
      own.record = (await store.task(record.taskId)) ?? record;
      return { rests: true };
    },
  });
  await drive.ended;
}

/** The task right above a record, somewhere at or below `top`. */
async function parentOf(top: TaskRun, record: TaskRecord): Promise<TaskRun> {
  if (record.parentTaskId === top.ref.taskId) return top;
  return (await openParent(top.conversation, record)) ?? top;
}
