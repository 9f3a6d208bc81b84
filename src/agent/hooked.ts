import type { Message, Reply } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { AroundDrive } from "./drive.ts";
import type { Ending, RestingEnding } from "./ending.ts";
import { callHooks } from "./hook.ts";
import { hooksOf, refreshTools, type TaskRun } from "./task-run.ts";
import { waitingTasks } from "./waiting.ts";

/**
 * Drives a task between its `preCall` and `postCall` hooks, all before it is written how the task has ended: a hook that
 * throws fails it. What it fails with is told to `onError`. Resolves to the reply, and throws what the task failed with.
 */
export async function driveHooked(
  task: TaskRun,
  input: readonly Message[],
  drive: (task: TaskRun, around: AroundDrive) => Promise<Ending>,
): Promise<Reply<unknown>> {
  const { hookContext } = task;
  const hooks = hooksOf(task);
  try {
    const ending = await drive(task, {
      async before() {
        // A call that a lost process has left behind is made before any reasoning.
        await refreshTools(task);
        await callHooks(hooks, "preCall", undefined, (hook) => hook.preCall?.(hookContext, input));
      },
      async after(resting) {
        const reply = await replyOf(task, resting);
        await callHooks(hooks, "postCall", undefined, (hook) =>
          hook.postCall?.(hookContext, reply),
        );
      },
    });
    if (ending.status === "failed") throw ending.error;
    return await replyOf(task, ending);
  } catch (error) {
    const failure = error instanceof Error ? error : new Error(String(error));
    // What a hook makes of the error must not hide it.
    await callHooks(hooks, "onError", undefined, (hook) =>
      hook.onError?.(hookContext, failure),
    ).catch(() => {});
    throw error;
  }
}

/** What a run hands back; a task that waits says for what, at any depth below it. */
export async function replyOf(task: TaskRun, ending: RestingEnding): Promise<Reply<unknown>> {
  const { record, ref, conversation } = task;
  const isBelow = (path: string) => path === record.path || path.startsWith(`${record.path}/`);
  const waiting =
    ending.status === "suspended"
      ? await waitingTasks(conversation.store, { rootTaskId: ref.rootTaskId })
      : [];
  return {
    ...ending.message,
    text: textOf(ending.message.content),
    generateReason: ending.generateReason,
    structured: ending.status === "suspended" ? undefined : ending.structured,
    approvals: waiting
      .filter((other) => isBelow(other.record.path))
      .flatMap(({ approvals }) => approvals),
    task: ref,
  };
}
