import { runCall } from "./call.ts";
import { takeInbox } from "./inbox.ts";
import { isRunnable, nextStep, type PendingCall } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { addResultItem, commitStep, findTool } from "./task-run.ts";

/**
 * Runs the pending calls: in parallel unless asked otherwise, each one's result stored as it completes. A call that
 * waits is asked again as soon as an answer for it, or for a child of it, arrives. Resolves when nothing can move:
 * true when something did.
 */
export async function act(task: TaskRun): Promise<boolean> {
  const running = new Map<string, Promise<void>>();
  const childWaits = new Set<string>();
  let moved = false;
  let posted = Promise.withResolvers<void>();
  let posts = 0;
  // What fails here stops the other calls, and is not a cancel of the task; a cancel of the task stops them as well.
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
          // What was posted while it ran may be what it waits for: it is asked once more.
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
    // A hook failed or the store did: what still runs is stopped before the task ends.
    stop.abort(error);
    await Promise.allSettled(running.values());
    throw error;
  } finally {
    cancelled.removeEventListener("abort", onCancel);
    unwatch();
  }
}

/** The calls that may start now, in order: one that runs alone waits for those before it, and the rest wait for it. */
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

/** A tool starts only after its result's item is durable: a crash must not leave an effect that nothing tells of. */
async function openResults(task: TaskRun): Promise<void> {
  const step = nextStep(task.messages, task.settings.name);
  const calls = step.type === "act" ? step.calls : [];
  const unopened = calls.filter(({ call }) => !task.openResults.has(call.id));
  for (const { call } of unopened) addResultItem(task, call.id);
  if (unopened.length > 0) await commitStep(task);
}
