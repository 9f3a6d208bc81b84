import { after, onAbort } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { agentKeyOf } from "../../base/id.ts";
import { isSame } from "../../base/plain.ts";
import {
  type Agent,
  type Budget,
  type Input,
  linkBehind,
  type Message,
  type TaskRecord,
} from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import { checkBudget, lowerBudget } from "../base/budget.ts";
import { TaskEmitter } from "../events/emit.ts";
import { outcomeOf, standing } from "../loop/child-outcome.ts";
import { readInput, storedInput } from "../loop/input.ts";
import { nameOf, settingsBehind } from "../loop/settings.ts";
import { resultItem, type TaskRun } from "../loop/task-run.ts";
import type { ChildOptions, ChildOutcome } from "../tool/context.ts";
import { toJsonSchema } from "../tool/schema.ts";
import { checkAgent } from "./answers.ts";
import type { Conversation } from "./conversation.ts";
import { childrenAhead, type Drive, drive, hasAhead } from "./drive.ts";
import { announce, sourceOf } from "./lifecycle.ts";
import { unfinishedBelow, unfinishedTree } from "./plan.ts";

/** How the child of a call is run; the signal is the call's. */
type RunChildOptions = ChildOptions & { readonly signal: AbortSignal };

/**
 * Runs an agent as the child task of a call, in the same log. It gets or creates the child by the call's id: an ended
 * child gives its result, an answered one continues, an unknown one is created. A fresh, an answered and a recovered
 * call are therefore the same line, and the parent stores nothing about a suspended child.
 */
export async function runChild(
  conversation: Conversation,
  parent: TaskRun,
  callId: string,
  agent: Agent,
  input: Input,
  options: RunChildOptions,
): Promise<ChildOutcome> {
  const { messages, answers, results } = readInput(input, parent.settings.ids);
  if (answers.length > 0 || results.size > 0) {
    throw new RivuletError("invalid_input", "The input of a child must be messages.", {
      hint: "Send answers to the root agent; it passes them on.",
    });
  }
  const known = await conversation.store.task(callId);
  if (known) parent.output.childCalls.add(callId);
  if (known && isTerminal(known.status)) return endedOutcome(parent, known, options);
  if (known) checkAgent(nameOf(agent), known);
  const driven =
    conversation.drives.get(callId) ??
    (known
      ? drive(conversation, known, { agent, parent })
      : await startChild(conversation, parent, callId, agent, messages, options));
  await driven.begun;
  if (driven.record.mode === "sync") await waitFor(conversation, parent, driven, options);
  const { record } = driven;
  if (!isTerminal(record.status)) return standing(record);
  return endedOutcome(parent, record, options);
}

/** A background call returns before its child ends, also when a crash repeats the call after that end. */
function endedOutcome(
  parent: TaskRun,
  record: TaskRecord,
  { mode }: RunChildOptions,
): ChildOutcome | Promise<ChildOutcome> {
  if (mode === "background") return standing({ ...record, status: "in_progress" });
  return outcomeOf(parent, record, record.taskId);
}

async function startChild(
  conversation: Conversation,
  parent: TaskRun,
  callId: string,
  agent: Agent,
  messages: readonly Message[],
  options: RunChildOptions,
): Promise<Drive> {
  const { child, output, maxParallel, signal } = options;
  const settings = settingsBehind(agent) ?? { ...parent.settings, prepareInput: undefined };
  const record = newRecord(parent, callId, agent, options);
  const { mode, agentId, agentName, agentKey } = record;
  const queued = { ...record, input: await storedInput(messages, record, settings, signal) };
  const start = { agent, parent, ...(output && { caller: { output } }) };
  const tellStarted = () => {
    parent.output.emitter.startChild(resultItem(parent, callId), {
      mode,
      ...(record.remote?.url !== undefined && { remote: true }),
      agent: { id: agentId, name: agentName, key: agentKey },
    });
    parent.output.childCalls.add(callId);
  };
  checkBudget(options.budget, (settings.price ?? parent.settings.price) !== undefined);
  checkLeft(options.budget, parent.budget.left);
  if (!parent.budget.start()) throw agentsUsedUp();
  const { drives } = conversation;
  const isFull = maxParallel !== undefined && hasAhead(drives, record, maxParallel);
  // A new child's start and beginning go into one commit. A child that may have to wait is stored as queued.
  if (!child?.isKnown && !isFull) {
    return drive(conversation, queued, { ...start, isNew: true, onBegin: tellStarted });
  }
  // Those ahead are stored first, so that the order of the records is that of the queue: the last one in it has waited too.
  const ahead = [...childrenAhead(drives, record)];
  const last = ahead.findLast(({ queue }) => queue === "place");
  const awaited = ahead.filter((sibling) => sibling.queue === undefined || sibling === last);
  const stored = Promise.allSettled(awaited.map(({ begun }) => begun)).then(() => {
    tellStarted();
    const source = sourceOf(queued);
    announce(new TaskEmitter(callId, parent.output.log, source, parent.settings.clock), queued);
    return parent.output.log.commit({ tasks: [queued] });
  });
  return drive(conversation, queued, { ...start, stored });
}

/** Throws if a child is to have more than its parent has left. */
function checkLeft(asked: Budget = {}, left: Budget = {}): void {
  for (const [name, most] of Object.entries(left) as [keyof Budget, number][]) {
    const amount = asked[name];
    if (amount === undefined || amount <= most) continue;
    throw new RivuletError(
      "budget_used_up",
      `\`budget.${name}\` is ${amount}, and ${most} is left.`,
      {
        hint: `Pass at most ${most}, or omit it: what is left limits the child anyway.`,
      },
    );
  }
}

/** The parent works on with the agents that it has, so its model reads this as a result. */
function agentsUsedUp(): RivuletError<"budget_used_up"> {
  return new RivuletError("budget_used_up", "The budget allows no more agents.", {
    hint: "Continue with the results that you have, or raise `budget.agents`.",
  });
}

/** The record of a child that a call starts. */
function newRecord(
  parent: TaskRun,
  callId: string,
  agent: Agent,
  options: RunChildOptions,
): TaskRecord {
  const { agentId, label, mode = "sync", child, output, maxParallel } = options;
  const own = settingsBehind(agent);
  const { clock } = own ?? parent.settings;
  const uuid = parent.settings.ids.uuid();
  const { url } = linkBehind(agent) ?? {};
  const server = url !== undefined && { url };
  // A child with the models of its parent has none of its own, so it uses the chosen one.
  const isShared = own && isSame([...own.choices], [...parent.settings.choices]);
  const model = isShared ? parent.state.record.model : undefined;
  const budget = options.budget && lowerBudget(own?.budget, options.budget);
  const tool = toolIn(parent.transcript.messages, callId);
  return {
    taskId: callId,
    rootTaskId: parent.identity.ref.rootTaskId,
    parentTaskId: parent.identity.ref.taskId,
    parentItemId: resultItem(parent, callId).id,
    agentId,
    agentName: nameOf(agent),
    agentKey: child?.agentKey ?? agentKeyOf(agentId, uuid),
    ...(label !== undefined && { label }),
    sessionId: child?.sessionId ?? `sub-${uuid}`,
    parentSessionId: parent.identity.ref.sessionId,
    ...(parent.state.record.userId !== undefined && { userId: parent.state.record.userId }),
    depth: parent.state.record.depth + 1,
    path: `${parent.state.record.path}/${agentId}`,
    createdAt: clock.now(),
    mode,
    status: "queued",
    committedOutput: 0,
    ...(output && { outputSchema: toJsonSchema(output) }),
    ...(budget && { budget }),
    ...(model !== undefined && { model }),
    ...(maxParallel !== undefined && { maxParallel }),
    ...(tool !== undefined && { tool }),
    ...(!own && { remote: { ...server, taskId: callId, cursor: -1 } }),
  };
}

/** The tool of a call, which is usually in the last message. */
function toolIn(messages: readonly Message[], callId: string): string | undefined {
  for (let at = messages.length - 1; at >= 0; at--)
    for (const block of messages[at]?.content ?? [])
      if (block.type === "tool_use" && block.id === callId) return block.name;
  return undefined;
}

/** Waits for a sync child. A cancel of the call reaches the child; a timeout promotes it to the background. */
async function waitFor(
  conversation: Conversation,
  parent: TaskRun,
  child: Drive,
  { signal, timeoutMs }: RunChildOptions,
): Promise<void> {
  const { taskId } = child.record;
  const ignoreAbort = onAbort(signal, () => conversation.abortTree(taskId, signal.reason));
  const timeout = Promise.withResolvers<boolean>();
  const onTimeout = () => timeout.resolve(true);
  const stopClock = timeoutMs !== undefined && after(parent.settings.clock, timeoutMs, onTimeout);
  try {
    const isLate = await Promise.race([child.ended.then(() => false), timeout.promise]);
    if (isLate && !child.queue) await child.opened;
    const isAtRest = child.task ? child.task.control.isResting : !child.queue;
    if (isLate && !isAtRest) return await promote(parent, child);
    await child.ended;
    tellFinished(parent, child);
  } finally {
    if (stopClock) stopClock();
    ignoreAbort();
  }
}

function tellFinished(parent: TaskRun, { task }: Drive): void {
  if (task === undefined) return;
  const { taskId, status } = task.state.record;
  if (!isTerminal(status)) return;
  const { usage } = task.state;
  parent.output.emitter.finishChild(resultItem(parent, taskId), { status, usage });
}

/** Continues a child in the background: same task, same source, only its mode changes. */
async function promote(parent: TaskRun, child: Drive): Promise<void> {
  const mode = "background" as const;
  child.state.record = { ...child.record, mode };
  parent.output.emitter.promoteChild(resultItem(parent, child.record.taskId));
  await parent.output.log.commit({ tasks: [child.record] });
}

/**
 * Cancels the descendants of a task that nothing drives: suspended ones, and those whose process is gone. Driven ones
 * have been aborted. Intermediate tasks cancel their own descendants.
 */
export async function cancelChildren(
  conversation: Conversation,
  parent: TaskRun,
  which: "all" | "sync",
  reason: unknown = reasonOf(parent),
): Promise<void> {
  const { store, drives, sessionId } = conversation;
  const { rootTaskId, taskId } = parent.identity.ref;
  if (parent.output.childCalls.size === 0) return;
  for (let hasMore = true; hasMore; ) {
    hasMore = false;
    const tree = await unfinishedTree(store, sessionId, rootTaskId);
    const ends = unfinishedBelow(tree, taskId).map((record) => {
      const isSync = record.mode === "sync" && record.parentTaskId === taskId;
      const driven = drives.get(record.taskId);
      if (which === "sync" && !isSync) return undefined;
      if (driven) {
        // A drive that had no ancestors yet when they were aborted is aborted here.
        if (which === "all") conversation.abortTree(record.taskId, reason);
        return isSync ? driven.ended.catch(() => {}) : undefined;
      }
      hasMore = true;
      return cancelUndriven(conversation, parent, record, reason);
    });
    await Promise.all(ends);
  }
}

/** Cancels a sync child whose call finished without it (timeout or abort). */
export async function cancelChildOf(
  conversation: Conversation,
  parent: TaskRun,
  callId: string,
): Promise<void> {
  const child = await conversation.store.task(callId);
  if (child?.mode === "sync" && !isTerminal(child.status))
    await cancelUndriven(conversation, parent, child);
}

async function cancelUndriven(
  conversation: Conversation,
  above: TaskRun,
  record: TaskRecord,
  reason: unknown = reasonOf(above),
): Promise<void> {
  const { taskId, mode, parentTaskId } = record;
  const isChild = parentTaskId === above.identity.ref.taskId;
  const driven = conversation.drives.get(taskId);
  if (driven) {
    driven.controller.abort(reason);
    return driven.ended;
  }
  const child = drive(conversation, record, { cancel: reason, ...(isChild && { parent: above }) });
  await child.ended;
  if (isChild && mode === "sync" && above.output.openResults.has(taskId))
    tellFinished(above, child);
}

function reasonOf({ control }: TaskRun): unknown {
  const { signal } = control.controller;
  return signal.aborted ? signal.reason : new Error("Its caller has ended.");
}
