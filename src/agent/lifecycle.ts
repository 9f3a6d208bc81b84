import type { ContextLookup, RunOptions, StandardSchema } from "../protocol/agent.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Message } from "../protocol/message.ts";
import { ReferencePool } from "../protocol/references.ts";
import type { Source } from "../protocol/source.ts";
import type { TaskRecord } from "../protocol/store.ts";
import type { TaskObject, Usage } from "../protocol/task.ts";
import { BudgetMeter } from "./budget.ts";
import { referencesIn } from "./child-outcome.ts";
import type { Conversation } from "./conversation.ts";
import { deliveryOf } from "./delivery.ts";
import { TaskEmitter } from "./emit.ts";
import type { Ending } from "./ending.ts";
import { type FoldedTask, foldTask } from "./fold-log.ts";
import { arrived, type DueRow, lateWords } from "./inbox.ts";
import type { LogWriter } from "./log-writer.ts";
import { type AroundLoop, runLoop } from "./loop.ts";
import { nextStep } from "./next.ts";
import { freezePlain } from "./plain.ts";
import { unknownEffectResult } from "./prompts.ts";
import type { AgentSettings } from "./settings.ts";
import { settleCall } from "./settle.ts";
import type { StepWrite, TaskRun } from "./task-run.ts";
import { claimedBy, commitStep, findTool, refreshTools, untilItEnds, viewOf } from "./task-run.ts";
import { layerContext } from "./tool/context.ts";
import { denyRules } from "./tool/permission.ts";
import { openTrace } from "./trace.ts";

const noUsage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** What a task is opened with. */
export interface OpenTask {
  readonly settings: AgentSettings;
  readonly conversation: Conversation;
  readonly record: TaskRecord;
  readonly messages: readonly Message[];
  readonly caller: RunOptions<StandardSchema | undefined>;
  readonly source?: Source;
  readonly parent?: TaskRun;
  readonly controller?: AbortController;
  /** True: its log says nothing of it yet. */
  readonly isNew?: boolean;
}

const nothingYet: FoldedTask = { task: undefined, used: { tokens: 0, cost: 0, iterations: 0 } };

/** A task to drive; a known one goes on with the numbers of its log. */
export async function openTask(open: OpenTask): Promise<TaskRun> {
  const { settings, conversation, record, messages, caller, source, parent } = open;
  const log = conversation.log(record.rootTaskId);
  const { task: folded, used } = open.isNew
    ? nothingYet
    : await foldTask(conversation.store, record);
  const emitter = new TaskEmitter(record.taskId, log, source, settings.clock, {
    taskSeq: (folded?.appliedSeq ?? -1) + 1,
    outputIndex: folded?.output.length ?? 0,
  });
  const entries = referencesIn(messages);
  const { taskId, rootTaskId, sessionId } = record;
  const ref = Object.freeze({ taskId, rootTaskId, sessionId });
  const own = [...messages];
  const controller = open.controller ?? new AbortController();
  const task: TaskRun = {
    settings,
    conversation,
    log,
    emitter,
    source,
    ref,
    messages: own,
    record,
    usage: folded?.usage ?? noUsage,
    cost: folded?.cost,
    pool: ReferencePool.from({ taskId, entries }),
    storedReferences: entries.length,
    openResults: new Map(
      folded?.output.flatMap((item, index) =>
        item.type === "tool_result" && item.status === "in_progress"
          ? [[item.call_id, { id: item.id, index, blocks: item.block_list }] as const]
          : [],
      ),
    ),
    childCalls: new Set(folded?.children),
    controller,
    cancelledAt: undefined,
    context: contextOf(settings, caller, parent),
    caller,
    hookContext: Object.freeze({
      agent: settings.name,
      agentId: record.agentId,
      task: ref,
      ...(record.userId !== undefined && { userId: record.userId }),
      ...(source && { source }),
      get messages() {
        return viewOf(own);
      },
      state: new Map(),
    }),
    budget: new BudgetMeter(
      { ...settings.budget, ...record.budget },
      settings.clock,
      { ...used, wallMs: record.workedMs ?? 0 },
      parent?.budget,
    ),
    permissions: [settings.permissions, ...(parent ? [denyRules(parent.permissions)] : [])],
    ancestors: parent ? [...parent.ancestors, parent.ref.taskId] : [],
    claims: new Map(),
    isResting: false,
    trace: openTrace(settings, record, parent?.trace),
  };
  const onCancel = () => {
    task.cancelledAt = settings.clock.now();
  };
  if (controller.signal.aborted) onCancel();
  else controller.signal.addEventListener("abort", onCancel, { once: true });
  return task;
}

/** Says that a task is there, before it can begin. */
export function announceTask(
  log: LogWriter,
  record: TaskRecord,
  clock: Pick<Clock, "now">,
  source: Source,
): void {
  announce(new TaskEmitter(record.taskId, log, source, clock), record);
}

function announce(emitter: TaskEmitter, record: TaskRecord): void {
  const parent = record.parentTaskId !== undefined && {
    parent_task_id: record.parentTaskId,
    parent_call_id: record.taskId,
    parent_item_id: record.parentItemId,
    mode: record.mode,
  };
  emitter.emit({
    type: "task.created",
    task: {
      id: record.taskId,
      object: "task",
      status: "queued",
      agent_id: record.agentId,
      session_id: record.sessionId,
      ...parent,
      created_at: record.createdAt,
    },
  });
}

/** The first events of a new task, with what it was asked; one that had to wait has been announced before. */
export async function beginTask(
  task: TaskRun,
  input: readonly Message[],
  { isAnnounced = false, late = [] }: { isAnnounced?: boolean; late?: readonly DueRow[] } = {},
): Promise<void> {
  if (!isAnnounced) announce(task.emitter, task.record);
  const identity = { id: task.record.taskId, object: "task" } as const;
  task.emitter.emit({ type: "task.in_progress", task: { ...identity, status: "in_progress" } });
  const { input: _, ...record } = task.record;
  task.record = record;
  await commitStep(task, {
    ...before(input, arrived(task, late)),
    record: { status: "in_progress" },
  });
}

/**
 * A known task works again: what its last owner had shown but not committed is taken back. `signal` is that of whoever
 * waits for it.
 */
export async function resumeTask(
  task: TaskRun,
  reason: string,
  messages: readonly Message[] = [],
  signal = task.controller.signal,
): Promise<void> {
  const late = messages.length > 0 ? await lateWords(task) : [];
  task.isResting = false;
  const wasLost = task.record.status === "in_progress" || task.record.status === "queued";
  task.emitter.emit({ type: "task.resumed", reason: wasLost ? "recovered" : reason });
  if (wasLost) await recover(task, signal);
  await commitStep(task, {
    ...before(messages, arrived(task, late)),
    record: { status: "in_progress" },
  });
}

function before(messages: readonly Message[], late: StepWrite): StepWrite {
  return { ...late, messages: [...(late.messages ?? []), ...messages] };
}

/** Drives a task until it rests, and writes how. */
export async function driveTask(task: TaskRun, around?: AroundLoop): Promise<Ending> {
  const ending = await runLoop(task, around);
  await endTask(task, ending);
  return ending;
}

/** Writes how a task came to rest; the end of a background task is told to its parent in the same commit. */
export async function endTask(task: TaskRun, ending: Ending): Promise<void> {
  task.isResting = true;
  const { taskId } = task.ref;
  if (ending.status === "suspended") {
    const { suspension, generateReason } = ending;
    task.emitter.emit({ type: "task.suspended", ...suspension, generate_reason: generateReason });
    await commitStep(task, { record: { status: "suspended" } });
    return;
  }
  const taken = claimedBy(task, untilItEnds);
  const common = {
    id: taskId,
    object: "task",
    completed_at: task.settings.clock.now(),
    usage: task.usage,
  } as const;
  if (ending.status === "failed") {
    const error = ending.error.toJSON();
    task.emitter.emit({ type: "task.failed", task: { ...common, status: "failed", error } });
    const record = { status: "failed", error, usage: task.usage } as const;
    await commitStep(task, { record, posts: deliveryOf(task, "failed"), taken });
    return;
  }
  const { generateReason, incompleteReason, reason, message } = ending;
  // The caller gets the value itself and may do with it what it likes.
  const structured: unknown =
    ending.structured === undefined
      ? undefined
      : freezePlain(JSON.parse(JSON.stringify(ending.structured)));
  const said = {
    ...common,
    generate_reason: generateReason,
    ...(structured !== undefined && { structured }),
    ...(incompleteReason && { incomplete_details: { reason: incompleteReason } }),
    ...(reason !== undefined && { reason }),
  } satisfies Partial<TaskObject>;
  const { status } = ending;
  if (status === "completed")
    task.emitter.emit({ type: "task.completed", task: { ...said, status } });
  else if (status === "cancelled") {
    task.emitter.emit({ type: "task.cancelled", task: { ...said, status } });
  } else task.emitter.emit({ type: "task.incomplete", task: { ...said, status } });
  const { usage } = task;
  const record = { status, result: message, generateReason, usage };
  await commitStep(task, {
    record: { ...record, ...(structured !== undefined && { structured }) },
    posts: deliveryOf(task, status),
    taken,
  });
}

/** After a crash: provisional items are taken back, and every call that was running is settled or may run again. */
async function recover(task: TaskRun, signal: AbortSignal): Promise<void> {
  // A tool that cannot be found now is not run again.
  await refreshTools(task, signal).catch(() => {});
  const { task: folded } = await foldTask(task.conversation.store, task.record);
  const discard = (id: string, index: number) =>
    task.emitter.emit({
      type: "task.output_item.discarded",
      output_index: index,
      item_id: id,
      reason: "recovered",
    });
  for (const [index, item] of (folded?.output ?? []).entries()) {
    const isProvisional = index >= task.record.committedOutput && item.type !== "tool_result";
    if (isProvisional && item.type !== "discarded") discard(item.id, index);
  }
  const next = nextStep(task.messages, task.settings.name);
  const calls = next.type === "act" || next.type === "wait" ? next.calls : [];
  for (const { call, suspension, answer } of calls) {
    const place = task.openResults.get(call.id);
    const isAllowed = answer?.decision === "approve" || answer?.decision === "edit";
    // One that waits has not begun; one that was allowed may have.
    if (place === undefined || (suspension !== undefined && !isAllowed)) continue;
    if ((await task.conversation.store.task(call.id)) !== undefined) continue;
    if (isIdempotent(task, call.name)) {
      discard(place.id, place.index);
      task.openResults.delete(call.id);
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

function contextOf(
  settings: AgentSettings,
  caller: RunOptions<StandardSchema | undefined>,
  parent: TaskRun | undefined,
): ContextLookup {
  return layerContext(caller.context, parent?.context, settings.context, settings.toolkit.context);
}
