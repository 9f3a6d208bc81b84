import { act } from "./act.ts";
import { after } from "./after.ts";
import { TimeUsedUp } from "./budget.ts";
import type { Ending, RestingEnding } from "./ending.ts";
import { cancelled, completed, failed, incomplete, suspended } from "./ending.ts";
import { longestTimer } from "./execution.ts";
import { takeInbox } from "./inbox.ts";
import { TurnInterrupted } from "./model/turn.ts";
import { nextStep } from "./next.ts";
import { interruptedResult, tooLateResult } from "./prompts.ts";
import { askAgain, reason } from "./reason.ts";
import { lastRepeat } from "./repeat.ts";
import { settlePending } from "./settle.ts";
import { refuseTooManyTries, structuredState } from "./structured-output.ts";
import type { TaskRun } from "./task-run.ts";
import { iterationOf } from "./task-run.ts";
import { cancelChildren } from "./undriven.ts";
import { isCancel } from "./until-cancelled.ts";

/**
 * The agent. It looks at the transcript, does what comes next, and looks again, until there is nothing left to do or
 * nothing that can move. It keeps no state of its own: started anew on the same transcript, it goes on. What is done
 * `around` it ends the task as anything else does when it throws.
 */
export async function runLoop(task: TaskRun, around: AroundLoop = {}): Promise<Ending> {
  const stopClock = stopWhenTimeIsUp(task);
  try {
    await around.before?.();
    for (;;) {
      const ending = await step(task);
      if (ending === undefined) continue;
      if (ending.status !== "suspended") await around.beforeEnd?.(ending);
      return ending;
    }
  } catch (error) {
    // Without the right to write, nothing may be said any more.
    if (task.conversation.lost.signal.aborted) throw task.conversation.lost.signal.reason;
    if (isInterruption(task, error)) return cancel(task);
    await cancelChildren(task, "in_turn");
    await settlePending(task, "error", interruptedResult);
    return failed(task, error);
  } finally {
    stopClock?.();
  }
}

/** What is done before the loop, and before it is written how the task has ended. */
export interface AroundLoop {
  readonly before?: () => Promise<void>;
  readonly beforeEnd?: (ending: RestingEnding) => Promise<void>;
}

/** What hangs is stopped when the task's time is over, as a cancel would stop it. */
function stopWhenTimeIsUp({ budget, controller, settings }: TaskRun): (() => void) | undefined {
  const { leftMs } = budget;
  if (leftMs > longestTimer) return undefined; // the next model call will tell
  return after(settings.clock, Math.max(0, leftMs), () =>
    controller.abort(new TimeUsedUp("The time of the task's budget is over.")),
  );
}

async function step(task: TaskRun): Promise<RestingEnding | undefined> {
  await takeInbox(task, "step");
  if (task.controller.signal.aborted) return cancel(task);
  const next = nextStep(task.messages, task.settings.name);
  switch (next.type) {
    case "wait":
      return suspended(task, next);
    case "act": {
      const moved = await act(task);
      return moved || task.controller.signal.aborted ? undefined : suspended(task, next);
    }
    case "done":
      if (next.message.metadata?.taskId === task.ref.taskId) return done(task);
      break;
    case "reason": {
      const answer = await structuredState(task);
      if (answer.type === "found") return completed(task, answer.message, answer);
      break;
    }
  }
  return reasonWithin(task);
}

/** A model call, unless a limit is reached. */
async function reasonWithin(task: TaskRun): Promise<RestingEnding | undefined> {
  if (task.controller.signal.aborted) return cancel(task);
  await takeInbox(task, "reasoning");
  refuseTooManyTries(task);
  if ((lastRepeat(task.messages, task.ref.taskId)?.times ?? 0) > 3)
    return incomplete(task, "no_progress");
  if (task.budget.isUsedUp) return incomplete(task, "budget");
  const mayGoOn = task.messages.at(-1)?.metadata?.goto === true;
  if (iterationOf(task) >= task.settings.maxIters && !mayGoOn) {
    await settlePending(task, "error", tooLateResult);
    await reason(task, "summary");
    return incomplete(task, "max_iterations");
  }
  await reason(task);
  return undefined;
}

/** The model has said its last word: it counts, unless it was cut off or has not the form that was asked for. */
async function done(task: TaskRun): Promise<RestingEnding | undefined> {
  const message = task.messages.findLast((one) => one.role === "assistant");
  if (message?.metadata?.summary) return incomplete(task, "max_iterations");
  if (message?.metadata?.finish === "length") return incomplete(task, "max_output_tokens");
  if (message?.metadata?.finish === "content-filter") return incomplete(task, "content_filter");
  const answer = await structuredState(task);
  if (answer.type === "found") return completed(task, answer.message, answer);
  if (answer.type === "none") return completed(task, message);
  await askAgain(task, answer.problem);
  return undefined;
}

async function cancel(task: TaskRun): Promise<RestingEnding> {
  await takeInbox(task, "step"); // whatever asked for it
  await cancelChildren(task, "all");
  await settlePending(task, "interrupted", interruptedResult);
  const isLate = task.controller.signal.reason instanceof TimeUsedUp;
  return isLate ? incomplete(task, "budget") : cancelled(task);
}

/** Whether an error is what a cancel looks like from inside: only who cancels a task aborts its controller. */
function isInterruption({ controller }: TaskRun, error: unknown): boolean {
  const { signal } = controller;
  return isCancel(signal, error instanceof TurnInterrupted ? error.cause : error);
}
