import type { RunOptions, StandardSchema } from "../protocol/agent.ts";
import type { Message } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import type { Conversation } from "./conversation.ts";
import { openTask } from "./lifecycle.ts";
import type { AgentSettings } from "./settings.ts";
import { settingsBehind } from "./settings.ts";
import type { TaskRun } from "./task-run.ts";

// The agents behind children that have not ended, so that one who waits can go on without its parent's tool.
const agents = new WeakMap<Store, Map<string, AgentSettings>>();

interface OpenChild {
  readonly caller?: RunOptions<StandardSchema | undefined>;
  readonly controller?: AbortController;
  readonly isNew?: boolean;
}

/** A child to drive, opened under its parent. */
export function openChild(
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

/** The task above a child, to open the child under it; undefined when this process does not know its agent. */
export async function openParent(
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
  return openChild(parent, settings ?? nameOnly(parent, record), record, messages);
}

/** The agent behind a child, if this process knows it. */
export async function settingsOfChild(
  parent: TaskRun,
  record: TaskRecord,
): Promise<AgentSettings | undefined> {
  const known = agents.get(parent.conversation.store)?.get(record.taskId);
  if (known) return known;
  const agent = await parent.settings.resolveChild?.(record);
  const settings = agent && settingsBehind(agent);
  // Under another name it would not find the calls that are open.
  return settings?.name === record.agentName ? settings : undefined;
}

/** What is needed of an agent of which nothing runs any more. */
export function nameOnly({ settings }: TaskRun, { agentName, agentId }: TaskRecord): AgentSettings {
  return { ...settings, name: agentName, agentId };
}

/** Where a child stands in its parent's output. */
export function childPlace(parent: TaskRun, callId: string) {
  const place = parent.openResults.get(callId);
  if (place === undefined) throw new Error(`No item is open for call ${callId}.`);
  return { child_task_id: callId, call_id: callId, item_id: place.id, output_index: place.index };
}

/** Who speaks in a child's events. */
export function sourceOf(record: TaskRecord): Source {
  return Object.freeze({
    agentKey: record.agentKey,
    agentId: record.agentId,
    agentName: record.agentName,
    sessionId: record.sessionId,
    parentSessionId: record.parentSessionId ?? "",
    taskId: record.taskId,
    depth: record.depth,
    path: record.path,
  });
}

/** Keeps the agent behind a child that has not ended. */
export function rememberAgent(store: Store, taskId: string, settings: AgentSettings): void {
  const known = agents.get(store) ?? new Map<string, AgentSettings>();
  agents.set(store, known.set(taskId, settings));
}

/** The child has ended. */
export function forgetAgent(store: Store, taskId: string): void {
  agents.get(store)?.delete(taskId);
}
