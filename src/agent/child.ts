import type { Agent, Input } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { type Ending, failed } from "./ending.ts";
import { driveHooked } from "./hooked.ts";
import { readInput } from "./input.ts";
import { beginTask, driveTask, openTask, resumeTask } from "./lifecycle.ts";
import type { AgentSettings } from "./settings.ts";
import { settingsBehind } from "./settings.ts";
import type { TaskRun } from "./task-run.ts";
import type { ChildOptions, ChildOutcome } from "./tool/context.ts";
import { traceTask } from "./trace.ts";

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
  parent.childCalls.add(callId);
  const { store } = parent.conversation;
  const known = await store.task(callId);
  if (known && isTerminal(known.status)) {
    return outcome(parent, await openKnown(parent, settings, known));
  }
  if (known?.status === "suspended" && !(await isAnswered(parent, known))) return waiting(known);
  const child = known
    ? await reopen(parent, settings, known)
    : await create(parent, callId, settings, asked, options);
  const ending = await drive(parent, child, known ? [] : asked, options.signal);
  if (ending.status === "suspended") return waiting(child.record);
  tellFinished(parent, child, ending.status);
  return outcome(parent, child);
}

async function create(
  parent: TaskRun,
  callId: string,
  settings: AgentSettings,
  input: readonly Message[],
  { agentId, label }: ChildOptions,
): Promise<TaskRun> {
  const { ids } = parent.settings;
  const uuid = ids.uuid();
  const record: TaskRecord = {
    taskId: callId,
    rootTaskId: parent.ref.rootTaskId,
    parentTaskId: parent.ref.taskId,
    parentItemId: childPlace(parent, callId).item_id,
    agentId,
    agentName: settings.name,
    agentKey: `agent:${agentId}:${uuid}`,
    ...(label !== undefined && { label }),
    sessionId: `sub-${uuid}`,
    parentSessionId: parent.ref.sessionId,
    ...(parent.record.userId !== undefined && { userId: parent.record.userId }),
    depth: parent.record.depth + 1,
    path: `${parent.record.path}/${agentId}`,
    createdAt: settings.clock.now(),
    mode: "sync",
    status: "queued",
    committedOutput: 0,
  };
  const child = await open(parent, settings, record, []);
  // With nothing to wait for in between, this is written together with the child's own beginning.
  parent.emitter.emit({
    type: "task.child.started",
    ...childPlace(parent, callId),
    mode: "sync",
    agent: { id: agentId, name: settings.name, key: record.agentKey },
  });
  const metadata = { input: true, taskId: callId } as const;
  await beginTask(
    child,
    input.map((message) => ({ ...message, metadata: { ...message.metadata, ...metadata } })),
  );
  return child;
}

async function reopen(parent: TaskRun, settings: AgentSettings, record: TaskRecord) {
  const child = await openKnown(parent, settings, record);
  await resumeTask(child, "approval_resolved");
  return child;
}

async function openKnown(parent: TaskRun, settings: AgentSettings, record: TaskRecord) {
  const messages = await parent.conversation.store.session(record.sessionId);
  return open(parent, settings, record, messages);
}

function open(
  parent: TaskRun,
  settings: AgentSettings,
  record: TaskRecord,
  messages: readonly Message[],
): Promise<TaskRun> {
  const { conversation } = parent;
  return openTask({
    settings: { ...settings, agentId: record.agentId, clock: parent.settings.clock },
    conversation,
    record,
    messages,
    caller: {},
    source: sourceOf(record),
    parent,
  });
}

/** Drives a child under its parent: a cancel of the call reaches it, also one that came before it began. */
async function drive(
  parent: TaskRun,
  child: TaskRun,
  input: readonly Message[],
  signal: AbortSignal,
): Promise<Ending> {
  const onAbort = () => child.controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  parent.children.add(child);
  try {
    const { ending } = await traceTask(child, () => driveHooked(child, input, driveTask));
    return ending;
  } catch (error) {
    // A child's failure is its own: the parent reads of it, unless nobody may write any more.
    if (parent.conversation.lost.signal.aborted) throw error;
    return failed(error);
  } finally {
    parent.children.delete(child);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Cancels the children that nobody drives right now, those that wait; the ones that run are told by their call. */
export async function cancelChildren(parent: TaskRun): Promise<void> {
  const { store } = parent.conversation;
  const records = await store.tasks({ rootTaskId: parent.ref.rootTaskId, status: ["suspended"] });
  for (const record of records.filter(({ parentTaskId }) => parentTaskId === parent.ref.taskId)) {
    // Nothing of it runs any more, so all that is needed of its agent is the name.
    const settings = { ...parent.settings, name: record.agentName, agentId: record.agentId };
    const child = await openKnown(parent, settings, record);
    child.controller.abort(parent.controller.signal.reason);
    const { status } = await driveTask(child);
    if (status !== "suspended") tellFinished(parent, child, status);
  }
}

/** Whether somebody has answered this child, or a descendant of it. */
async function isAnswered(parent: TaskRun, child: TaskRecord): Promise<boolean> {
  const { store } = parent.conversation;
  const { rootTaskId } = parent.ref;
  const posts = await store.posts({ rootTaskId });
  if (posts.length === 0) return false;
  const records = new Map(
    (await store.tasks({ rootTaskId })).map((record) => [record.sessionId, record]),
  );
  const byTask = new Map([...records.values()].map((record) => [record.taskId, record]));
  return posts.some((post) => {
    for (
      let record = records.get(post.sessionId);
      record !== undefined;
      record = byTask.get(record.parentTaskId ?? "")
    ) {
      if (record.taskId === child.taskId) return true;
    }
    return false;
  });
}

function tellFinished(parent: TaskRun, child: TaskRun, status: TerminalStatus): void {
  const place = childPlace(parent, child.ref.taskId);
  parent.emitter.emit({ type: "task.child.finished", ...place, status, usage: child.usage });
}

/** What a child that has ended came to, with what it cites taken into the parent's pool. */
function outcome(parent: TaskRun, child: TaskRun): ChildOutcome {
  const { taskId, sessionId, agentKey, status, result, structured, error } = child.record;
  const embedded = result && parent.pool.embed(child.pool, result.content);
  const content = embedded?.message ?? [];
  return {
    status: status as TerminalStatus,
    taskId,
    sessionId,
    agentKey,
    usage: child.usage,
    cited: embedded?.pool ?? [],
    ...(result && { reply: { ...result, content, text: textOf(content) } }),
    ...(structured !== undefined && { structured }),
    ...(error && { error }),
  };
}

function waiting({ taskId, sessionId, agentKey }: TaskRecord): ChildOutcome {
  return { status: "suspended", taskId, sessionId, agentKey, cited: [] };
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
