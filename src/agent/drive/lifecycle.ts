import { onAbort } from "../../base/clock.ts";
import type { RivuletError } from "../../base/error.ts";
import { freezePlain } from "../../base/plain.ts";
import {
  editedReply,
  type HookContext,
  type Message,
  type Post,
  ReferencePool,
  type RemoteLink,
  type RunOptions,
  type StandardSchema,
  type Store,
  type TaskRecord,
} from "../../contract/index.ts";
import {
  type EventBody,
  type LogEvent,
  noUsage,
  type Source,
  type Task,
  type TerminalStatus,
  WrittenItem,
} from "../../protocol/index.ts";
import { BudgetMeter, type Used } from "../base/budget.ts";
import { unknownEffectResult } from "../base/prompts.ts";
import { TaskEmitter } from "../events/emit.ts";
import { foldTask } from "../events/fold-log.ts";
import { deliveryOf } from "../loop/child-outcome.ts";
import { cancelled, type Ending, type RestingEnding, refOf } from "../loop/ending.ts";
import { hooksAt, withHooks } from "../loop/hooks.ts";
import { arrived, cancelReason, lateRows, reasonText } from "../loop/inbox.ts";
import { StepState } from "../loop/next.ts";
import { type AgentSettings, settingsBehind } from "../loop/settings.ts";
import { settleCall } from "../loop/settle.ts";
import {
  claimedBy,
  commitStep,
  findTool,
  refreshTools,
  stateOf,
  type TaskIdentity,
  type TaskRun,
  type TaskScope,
  type TaskState,
  type TaskTranscript,
  totalOf,
  untilItEnds,
  withMessages,
  writeStep,
} from "../loop/task-run.ts";
import { taskKey } from "../loop/tool-context.ts";
import { openTrace } from "../loop/trace.ts";
import { readReferences, readTranscript, type Transcript } from "../loop/transcript.ts";
import { layerContext } from "../tool/context.ts";
import { inheritedRules } from "../tool/permission.ts";
import { Toolkit } from "../tool/toolkit.ts";
import type { Conversation } from "./conversation.ts";
import { type Ties, tiesTo, untied } from "./home.ts";

const emptyFold = { task: undefined, used: { tokens: 0, cost: 0, iterations: 0 } };
/** The `task_seq` after the event that `announce` writes. */
const announcedSeq = 1;

/** A task to open. */
interface OpenTask {
  readonly conversation: Conversation;
  readonly settings: AgentSettings;
  readonly state: TaskState;
  readonly parent?: TaskRun | undefined;
  readonly caller?: RunOptions<StandardSchema | undefined> | undefined;
  readonly controller?: AbortController;
  /** True: the log has no event of the task yet. */
  readonly isNew?: boolean;
  /** True: the log has only the events that `announce` writes. */
  readonly isAnnounced?: boolean;
}

/** Opens a task to drive it; a task that has begun continues the numbers of its log. */
export async function openTask(open: OpenTask): Promise<TaskRun> {
  const { conversation, state, parent, caller = {}, controller = new AbortController() } = open;
  const { store } = conversation;
  const { record } = state;
  const { settings: agent, isNew, isAnnounced } = open;
  const hooked = withHooks(agent, caller.hooks);
  const settings = parent
    ? {
        ...hooked,
        ...inheritedPrice(hooked, parent, record),
        agentId: record.agentId,
        clock: parent.settings.clock,
      }
    : hooked;
  const log = conversation.log(record.rootTaskId);
  const source = record.depth > 0 ? sourceOf(record) : undefined;
  // A fold reads the whole log, which the children of a long task share.
  const { task: folded, used } = isNew || isAnnounced ? emptyFold : await foldTask(store, record);
  const trace = await openTrace(settings, record, parent?.trace);
  const { transcript, pool } = await openTranscript(open, settings);
  // The log may have more than the last commit.
  state.usage = folded?.usage ?? noUsage;
  state.cost = folded?.cost;
  state.byModel = folded?.byModel ?? [];
  const budget = meterOf(open, settings, used);
  const scope = scopeOf(open, settings, transcript, budget, source);
  const task: TaskRun = {
    settings,
    conversation,
    identity: identityOf(scope.hookContext, parent),
    state,
    transcript,
    output: {
      log,
      emitter: new TaskEmitter(record.taskId, log, source, settings.clock, {
        taskSeq: isAnnounced ? announcedSeq : (folded?.appliedSeq ?? -1) + 1,
        outputIndex: folded?.output.length ?? 0,
      }),
      openResults: openResultsOf(folded),
      childCalls: new Set(folded?.children),
      pool,
    },
    control: {
      controller,
      calls: new AbortController(),
      cancelledAt: undefined,
      claims: new Map(),
      isResting: false,
    },
    scope,
    budget,
    trace,
  };
  Object.freeze(Object.assign(scope.hookContext, { [taskKey]: task })); // they refer to each other
  onAbort(controller.signal, () => {
    task.control.cancelledAt = settings.clock.now();
    task.control.calls.abort(controller.signal.reason);
  });
  return task;
}

/** Without a price of its own, a child below a limit on the cost uses that of its parent: it must not count as free. */
function inheritedPrice(
  { price }: AgentSettings,
  { settings, budget }: TaskRun,
  record: TaskRecord,
) {
  const limit = record.budget?.cost ?? budget.left?.cost;
  const isCounted = price === undefined && limit !== undefined;
  return isCounted && settings.price !== undefined && { price: settings.price };
}

/** The meter of a task; one that this process has opened before continues. */
function meterOf(
  { conversation: { meters }, state: { record }, parent }: OpenTask,
  settings: AgentSettings,
  used: Used,
): BudgetMeter {
  const { taskId, workedMs: wallMs = 0 } = record;
  const limits = { ...settings.budget, ...record.budget };
  const meter =
    meters.get(taskId)?.resume(limits, wallMs) ??
    new BudgetMeter(limits, settings.clock, { ...used, wallMs }, parent?.budget);
  meters.set(taskId, meter);
  return meter;
}

function identityOf({ task, source }: HookContext, parent: TaskRun | undefined): TaskIdentity {
  const ancestors = parent ? [...parent.identity.ancestors, parent.identity.ref.taskId] : [];
  const deliveryKind = parent?.settings.wakeOnCompletion ? "input" : "hint";
  return { ref: task, source, ancestors, deliveryKind };
}

/** The values and rules of a task, from its agent, its caller and its parent. */
function scopeOf(
  { state: { record }, parent, caller = {} }: OpenTask,
  settings: AgentSettings,
  transcript: TaskTranscript,
  budget: BudgetMeter,
  source: Source | undefined,
): TaskScope {
  const given = [caller.context, parent?.scope.context, settings.context, settings.toolkit.context];
  const inherited = parent ? [inheritedRules(parent.scope.permissions)] : [];
  return {
    caller,
    context: layerContext(...given),
    hookContext: withMessages<HookContext>(transcript, {
      agent: settings.name,
      agentId: record.agentId,
      task: refOf(record),
      state: new Map(),
      budgetLeft: () => budget.left,
      ...(record.userId !== undefined && { userId: record.userId }),
      ...(source && { source }),
    }),
    kept: new Map(),
    permissions: [settings.permissions, ...inherited],
    structuredTool: undefined,
  };
}

/** The results that were open when the log ended. */
function openResultsOf(folded: Task | undefined): Map<string, WrittenItem> {
  const open = new Map<string, WrittenItem>();
  for (const [index, item] of (folded?.output ?? []).entries())
    if (item.type === "tool_result" && item.status === "in_progress")
      open.set(item.call_id, WrittenItem.from(item, index));
  return open;
}

function emptyTranscript(): Transcript {
  return { messages: [], offset: 0 };
}

/** The messages that a task continues; one with tool groups or hooks that may add calls looks at all of them. */
function transcriptOf(
  store: Store,
  { toolkit, hooks }: AgentSettings,
  record: TaskRecord,
): Promise<Transcript> {
  return readTranscript(
    store,
    record,
    toolkit.hasGroups || hooksAt(hooks, "postReasoning").length > 0,
  );
}

/** Reads the messages that a task continues and that were not there when it was opened. */
export async function loadTranscript(task: TaskRun): Promise<void> {
  const { settings, conversation, transcript, output } = task;
  const { store } = conversation;
  const { record } = task.state;
  const { messages, offset } = await transcriptOf(store, settings, record);
  transcript.messages.length = 0; // hooks share the array
  for (const message of messages) transcript.messages.push(message);
  const shared = { messages: transcript.messages, offset };
  const { pool, transcript: read } = await continued(store, settings, record, shared);
  Object.assign(transcript, read, { view: undefined });
  output.pool = pool;
}

/** The transcript of a task to open; that of a new child is empty. */
async function openTranscript(open: OpenTask, settings: AgentSettings) {
  const { store } = open.conversation;
  const { record } = open.state;
  const isEmpty = open.isNew && record.depth > 0;
  const read = isEmpty ? emptyTranscript() : await transcriptOf(store, settings, record);
  return continued(store, settings, record, read);
}

/** A transcript with its next step, and the references in it. */
async function continued(
  store: Store,
  settings: AgentSettings,
  record: TaskRecord,
  read: Transcript,
): Promise<{ readonly transcript: TaskTranscript; readonly pool: ReferencePool }> {
  const { entries, isWhole } = await readReferences(store, record, read);
  const { messages, offset } = read;
  const transcript = {
    messages,
    offset,
    steps: new StepState(messages, settings.name),
    storedReferences: entries.length,
    earlierReferences: isWhole ? Promise.resolve() : undefined,
  };
  return { transcript, pool: ReferencePool.from({ taskId: record.taskId, entries }) };
}

/** The task above a child, opened without being driven if need be; undefined when the root's agent is not here. */
export async function openParent(
  conversation: Conversation,
  { parentTaskId = "" }: TaskRecord,
): Promise<TaskRun | undefined> {
  const driven = conversation.drives.get(parentTaskId)?.task;
  if (driven) return driven;
  const { store } = conversation;
  const record = await store.task(parentTaskId);
  if (record === undefined) return undefined;
  if (record.parentTaskId === undefined) {
    const settings = conversation.rootSettings(record);
    return settings && openTask({ conversation, settings, state: stateOf(record) });
  }
  const parent = await openParent(conversation, record);
  if (parent === undefined) return undefined;
  const agent = await conversation.childAgent(parent, record);
  const settings = (agent && settingsBehind(agent)) ?? nameOnly(parent.settings, record);
  return openTask({ conversation, settings, state: stateOf(record), parent });
}

/** Settings that suffice to end a task without running its agent. */
export function nameOnly(settings: AgentSettings, { agentName, agentId }: TaskRecord) {
  return { ...settings, name: agentName, agentId };
}

const noTools = new Toolkit();

/** Settings that end a task without running any hook or tool of its agent. */
export function endingSettings(settings: AgentSettings, record: TaskRecord): AgentSettings {
  return { ...nameOnly(settings, record), hooks: [], toolkit: noTools };
}

/** Settings that suffice for a task whose agent runs on another server. */
export function remoteSettings(
  settings: AgentSettings,
  record: TaskRecord,
  link: RemoteLink,
): AgentSettings {
  return { ...nameOnly(settings, record), hooks: [], budget: link.budget ?? {} };
}

/** The source that a child's events carry. */
export function sourceOf(record: TaskRecord): Source {
  const { agentKey, agentId, agentName, sessionId, parentSessionId = "" } = record;
  const { taskId, depth, path } = record;
  const agent = { agentKey, agentId, agentName, sessionId, parentSessionId };
  return Object.freeze({ ...agent, taskId, depth, path });
}

/** Writes that a task exists, before it begins. */
export function announce(emitter: TaskEmitter, record: TaskRecord): void {
  const parent = record.parentTaskId !== undefined && {
    parent_task_id: record.parentTaskId,
    parent_call_id: record.taskId,
    parent_item_id: record.parentItemId,
    mode: record.mode,
  };
  emitter.append({
    type: "task.created",
    task: {
      id: record.taskId,
      object: "task",
      status: "queued",
      agent_id: record.agentId,
      session_id: record.sessionId,
      ...parent,
      created_at: record.createdAt,
      ...(record.metadata && { metadata: record.metadata }),
    },
  });
}

/** Writes the first events of a task and its input; rows that were posted before it began precede the input. */
export async function beginTask(
  task: TaskRun,
  input: readonly Message[],
  onBegin?: () => void,
): Promise<void> {
  const late = await lateRows(task);
  onBegin?.(); // what it emits must not be flushed before this commit
  if (task.output.emitter.isNew) announce(task.output.emitter, task.state.record);
  const shown = { id: task.identity.ref.taskId, object: "task", status: "in_progress" } as const;
  task.output.emitter.append({ type: "task.in_progress", task: shown });
  // `preCall` hooks may change the input, so it stays in the record until they have seen it.
  const { input: _, ...record } = task.state.record;
  const isHooked = hooksAt(task.settings.hooks, "preCall").length > 0;
  const isHeld = input.length > 0 && !record.observes && isHooked;
  if (!isHeld) task.state.record = record;
  const { messages = [], taken = [] } = arrived(task, late);
  await commitStep(task, {
    messages: isHeld ? messages : [...messages, ...input],
    taken,
    record: { status: "in_progress", ...tiesOf(task) },
    ...(record.depth === 0 && { begins: true }),
  });
}

/** Ends a task that never began: one commit creates it in its log, cancels it and takes the row that asked for it. */
export async function cancelQueued(task: TaskRun, row: Post | undefined): Promise<void> {
  if (task.output.emitter.isNew) announce(task.output.emitter, task.state.record);
  if (row !== undefined) task.control.claims.set(row.id, untilItEnds);
  const reason = reasonText(row ? cancelReason(row) : task.control.controller.signal.reason);
  task.output.emitter.append({ type: "task.cancelling", reason });
  await endTask(task, cancelled(task));
}

/** Resumes a task that has begun: discards what its last owner showed and did not commit. */
export async function resumeTask(task: TaskRun, reason: string): Promise<void> {
  const rows = await lateRows(task);
  // Text that came with answers belongs to this resume; other words wait for the next reasoning.
  const isText = rows.some(
    ({ post }) => post.taskId === task.identity.ref.taskId && post.kind === "input",
  );
  task.control.isResting = false;
  const { status, handedOverAt } = task.state.record;
  const wasLost = status === "in_progress";
  const wasHandedOver = task.output.emitter.nextSeq === handedOverAt;
  task.output.emitter.append({ type: "task.resumed", reason: wasLost ? "recovered" : reason });
  if (wasLost && !wasHandedOver) await recover(task);
  const late = arrived(task, isText ? rows : []);
  await commitStep(task, { ...late, record: { status: "in_progress", ...tiesOf(task) } });
}

/** Notes that the task stands between two steps, so that its next owner need not recover it. */
export function markHandedOver(task: TaskRun): void {
  const { nextSeq } = task.output.emitter;
  if (task.state.record.handedOverAt !== nextSeq)
    writeStep(task, { record: { handedOverAt: nextSeq } });
}

/** A root task stays where it runs, as far as its agent asks for that. */
function tiesOf({ settings, state: { record } }: TaskRun): Ties | undefined {
  return record.depth === 0 ? tiesTo(settings, record) : undefined;
}

/** The event of a task's rest that another server has written. */
interface ForwardedRest {
  readonly event: LogEvent;
  /** Whether the parent of the task is there too, where it hears of the end. */
  readonly isBelow: boolean;
}

/** Writes how a task came to rest, by its own or a forwarded event, and tells the parent of a background task. */
export async function endTask(
  task: TaskRun,
  ending: Ending,
  forwarded?: ForwardedRest,
): Promise<void> {
  const total = await totalOf(task);
  task.control.isResting = true;
  const show = (body: () => EventBody) =>
    forwarded ? task.output.emitter.forward(forwarded.event) : task.output.emitter.append(body());
  if ("suspension" in ending && ending.suspension) {
    const { suspension, status, generateReason, message: result } = ending;
    const type = "task.suspended";
    show(() => ({ type, ...suspension, generate_reason: generateReason }));
    const rest = { status, result, generateReason, total, ...untied(task.state.record) };
    await commitStep(task, { record: rest });
    return;
  }
  const status = ending.status as TerminalStatus;
  const { usage } = task.state;
  const completed_at = task.settings.clock.now();
  const common = { id: task.identity.ref.taskId, object: "task", completed_at, usage } as const;
  const { shown, record } = ending.status === "failed" ? failure(ending.error) : outcome(ending);
  const type = `task.${status}` as const;
  show(() => ({ type, task: { ...common, ...shown, status } }) as EventBody);
  await commitStep(task, {
    record: { ...record, status, usage, total },
    posts: forwarded?.isBelow ? [] : deliveryOf(task, status),
    taken: claimedBy(task, untilItEnds),
  });
}

function failure(thrown: RivuletError) {
  const error = thrown.toJSON();
  return { shown: { error }, record: { error } };
}

function outcome(ending: RestingEnding) {
  const { generateReason, incompleteReason, reason, message: result } = ending;
  // The caller gets the value itself and may do with it what it likes.
  const value = ending.structured && freezePlain(JSON.parse(JSON.stringify(ending.structured)));
  const structured = ending.structured !== undefined && { structured: value as unknown };
  return {
    shown: {
      generate_reason: generateReason,
      ...structured,
      ...(incompleteReason && { incomplete_details: { reason: incompleteReason } }),
      ...(ending.isEdited && { metadata: { [editedReply]: result } }),
      ...(reason !== undefined && { reason }),
    },
    record: { result, generateReason, ...structured },
  };
}

/** After a crash: provisional items are taken back, and every call that was running is settled or may run again. */
async function recover(task: TaskRun): Promise<void> {
  // A tool that cannot be found now is not run again.
  await refreshTools(task)?.catch(() => {});
  const { task: folded } = await foldTask(task.conversation.store, task.state.record);
  for (const [index, item] of (folded?.output ?? []).entries()) {
    const isProvisional = index >= task.state.record.committedOutput && item.type !== "tool_result";
    if (isProvisional && item.type !== "discarded")
      task.output.emitter.discardItem(new WrittenItem(item, index), "recovered");
  }
  const { next } = task.transcript.steps;
  const calls = next.type === "act" || next.type === "wait" ? next.calls : [];
  for (const { call, suspension, answer } of calls) {
    const item = task.output.openResults.get(call.id);
    const isAllowed = answer?.decision === "approve" || answer?.decision === "edit";
    // One that waits has not begun; one that was allowed may have.
    if (item === undefined || (suspension !== undefined && !isAllowed)) continue;
    if (task.output.childCalls.has(call.id)) continue;
    if (isIdempotent(task, call.name)) {
      task.output.emitter.discardItem(item, "recovered");
      task.output.openResults.delete(call.id);
    } else {
      await settleCall(task, call, "interrupted", unknownEffectResult);
    }
  }
}

function isIdempotent(task: TaskRun, name: string): boolean {
  try {
    return findTool(task, name)?.idempotent ?? false;
  } catch {
    return false;
  }
}
