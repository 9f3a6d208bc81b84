import type { Agent, Input, RunOptions, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { outcomeOf, standing } from "./child-outcome.ts";
import type { Conversation } from "./conversation.ts";
import { abortTree, type Drive, type DriveStart, isFor, startDrive } from "./drive.ts";
import { driverOf, isAbove, unfinished, unfinishedBelow } from "./drivers.ts";
import { cancelled, failed } from "./ending.ts";
import { isControl, takeInbox } from "./inbox.ts";
import { readInput, storedInput } from "./input.ts";
import { announceTask, beginTask, driveTask, endTask, openTask, resumeTask } from "./lifecycle.ts";
import { interruptedResult } from "./prompts.ts";
import type { AgentSettings } from "./settings.ts";
import { settingsBehind } from "./settings.ts";
import { settlePending } from "./settle.ts";
import { takeSlot } from "./slot.ts";
import { taskReached } from "./task-reached.ts";
import type { TaskRun } from "./task-run.ts";
import type { ChildOptions, ChildOutcome } from "./tool/context.ts";
import { toJsonSchema } from "./tool/schema.ts";

// The agents behind children that have not ended, so that one who waits can go on without its parent's tool.
const agents = new WeakMap<Store, Map<string, AgentSettings>>();

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
  const asked = readInput(input, settings.ids).messages;
  const { store, drives } = parent.conversation;
  const known = await store.task(callId);
  if (known) parent.childCalls.add(callId);
  if (known && isTerminal(known.status)) return outcomeOf(parent, known, callId);
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
  const waited = new AbortController();
  const isLate =
    timeoutMs === undefined
      ? new Promise<boolean>(() => {})
      : parent.settings.clock.sleep(timeoutMs, waited.signal).then(
          () => true,
          () => false,
        );
  try {
    const late = await Promise.race([drive.ended.then(() => false), isLate]);
    if (late && !drive.isQueued) await drive.opened;
    const isAtRest = drive.task ? drive.task.isResting : !drive.isQueued;
    if (late && !isAtRest) return await promote(parent, drive);
    await drive.ended;
    const { status } = drive.task?.record ?? drive.record;
    if (!isTerminal(status)) return;
    parent.emitter.emit({
      type: "task.child.finished",
      ...childPlace(parent, taskId),
      status: status as TerminalStatus,
      ...(drive.task && { usage: drive.task.usage }),
    });
  } finally {
    waited.abort();
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
  options: ChildOptions,
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
  const input = await storedInput(asked, record, settings.prepareInput);
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
  remember(parent.conversation.store, callId, settings);
  if (!who?.isKnown) {
    return driveChild(parent, record, { input, isWritten: false }, async ({ controller }) => {
      const child = await open(parent, settings, record, [], { caller, controller, isNew: true });
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
function resumeChild(
  parent: TaskRun,
  settings: AgentSettings,
  known: TaskRecord,
  caller: RunOptions<StandardSchema | undefined> = {},
): Drive {
  const { store } = parent.conversation;
  remember(store, known.taskId, settings);
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
    const child = await open(parent, settings, record, messages, { caller, controller });
    if (record.status !== "queued") await resumeTask(child, "approval_resolved");
    else if (release) await beginTask(child, record.input ?? [], { isAnnounced: true });
    else {
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
    if (status !== "suspended") forget(conversation.store, record.taskId);
  };
  drive.ended.then(onEnd, onEnd);
  return drive;
}

/** Takes up a background task that nobody drives. One whose agent nobody knows any more has failed. */
export async function reviveChild(conversation: Conversation, record: TaskRecord): Promise<void> {
  const parent = await openParent(conversation, record);
  if (parent === undefined) return;
  const settings = await settingsOfChild(parent, record);
  if (conversation.drives.has(record.taskId)) return;
  if (settings !== undefined) resumeChild(parent, settings, record);
  else {
    const isLost = ({ status }: TaskRecord) => status === "queued" || status === "in_progress";
    await endUndriven(parent, record, async (current) => {
      if (isLost(current)) await failLost(conversation, current, parent);
    });
  }
}

/** The task above a child, to open the child under it; undefined when this process does not know its agent. */
async function openParent(
  conversation: Conversation,
  { parentTaskId = "" }: TaskRecord,
): Promise<TaskRun | undefined> {
  const driven = conversation.drives.get(parentTaskId)?.task;
  if (driven) return driven;
  const { store } = conversation;
  const record = await store.task(parentTaskId);
  if (record === undefined) return undefined;
  const messages = await store.session(record.sessionId);
  if (record.parentTaskId === undefined) {
    const { settings } = conversation;
    if (settings.name !== record.agentName) return undefined;
    return openTask({ settings, conversation, record, messages, caller: {} });
  }
  const parent = await openParent(conversation, record);
  if (parent === undefined) return undefined;
  const settings = await settingsOfChild(parent, record);
  return open(parent, settings ?? nameOnly(parent, record), record, messages);
}

async function settingsOfChild(
  parent: TaskRun,
  record: TaskRecord,
): Promise<AgentSettings | undefined> {
  const known = agents.get(parent.conversation.store)?.get(record.taskId);
  if (known) return known;
  const agent = await parent.settings.resolveChild?.(record);
  return agent && settingsBehind(agent);
}

/** Fails what no process drives any more, the deepest first: a parent's calls have ended when it ends. */
export async function failLostTasks(conversation: Conversation): Promise<void> {
  const { store, sessionId } = conversation;
  const lost = await store.tasks({ conversation: sessionId, status: ["queued", "in_progress"] });
  for (const record of [...lost].sort((one, other) => other.depth - one.depth)) {
    const parent = record.depth > 0 ? await openParent(conversation, record) : undefined;
    await failLost(conversation, record, parent);
  }
}

/** The process that drove it is gone, and it is not taken up. */
async function failLost(
  conversation: Conversation,
  record: TaskRecord,
  parent: TaskRun | undefined,
): Promise<void> {
  const messages = await conversation.store.session(record.sessionId);
  const { agentName: name, agentId } = record;
  const task = await openTask({
    settings: { ...conversation.settings, name, agentId },
    conversation,
    record,
    messages,
    caller: {},
    ...(parent && { parent }),
    ...(record.depth > 0 && { source: sourceOf(record) }),
  });
  if (record.status !== "queued") {
    await resumeTask(task, "recovered");
    await cancelChildren(task, "in_turn");
    await settlePending(task, "error", interruptedResult);
  }
  await endTask(task, failed(executorLost()));
}

function executorLost(): RivuletError {
  return new RivuletError("executor_lost", "executor lost", {
    hint: "The process that drove this task is gone. Start it again.",
  });
}

interface OpenChild {
  readonly caller?: RunOptions<StandardSchema | undefined>;
  readonly controller?: AbortController;
  readonly isNew?: boolean;
}

function open(
  parent: TaskRun,
  settings: AgentSettings,
  record: TaskRecord,
  messages: readonly Message[],
  { caller = {}, ...more }: OpenChild = {},
): Promise<TaskRun> {
  return openTask({
    settings: { ...settings, agentId: record.agentId, clock: parent.settings.clock },
    conversation: parent.conversation,
    record,
    messages,
    caller,
    source: sourceOf(record),
    parent,
    ...more,
  });
}

/**
 * Cancels what is below a task and driven by nobody: what waits, and what its process has left. What runs has been
 * told. `in_turn` are only those that the task's calls wait for.
 */
export async function cancelChildren(parent: TaskRun, which: "all" | "in_turn"): Promise<void> {
  const { store, drives } = parent.conversation;
  const { rootTaskId, taskId } = parent.ref;
  for (let hasMore = true; hasMore; ) {
    hasMore = false;
    const tree = await store.tasks({ rootTaskId });
    // Whoever stands in between sees to those below it.
    for (const record of unfinishedBelow(tree, taskId)) {
      const isInTurn = record.mode === "sync" && record.parentTaskId === taskId;
      if (which === "in_turn" && !isInTurn) continue;
      const driven = drives.get(record.taskId);
      if (driven === undefined) {
        hasMore = true;
        await cancelUndriven(parent, record);
      } else if (isInTurn) await driven.ended.catch(() => {});
    }
  }
}

async function cancelUndriven(top: TaskRun, record: TaskRecord): Promise<void> {
  const above = await parentOf(top, record);
  const { signal } = top.controller;
  const reason = signal.aborted ? signal.reason : new Error("Its caller has ended.");
  const { store, drives } = top.conversation;
  const driven = drives.get(record.taskId);
  if (driven) {
    // Somebody has taken it up meanwhile.
    driven.controller.abort(reason);
    return driven.ended;
  }
  await endUndriven(above, record, async (current, { controller }) => {
    controller.abort(reason);
    // Nothing of it runs any more, so all that is needed of its agent is the name.
    const messages = await store.session(current.sessionId);
    const child = await open(above, nameOnly(above, current), current, messages, { controller });
    if (current.status === "queued") {
      await takeInbox(child, "step");
      await endTask(child, cancelled(child));
    } else {
      // As one that works it is found again, should this process be lost.
      await resumeTask(child, "cancelled");
      await driveTask(child);
    }
    forget(store, record.taskId);
    if (current.mode === "background" || !above.openResults.has(record.taskId)) return;
    const place = childPlace(above, record.taskId);
    const status = child.record.status as TerminalStatus;
    above.emitter.emit({ type: "task.child.finished", ...place, status, usage: child.usage });
  });
}

/** Ends a task that nobody drives; while it ends, this drives it, so that nobody takes it up. */
async function endUndriven(
  { conversation, ancestors, ref }: TaskRun,
  record: TaskRecord,
  end: (current: TaskRecord, drive: Drive) => Promise<void>,
): Promise<void> {
  const { store } = conversation;
  const drive = startDrive({
    conversation,
    record,
    ancestors: [...ancestors, ref.taskId],
    input: [],
    isWritten: true,
    async open(own) {
      own.record = (await store.task(record.taskId)) ?? record;
      if (!isTerminal(own.record.status)) await end(own.record, own);
      own.record = (await store.task(record.taskId)) ?? record;
      return { rests: true };
    },
  });
  await drive.ended;
}

/** The task right above a record, somewhere at or below `top`. */
async function parentOf(top: TaskRun, record: TaskRecord): Promise<TaskRun> {
  if (record.parentTaskId === top.ref.taskId) return top;
  return (await openParent(top.conversation, record)) ?? top;
}

function nameOnly({ settings }: TaskRun, { agentName, agentId }: TaskRecord): AgentSettings {
  return { ...settings, name: agentName, agentId };
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

function childPlace(parent: TaskRun, callId: string) {
  const place = parent.openResults.get(callId);
  if (place === undefined) throw new Error(`No item is open for call ${callId}.`);
  return { child_task_id: callId, call_id: callId, item_id: place.id, output_index: place.index };
}

function sourceOf(record: TaskRecord): Source {
  return {
    agentKey: record.agentKey,
    agentId: record.agentId,
    agentName: record.agentName,
    sessionId: record.sessionId,
    parentSessionId: record.parentSessionId ?? "",
    taskId: record.taskId,
    depth: record.depth,
    path: record.path,
  };
}

function remember(store: Store, taskId: string, settings: AgentSettings): void {
  const known = agents.get(store) ?? new Map<string, AgentSettings>();
  agents.set(store, known.set(taskId, settings));
}

function forget(store: Store, taskId: string): void {
  agents.get(store)?.delete(taskId);
}
