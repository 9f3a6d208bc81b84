import { after } from "../../base/clock.ts";
import { isCancel, longestTimer } from "../../base/time.ts";
import type { Message, Post } from "../../contract/index.ts";
import { BudgetUsedUp } from "../base/budget.ts";
import { interruptedResult, tooLateResult } from "../base/prompts.ts";
import { TurnInterrupted } from "../model/turn.ts";
import { act } from "./act.ts";
import {
  aborted,
  completed,
  type Ending,
  editReply,
  endOfBudget,
  failed,
  incomplete,
  type RestingEnding,
  suspend,
} from "./ending.ts";
import { takeInbox } from "./inbox.ts";
import { takeInput } from "./input.ts";
import { askAgain, prepareTurn, reason } from "./reason.ts";
import { settlePending } from "./settle.ts";
import { refuseTooManyTries, structuredState } from "./structured-output.ts";
import { refreshTools, type TaskRun } from "./task-run.ts";
import { iterationOf, lastRepeat } from "./transcript.ts";

/**
 * The agent. It reads the transcript, takes the next step and reads again, until the task has ended or nothing can move.
 * It keeps no state: started again on the same transcript, it continues.
 */
export async function runLoop(task: TaskRun, input: readonly Message[]): Promise<Ending> {
  const stopClock = stopWhenTimeIsUp(task);
  try {
    if (task.state.record.compacts) await prepareTurn(task, "asked");
    if (task.state.record.observes ?? task.state.record.compacts) return completed(task, undefined);
    await refreshTools(task); // an open call of a crashed process runs before the first reasoning
    await takeInput(task, input);
    return await editReply(task, await stepUntilRest(task));
  } catch (error) {
    if (task.conversation.lost.signal.aborted) throw task.conversation.lost.signal.reason;
    if (isInterruption(task, error)) return cancel(task);
    if (error instanceof BudgetUsedUp) return editReply(task, await endOfBudget(task));
    return fail(task, error);
  } finally {
    stopClock?.();
  }
}

async function stepUntilRest(task: TaskRun): Promise<RestingEnding> {
  const { handOver } = task.conversation;
  for (;;) {
    await handOver.beforeStep(task.identity.ref.taskId, task.control.controller.signal);
    await task.conversation.process.standIn?.step(task);
    const ending = await step(task);
    if (ending !== undefined) return ending;
  }
}

/** Ends a task that cannot continue: its calls get results, and the children that they wait for end. */
export async function fail(task: TaskRun, error: unknown): Promise<Ending> {
  await task.conversation.cancelChildren(task, "sync");
  await settlePending(task, "error", interruptedResult);
  return failed(task, error);
}

/** Aborts the task when its time budget is used up. */
function stopWhenTimeIsUp({ budget, control, settings }: TaskRun): (() => void) | undefined {
  const { leftMs } = budget;
  if (leftMs > longestTimer) return undefined; // the check before each model call applies
  return after(settings.clock, Math.max(0, leftMs), () =>
    control.controller.abort(new BudgetUsedUp()),
  );
}

async function step(task: TaskRun): Promise<RestingEnding | undefined> {
  task.conversation.lost.signal.throwIfAborted();
  const posts = await takeInbox(task, "step");
  if (task.control.controller.signal.aborted) return cancel(task);
  const { next } = task.transcript.steps;
  switch (next.type) {
    case "wait":
      return suspend(task, next);
    case "act": {
      const moved = await act(task);
      return moved || task.control.controller.signal.aborted ? undefined : suspend(task, next);
    }
    case "done":
      if (next.message.metadata?.taskId === task.identity.ref.taskId) return done(task);
      break;
    case "reason": {
      const answer = task.state.record.outputSchema && (await structuredState(task));
      if (answer?.type === "found") return completed(task, answer.message, answer);
      break;
    }
  }
  return reasonWithin(task, posts);
}

/** Makes a model call unless a limit is reached. */
async function reasonWithin(
  task: TaskRun,
  posts: readonly Post[],
): Promise<RestingEnding | undefined> {
  if (task.control.controller.signal.aborted) return cancel(task);
  if (posts.length > 0) await takeInbox(task, "reasoning", posts);
  refuseTooManyTries(task);
  if ((lastRepeat(task.transcript.messages, task.identity.ref.taskId)?.times ?? 0) > 3)
    return incomplete(task, "no_progress");
  if (task.budget.isUsedUp) return endOfBudget(task);
  const { maxIters } = task.settings;
  const isSentBack = task.transcript.messages.at(-1)?.metadata?.goto === true;
  // A hook may exceed the limit, but not without end.
  if (iterationOf(task) >= (isSentBack ? 2 * maxIters : maxIters)) {
    const last = task.transcript.messages.findLast((one) => one.role === "assistant");
    // A crash happened between a summary without visible text and the end of the task.
    if (last?.metadata?.summary && last.metadata.taskId === task.identity.ref.taskId)
      return incomplete(task, "max_iterations");
    await settlePending(task, "error", tooLateResult);
    await reason(task, "summary");
    return incomplete(task, "max_iterations");
  }
  await reason(task);
  return undefined;
}

/** Ends a task after the model's final reply, unless the reply was cut or does not match the output schema. */
async function done(task: TaskRun): Promise<RestingEnding | undefined> {
  const message = task.transcript.messages.findLast((one) => one.role === "assistant");
  if (message?.metadata?.summary) return incomplete(task, "max_iterations");
  if (message?.metadata?.finish === "length") return incomplete(task, "max_output_tokens");
  if (message?.metadata?.finish === "content-filter") return incomplete(task, "content_filter");
  const answer = await structuredState(task);
  if (answer.type === "found") return completed(task, answer.message, answer);
  if (answer.type === "none") return completed(task, message);
  await askAgain(task, answer.problem);
  return undefined;
}

/** Ends a task that was cancelled, with its descendants and its calls. */
async function cancel(task: TaskRun): Promise<RestingEnding> {
  await takeInbox(task, "step"); // takes the row of the cancel
  await task.conversation.cancelChildren(task, "all");
  await settlePending(task, "interrupted", interruptedResult);
  return aborted(task);
}

/** Whether an error is the effect of a cancel; only a cancel aborts the task's controller. */
function isInterruption({ control: { controller } }: TaskRun, error: unknown): boolean {
  return isCancel(controller.signal, error instanceof TurnInterrupted ? error.cause : error);
}
