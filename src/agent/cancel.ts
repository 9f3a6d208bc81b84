import { RivuletError } from "../protocol/error.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";
import { Conversation } from "./conversation.ts";
import { abortTree, cancelRow } from "./drive.ts";
import { driverOf, unfinishedBelow } from "./drivers.ts";
import { startRoot } from "./root.ts";
import type { AgentSettings } from "./settings.ts";
import { taskReached } from "./task-reached.ts";

/**
 * Cancels a task with everything below it, wherever it is: what runs here is stopped now, what waits is taken to its
 * end, and what another process drives is told through the store. `settings` are those of the root's agent. Asked
 * again, it does nothing new. Resolves when it has ended, or once its owner in another process has been told.
 */
export async function cancelTask(
  settings: AgentSettings,
  taskId: string,
  reason = "cancelled",
): Promise<void> {
  const { store } = settings;
  const record = await store.task(taskId);
  if (record === undefined) {
    throw new RivuletError("unknown_task", `There is no task ${taskId}.`, {
      hint: "A task id is that of the call that started it.",
    });
  }
  const { rootTaskId } = record;
  const root = (await store.task(rootTaskId)) ?? record;
  const { sessionId } = root;
  const here = await Conversation.find(store, sessionId);
  if (here) {
    const driven = [...here.drives.values()].filter(
      (drive) => drive.record.taskId === taskId || drive.ancestors.includes(taskId),
    );
    abortTree(here, taskId, new Error(reason));
    await Promise.allSettled(driven.map(({ ended }) => ended));
  }
  const targets = await unfinishedTops(settings, record);
  for (const target of targets) await store.post(cancelRow(target, reason));
  await Promise.all(targets.map((target) => seeTo(settings, root, target)));
}

/** Has somebody take a cancel that was posted for a task that nobody drives here. */
async function seeTo(settings: AgentSettings, root: TaskRecord, target: TaskRecord): Promise<void> {
  const { store } = settings;
  const { sessionId, rootTaskId } = root;
  const tree = await store.tasks({ rootTaskId });
  const open = tree.filter(({ status }) => !isTerminal(status));
  const driver = driverOf(open, target.sessionId);
  if (driver?.taskId === rootTaskId) {
    const options = { sessionId, only: rootTaskId, onBusy: "fail" } as const;
    await startRoot(settings, undefined, options).reply.catch(() => {});
    return;
  }
  const signal = new AbortController().signal;
  const entry = { settings, sessionId, onBusy: "fail", signal } as const;
  const conversation = await Conversation.enter(entry).catch(() => undefined);
  if (conversation === undefined) return; // its owner sees the row
  try {
    await conversation.attend();
    if (conversation.drives.has(driver?.taskId ?? ""))
      await taskReached(store, target.taskId, ({ status }) => isTerminal(status), signal);
  } finally {
    await conversation.leave();
  }
}

/** The tasks at or below one that have not ended, without those that another of them takes along. */
async function unfinishedTops(
  { store }: AgentSettings,
  { taskId, rootTaskId }: TaskRecord,
): Promise<readonly TaskRecord[]> {
  const tree = await store.tasks({ rootTaskId });
  const own = tree.find((record) => record.taskId === taskId);
  return own && !isTerminal(own.status) ? [own] : unfinishedBelow(tree, taskId);
}
