import type { Message, Reply } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { Ending } from "./ending.ts";
import { callHooks } from "./hook.ts";
import type { TaskRun } from "./task-run.ts";
import { waitingTasks } from "./waiting.ts";

/**
 * Drives a task between its `preCall` and `postCall` hooks; what goes wrong is told to `onError`. Resolves to the reply,
 * and throws what the task failed with.
 */
export async function driveHooked(
  task: TaskRun,
  input: readonly Message[],
  drive: (task: TaskRun, prepare: () => Promise<void>) => Promise<Ending>,
): Promise<{ readonly ending: RestingEnding; readonly reply: Reply<unknown> }> {
  const { settings, hookContext } = task;
  const { hooks } = settings;
  try {
    const ending = await drive(task, async () => {
      // A call that a lost process has left behind is made before any reasoning.
      await settings.toolkit.refresh(task.controller.signal);
      await callHooks(hooks, "preCall", undefined, (hook) => hook.preCall?.(hookContext, input));
    });
    if (ending.status === "failed") throw ending.error;
    const reply = await replyOf(task, ending);
    await callHooks(hooks, "postCall", undefined, (hook) => hook.postCall?.(hookContext, reply));
    return { ending, reply };
  } catch (error) {
    const failure = error instanceof Error ? error : new Error(String(error));
    // What a hook makes of the error must not hide it.
    await callHooks(hooks, "onError", undefined, (hook) =>
      hook.onError?.(hookContext, failure),
    ).catch(() => {});
    throw error;
  }
}

/** An ending that has a message. */
export type RestingEnding = Exclude<Ending, { status: "failed" }>;

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
