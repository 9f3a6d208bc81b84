import type { Agent, Input, RunOptions, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { outcomeOf, standing } from "./child-outcome.ts";
import type { Conversation } from "./conversation.ts";
import { abortTree, type Drive, type DriveStart, isFor, startDrive } from "./drive.ts";
import { driverOf, isAbove, unfinished } from "./drivers.ts";
import { cancelled, failed } from "./ending.ts";
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
  const isWaiting =
    known?.status === "suspended" && !drives.has(callId) && !(await isAnswered(known, store));
  if (isWaiting) return standing(known);
  const drive =
    drives.get(callId) ??
    (known
      ? resumeChild(parent, settings, known)
      : await createChild(parent, callId, settings, asked, options));
  await drive.begun;
  parent.childCalls.add(callId);
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
    if (late && !drive.task?.isResting) return await promote(parent, drive);
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
  drive.record = { ...drive.record, mode };
  if (drive.task) drive.task.record = { ...drive.task.record, mode };
  parent.emitter.emit({
    type: "task.child.promoted",
    ...childPlace(parent, drive.record.taskId),
    mode,
    reason: "sync_timeout",
  });
  await parent.log.commit({ tasks: [drive.task?.record ?? drive.record] });
}

async function createChild(
  parent: TaskRun,
  callId: string,
  settings: AgentSettings,
  asked: readonly Message[],
  options: ChildOptions,
): Promise<Drive> {
  const { agentId, label, mode = "sync", child: who, output, budget } = options;
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
  const caller = { ...(output && { output }), ...(budget && { budget }) };
  const tellStarted = () =>
    parent.emitter.emit({
      type: "task.child.started",
      ...childPlace(parent, callId),
      mode,
      agent: { id: agentId, name: settings.name, key: record.agentKey },
    });
  remember(parent.conversation.store, callId, settings);
  if (!who?.isKnown) {
    return driveChild(parent, record, input, async ({ controller }) => {
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
  return resumeChild(parent, settings, queued, caller);
}

/** Goes on with a child that is known: one that was answered, one whose process was lost, one that has yet to begin. */
function resumeChild(
  parent: TaskRun,
  settings: AgentSettings,
  known: TaskRecord,
  caller: RunOptions<StandardSchema | undefined> = {},
): Drive {
  const { store } = parent.conversation;
  remember(store, known.taskId, settings);
  return driveChild(parent, known, known.input ?? [], async (drive) => {
    const { controller } = drive;
    const release = await turnOf(store, known, controller.signal);
    const messages = await store.session(known.sessionId);
    const child = await open(parent, settings, drive.record, messages, { caller, controller });
    if (known.status !== "queued") await resumeTask(child, "approval_resolved");
    else if (release) await beginTask(child, known.input ?? [], { isAnnounced: true });
    else {
      await endTask(child, cancelled(child));
      return { task: child, hasEnded: true, release() {} };
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
  }
}

function driveChild(
  parent: TaskRun,
  record: TaskRecord,
  input: readonly Message[],
  openChild: DriveStart["open"],
): Drive {
  const { conversation } = parent;
  const drive = startDrive({
    conversation,
    record,
    ancestors: [...parent.ancestors, parent.ref.taskId],
    input,
    open: openChild,
  });
  const { signal } = parent.controller;
  // One that comes after the cancel is cancelled as it comes.
  if (signal.aborted) drive.controller.abort(signal.reason);
  const onEnd = () => {
    if (drive.task?.record.status !== "suspended") forget(conversation.store, record.taskId);
  };
  drive.ended.then(onEnd, onEnd);
  return drive;
}

/** Takes up a background task that nobody drives. One whose agent nobody knows any more has failed. */
export async function reviveChild(conversation: Conversation, record: TaskRecord): Promise<void> {
  const parent = await openParent(conversation, record);
  if (parent === undefined) return;
  const settings = await settingsOfChild(parent, record);
  if (settings !== undefined) resumeChild(parent, settings, record);
  else if (record.status !== "suspended") await failLost(conversation, record, parent);
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
export async function failLostTasks(
  conversation: Conversation,
  records: readonly TaskRecord[],
): Promise<void> {
  const deepestFirst = [...records].sort((one, other) => other.depth - one.depth);
  for (const { taskId } of deepestFirst) {
    if (conversation.drives.has(taskId)) continue;
    const record = await conversation.store.task(taskId);
    if (record?.status !== "queued" && record?.status !== "in_progress") continue;
    if (conversation.drives.has(taskId)) continue;
    if (record.depth > 0)
      await failLost(conversation, record, await openParent(conversation, record));
    else await failLost(conversation, record, undefined);
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

/** Cancels what is below a task and driven by nobody: what waits. What runs has been told. */
export async function cancelChildren(parent: TaskRun): Promise<void> {
  const { store, drives } = parent.conversation;
  const { rootTaskId, taskId } = parent.ref;
  const waiting = await store.tasks({ rootTaskId, status: ["suspended"] });
  if (waiting.length === 0) return;
  const all = await store.tasks({ rootTaskId });
  const byId = new Map(all.map((record) => [record.taskId, record]));
  for (const { taskId: id } of waiting.filter((record) => isAbove(byId, taskId, record))) {
    const record = await store.task(id);
    if (record?.status !== "suspended" || drives.has(id)) continue;
    const above = await parentOf(parent, record);
    // Nothing of it runs any more, so all that is needed of its agent is the name.
    const messages = await store.session(record.sessionId);
    const child = await open(above, nameOnly(above, record), record, messages);
    child.controller.abort(parent.controller.signal.reason);
    await driveTask(child);
    forget(store, id);
    if (record.mode === "sync") {
      const place = childPlace(above, id);
      const status = child.record.status as TerminalStatus;
      above.emitter.emit({ type: "task.child.finished", ...place, status, usage: child.usage });
    }
  }
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
  const posts = await store.posts({ rootTaskId });
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
