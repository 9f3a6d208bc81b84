import type { Agent, Input, RunOptions, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { after } from "./after.ts";
import { checkAgentId } from "./agent-id.ts";
import { outcomeOf, standing } from "./child-outcome.ts";
import { abortTree, type Drive, type DriveStart, isFor, startDrive } from "./drive.ts";
import { driverOf, isAbove, unfinished } from "./drivers.ts";
import { cancelled } from "./ending.ts";
import { isControl, lateWords, takeInbox } from "./inbox.ts";
import { readInput, storedInput } from "./input.ts";
import { announceTask, beginTask, endTask, resumeTask } from "./lifecycle.ts";
import { childPlace, forgetAgent, openChild, rememberAgent, sourceOf } from "./open-child.ts";
import { checkAgent } from "./root-answers.ts";
import type { AgentSettings } from "./settings.ts";
import { settingsBehind } from "./settings.ts";
import { takeSlot } from "./slot.ts";
import { taskReached } from "./task-reached.ts";
import type { TaskRun } from "./task-run.ts";
import type { ChildOptions, ChildOutcome } from "./tool/context.ts";
import { toJsonSchema } from "./tool/schema.ts";

/**
 * Runs an agent as a child task of a call, in the same log. Get or create by call id: a child that has ended gives its
 * result, one that waits goes on if it was answered, one that is unknown is created. So a fresh call, an answered one
 * and a recovered one are the same line, and the parent stores nothing about a child that waits.
 */
export async function runChild(
  parent: TaskRun,
  callId: string,
  agent: Agent,
  input: Input,
  options: ChildOptions & { readonly signal: AbortSignal },
): Promise<ChildOutcome> {
  const settings = settingsBehind(agent);
  if (settings === undefined) {
    throw new RivuletError("unsupported_agent", `${agent.name} does not run in this process.`, {
      hint: "Pass a ReActAgent.",
    });
  }
  checkAgentId(options.agentId);
  const { messages: asked, answers, results } = readInput(input, settings.ids);
  if (answers.length > 0 || results.size > 0) {
    throw new RivuletError("invalid_input", "A child is asked with messages only.", {
      hint: "Answers go to the agent at the top: it finds whom they are for.",
    });
  }
  const { store, drives } = parent.conversation;
  const known = await store.task(callId);
  if (known) parent.childCalls.add(callId);
  if (known && isTerminal(known.status)) return outcomeOf(parent, known, callId);
  if (known) checkAgent(settings, known);
  const drive =
    drives.get(callId) ??
    (known
      ? resumeChild(parent, settings, known)
      : await createChild(parent, callId, settings, asked, options));
  await drive.begun;
  const { mode } = drive.task?.record ?? drive.record;
  if (mode === "sync") await waitFor(parent, drive, options);
  const record = drive.task?.record ?? drive.record;
  if (!isTerminal(record.status)) return standing(record);
  return outcomeOf(parent, record, callId);
}

/** Waits for a child in turn. A cancel of the call reaches it; when its time is over it goes on in the background. */
async function waitFor(
  parent: TaskRun,
  drive: Drive,
  { signal, timeoutMs }: ChildOptions & { readonly signal: AbortSignal },
): Promise<void> {
  const { taskId } = drive.record;
  const onAbort = () => abortTree(parent.conversation, taskId, signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  const timeout = Promise.withResolvers<boolean>();
  const { clock } = parent.settings;
  const stopClock =
    timeoutMs === undefined ? undefined : after(clock, timeoutMs, () => timeout.resolve(true));
  try {
    const late = await Promise.race([drive.ended.then(() => false), timeout.promise]);
    if (late && !drive.isQueued) await drive.opened;
    const isAtRest = drive.task ? drive.task.isResting : !drive.isQueued;
    if (late && !isAtRest) return await promote(parent, drive);
    await drive.ended;
    const { task } = drive;
    // One that was ended without being driven has been told of by whoever did that.
    if (task === undefined || !isTerminal(task.record.status)) return;
    parent.emitter.emit({
      type: "task.child.finished",
      ...childPlace(parent, taskId),
      status: task.record.status as TerminalStatus,
      usage: task.usage,
    });
  } finally {
    stopClock?.();
    signal.removeEventListener("abort", onAbort);
  }
}

/** Nobody waits for it any more: same task, same source, only the mode changes. */
async function promote(parent: TaskRun, drive: Drive): Promise<void> {
  const mode = "background" as const;
  const { task } = drive;
  const record = { ...(task?.record ?? drive.record), mode };
  if (task) task.record = record;
  else drive.record = record;
  parent.emitter.emit({
    type: "task.child.promoted",
    ...childPlace(parent, record.taskId),
    mode,
    reason: "sync_timeout",
  });
  await parent.log.commit({ tasks: [record] });
}

async function createChild(
  parent: TaskRun,
  callId: string,
  settings: AgentSettings,
  asked: readonly Message[],
  options: ChildOptions & { readonly signal: AbortSignal },
): Promise<Drive> {
  const { agentId, label, mode = "sync", child: who, output } = options;
  const uuid = parent.settings.ids.uuid();
  const record: TaskRecord = {
    taskId: callId,
    rootTaskId: parent.ref.rootTaskId,
    parentTaskId: parent.ref.taskId,
    parentItemId: childPlace(parent, callId).item_id,
    agentId,
    agentName: settings.name,
    agentKey: who?.agentKey ?? `agent:${agentId}:${uuid}`,
    ...(label !== undefined && { label }),
    sessionId: who?.sessionId ?? `sub-${uuid}`,
    parentSessionId: parent.ref.sessionId,
    ...(parent.record.userId !== undefined && { userId: parent.record.userId }),
    depth: parent.record.depth + 1,
    path: `${parent.record.path}/${agentId}`,
    createdAt: settings.clock.now(),
    mode,
    status: "queued",
    committedOutput: 0,
    ...(output && { outputSchema: toJsonSchema(output) }),
  };
  const input = await storedInput(asked, record, settings, options.signal);
  const caller = { ...(output && { output }) };
  const tellStarted = () => {
    parent.emitter.emit({
      type: "task.child.started",
      ...childPlace(parent, callId),
      mode,
      agent: { id: agentId, name: settings.name, key: record.agentKey },
    });
    parent.childCalls.add(callId);
  };
  rememberAgent(parent.conversation.store, callId, settings);
  if (!who?.isKnown) {
    return driveChild(parent, record, { input, isWritten: false }, async ({ controller }) => {
      const child = await openChild(parent, settings, record, [], {
        caller,
        controller,
        isNew: true,
      });
      // With nothing to wait for in between, this is written together with the child's own beginning.
      tellStarted();
      await beginTask(child, input);
      return { task: child, release() {} };
    });
  }
  // Its session may be busy: what it is asked is written down before it waits for its turn.
  const queued = { ...record, input };
  tellStarted();
  announceTask(parent.log, queued, parent.settings.clock, sourceOf(queued));
  await parent.log.commit({ tasks: [queued] });
  return parent.conversation.drives.get(callId) ?? resumeChild(parent, settings, queued, caller);
}

/**
 * Goes on with a child that is known: one that was answered, one whose process was lost, one that has yet to begin. It
 * is ours from here on, so what it has come to since it was read is read again.
 */
export function resumeChild(
  parent: TaskRun,
  settings: AgentSettings,
  known: TaskRecord,
  caller: RunOptions<StandardSchema | undefined> = {},
): Drive {
  const { store } = parent.conversation;
  rememberAgent(store, known.taskId, settings);
  const written = { input: known.input ?? [], isWritten: true };
  return driveChild(parent, known, written, async (drive) => {
    const { controller } = drive;
    const current = (await store.task(known.taskId)) ?? known;
    drive.record = current;
    if (isTerminal(current.status)) return { rests: true };
    if (current.status === "suspended" && !controller.signal.aborted) {
      if (!(await isAnswered(current, store))) return { rests: true };
    }
    drive.isQueued = current.status === "queued";
    const release = await turnOf(store, current, controller.signal);
    drive.isQueued = false;
    const { record } = drive; // promoted, perhaps
    const messages = await store.session(record.sessionId);
    const child = await openChild(parent, settings, record, messages, { caller, controller });
    if (record.status !== "queued") await resumeTask(child, "approval_resolved");
    else if (release) {
      const late = await lateWords(child);
      await beginTask(child, record.input ?? [], { isAnnounced: true, late });
    } else {
      await takeInbox(child, "step");
      await endTask(child, cancelled(child));
      return { task: child, rests: true };
    }
    return { task: child, release: release ?? (() => {}) };
  });
}

/** A task of a session waits until those before it have ended; undefined when it was cancelled before it began. */
async function turnOf(
  store: Store,
  { taskId, sessionId, status }: TaskRecord,
  signal: AbortSignal,
): Promise<(() => void) | undefined> {
  for (;;) {
    const release = await takeSlot(store, sessionId, "queue", signal).catch(() => undefined);
    if (release === undefined || status !== "queued") return release;
    const [first] = await store.tasks({ sessionId, status: unfinished });
    if (first === undefined || first.taskId === taskId) return release;
    // It has its slot back while it waits for somebody; the session is still its own.
    release();
    await taskReached(store, first.taskId, ({ status }) => isTerminal(status), signal);
    if (signal.aborted) return undefined;
  }
}

function driveChild(
  parent: TaskRun,
  record: TaskRecord,
  start: Pick<DriveStart, "input" | "isWritten">,
  openChild: DriveStart["open"],
): Drive {
  const { conversation } = parent;
  const drive = startDrive({
    conversation,
    record,
    ancestors: [...parent.ancestors, parent.ref.taskId],
    ...start,
    open: openChild,
  });
  const { signal } = parent.controller;
  // One that comes after the cancel is cancelled as it comes.
  if (signal.aborted) drive.controller.abort(signal.reason);
  const onEnd = () => {
    const { status } = drive.task?.record ?? drive.record;
    if (status !== "suspended") forgetAgent(conversation.store, record.taskId);
  };
  drive.ended.then(onEnd, onEnd);
  return drive;
}

/** Whether somebody has answered this child, or a descendant that waits with it. */
async function isAnswered(child: TaskRecord, store: Store): Promise<boolean> {
  const { rootTaskId, taskId } = child;
  const posts = (await store.posts({ rootTaskId })).filter(isControl);
  if (posts.length === 0) return false;
  const records = await store.tasks({ rootTaskId, status: unfinished });
  const byId = new Map(records.map((record) => [record.taskId, record]));
  return posts.some((post) => {
    const target = records.find((record) => isFor(post, record));
    if (target === undefined) return false;
    if (target.taskId === taskId) return true;
    return (
      isAbove(byId, taskId, target) &&
      driverOf(records, target.sessionId) === driverOf(records, child.sessionId)
    );
  });
}
