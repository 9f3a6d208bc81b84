import { runCall } from "./call.ts";
import { takeInbox } from "./inbox.ts";
import type { PendingCall } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { addResultItem, findTool } from "./task-run.ts";

/**
 * Runs the pending calls, in parallel unless configured otherwise, and stores each result when its call completes. A
 * suspended call runs again when an answer for it or for its child arrives. Resolves when no call can continue, with
 * true if any call made progress.
 */
export async function act(task: TaskRun): Promise<boolean> {
  const { taskId } = task.identity.ref;
  const { handOver } = task.conversation;
  const running = new Map<string, Promise<void>>();
  const childWaits = new Set<string>();
  let moved = false;
  let posts = 0;
  let readPosts = 0;
  let mayStart = true;
  let failure: { readonly error: unknown } | undefined;
  let isWoken = false;
  let resume = () => {};
  const batch = { signal: task.control.calls.signal, running };
  const unwatch = task.conversation.onPost(() => {
    posts += 1;
    wake();
  });

  function wake(): void {
    isWoken = true;
    resume();
  }

  function start(pending: PendingCall): void {
    const { id } = pending.call;
    const known = posts;
    const hasEnded = handOver.callRuns(taskId, id);
    const ended = runCall(task, pending, batch).then(
      (outcome) => {
        running.delete(id);
        hasEnded();
        if (outcome !== "child_waits") moved = true;
        // A row posted during the call may be the awaited answer, so the call runs once more.
        else if (posts === known) childWaits.add(id);
        else mayStart = true;
        wake();
      },
      (error: unknown) => {
        failure ??= { error };
        hasEnded();
        wake();
      },
    );
    running.set(id, ended);
  }

  try {
    openResults(task);
    for (;;) {
      if (failure) throw failure.error;
      if (readPosts !== posts) {
        readPosts = posts;
        childWaits.clear();
        mayStart = true;
        await takeInbox(task, "step");
      }
      const calls = mayStart || running.size === 0 ? startable(task, running, childWaits) : [];
      mayStart = false;
      // A crash must leave no effect of an unrecorded call, and none that follows a lost result.
      if (calls.length > 0) await task.output.log.flush();
      // Another process starts them.
      if (calls.length > 0 && running.size === 0)
        await handOver.beforeStep(taskId, task.control.controller.signal);
      if (!handOver.hasBegun) for (const pending of calls) start(pending);
      if (running.size === 0) return moved;
      if (!isWoken) {
        await new Promise<void>((resolve) => {
          resume = resolve;
        });
      }
      isWoken = false;
    }
  } catch (error) {
    // A hook or the store failed: the remaining calls stop before the task ends.
    task.control.calls.abort(error);
    await Promise.all(running.values());
    throw error;
  } finally {
    unwatch();
  }
}

/** The calls that may start now, in order; an exclusive call waits for earlier calls, and later calls wait for it. */
function startable(
  task: TaskRun,
  running: ReadonlyMap<string, unknown>,
  childWaits: ReadonlySet<string>,
): readonly PendingCall[] {
  if (task.control.controller.signal.aborted) return [];
  const starting: PendingCall[] = [];
  for (const pending of task.transcript.steps.runnable()) {
    const { id, name } = pending.call;
    if (childWaits.has(id)) continue;
    if (task.settings.parallel && !findTool(task, name)?.exclusive) {
      if (!running.has(id)) starting.push(pending);
      continue;
    }
    if (running.size === 0 && starting.length === 0) starting.push(pending);
    break;
  }
  return starting;
}

/** Opens the result items of calls that were stopped or recovered; those of a new turn are open. */
function openResults(task: TaskRun): void {
  for (const { call } of task.transcript.steps.open)
    if (!task.output.openResults.has(call.id)) addResultItem(task, call.id);
}
