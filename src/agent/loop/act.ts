import { runCall } from "./call.ts";
import { takeInbox } from "./inbox.ts";
import { isRunnable, nextStep, type PendingCall } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { addResultItem, commitStep, findTool } from "./task-run.ts";

/**
 * Runs the pending calls, in parallel unless configured otherwise, and stores each result when its call completes. A
 * suspended call runs again when an answer for it or for its child arrives. Resolves when no call can continue, with
 * true if any call made progress.
 */
export async function act(task: TaskRun): Promise<boolean> {
  const running = new Map<string, Promise<void>>();
  const childWaits = new Set<string>();
  let moved = false;
  let posted = Promise.withResolvers<void>();
  let posts = 0;
  // A failure stops the other calls without cancelling the task; a cancel of the task stops them as well.
  const stop = new AbortController();
  const { signal: cancelled } = task.controller;
  const onCancel = () => stop.abort(cancelled.reason);
  cancelled.addEventListener("abort", onCancel, { once: true });
  if (cancelled.aborted) onCancel();
  const { store, sessionId } = task.conversation;
  const unwatch = store.watch({ inbox: sessionId }, () => {
    posts += 1;
    posted.resolve();
  });
  try {
    await openResults(task);
    for (;;) {
      for (const pending of startable(task, running, childWaits)) {
        const { id } = pending.call;
        const known = posts;
        const ended = runCall(task, pending, stop.signal, running).then((outcome) => {
          running.delete(id);
          if (outcome !== "child_waits") moved = true;
          // A row posted during the call may be the awaited answer, so the call runs once more.
          else if (posts === known) childWaits.add(id);
        });
        running.set(id, ended);
      }
      if (running.size === 0) return moved;
      const answered = await Promise.race([
        posted.promise.then(() => true),
        ...[...running.values()].map((call) => call.then(() => false)),
      ]);
      if (!answered) continue;
      posted = Promise.withResolvers<void>();
      childWaits.clear();
      await takeInbox(task, "step");
    }
  } catch (error) {
    // A hook or the store failed: the remaining calls stop before the task ends.
    stop.abort(error);
    await Promise.allSettled(running.values());
    throw error;
  } finally {
    cancelled.removeEventListener("abort", onCancel);
    unwatch();
  }
}

/** The calls that may start now, in order; an exclusive call waits for earlier calls, and later calls wait for it. */
function startable(
  task: TaskRun,
  running: ReadonlyMap<string, unknown>,
  childWaits: ReadonlySet<string>,
): readonly PendingCall[] {
  const step = nextStep(task.messages, task.settings.name);
  if (step.type !== "act" || task.controller.signal.aborted) return [];
  const starting: PendingCall[] = [];
  for (const pending of step.calls) {
    const { id, name } = pending.call;
    if (!isRunnable(pending) || childWaits.has(id)) continue;
    if (task.settings.parallel && !findTool(task, name)?.exclusive) {
      if (!running.has(id)) starting.push(pending);
      continue;
    }
    if (running.size === 0 && starting.length === 0) starting.push(pending);
    break;
  }
  return starting;
}

/** Opens the result items before the tools start, so that a crash leaves no unrecorded effect. */
async function openResults(task: TaskRun): Promise<void> {
  const step = nextStep(task.messages, task.settings.name);
  const calls = step.type === "act" ? step.calls : [];
  const unopened = calls.filter(({ call }) => !task.openResults.has(call.id));
  for (const { call } of unopened) addResultItem(task, call.id);
  if (unopened.length > 0) await commitStep(task);
}
