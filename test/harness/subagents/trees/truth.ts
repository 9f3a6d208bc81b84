import type { Block, Message, ToolResultBlock } from "../../../../src/contract/message.ts";
import type { TaskRecord } from "../../../../src/contract/store.ts";
import type { TaskEvent } from "../../../../src/protocol/event.ts";
import { readLog } from "../../../agent/support/laws.ts";
import { type ChildCall, callsOf, childCalls, plannedStatus, type TaskPlan } from "./plan.ts";
import type { Played } from "./play.ts";
import { sessionId } from "./stage.ts";

/** A planned task with its record and transcript, found by its call. */
export interface TrueTask {
  readonly plan: TaskPlan;
  readonly record: TaskRecord;
  /** Its messages in the session. */
  readonly messages: readonly Message[];
  readonly parent?: TrueTask;
  /** The call that started it. */
  readonly call?: ChildCall;
  /** Whether it or an ancestor may have been cancelled. */
  readonly mayBeCancelled: boolean;
}

/** The expected state of a finished tree, and the deviations of the records. */
export interface Truth {
  readonly byTaskId: ReadonlyMap<string, TrueTask>;
  readonly byKey: ReadonlyMap<string, TrueTask>;
  /** The transcripts, by session. */
  readonly sessions: ReadonlyMap<string, readonly Message[]>;
  /** The log of each root. */
  readonly logs: readonly (readonly TaskEvent[])[];
  readonly problems: readonly string[];
}

/** Follows the calls of the plan from the roots down to find the task of each child. */
export async function truthOf(played: Played): Promise<Truth> {
  const { store, roots, plan } = played;
  const byTaskId = new Map<string, TrueTask>();
  const byKey = new Map<string, TrueTask>();
  const sessions = new Map<string, readonly Message[]>();
  const problems: string[] = [];
  const cancelled = new Set(
    [...played.tasks.values()].flatMap((task) =>
      callsOf(task).flatMap((call) => (call.type === "cancel" ? [call.of] : [])),
    ),
  );

  async function visit(
    task: TaskPlan,
    record: TaskRecord,
    above: { readonly parent?: TrueTask; readonly call?: ChildCall },
  ): Promise<void> {
    const session = await store.session(record.sessionId);
    sessions.set(record.sessionId, session);
    const messages = session.filter(({ metadata }) => metadata?.taskId === record.taskId);
    const isCancelled =
      cancelled.has(task.key) || (task.key === "r" && plan.cancelAt !== undefined);
    const mayBeCancelled = isCancelled || (above.parent?.mayBeCancelled ?? false);
    const known: TrueTask = { plan: task, record, messages, ...above, mayBeCancelled };
    if (byTaskId.has(record.taskId)) problems.push(`${task.key} has the task of another call`);
    byTaskId.set(record.taskId, known);
    byKey.set(task.key, known);
    problems.push(...recordProblems(known, byKey).map((problem) => `${task.key}: ${problem}`));
    for (const call of childCalls(task)) {
      const callId = callIdOf(known, call.key);
      const child = callId === undefined ? undefined : await store.task(callId);
      if (child) await visit(call.task, child, { parent: known, call });
      else if (!mayLack(known, call, byKey)) problems.push(`${call.key} has no task`);
    }
  }

  const rootRecords = await store.tasks({ sessionId });
  if (rootRecords.length !== roots.length) problems.push(`there are ${rootRecords.length} roots`);
  for (const [index, root] of roots.entries()) {
    const record = rootRecords[index];
    if (record) await visit(root, record, {});
  }
  for (const { taskId, path } of await store.tasks({ conversation: sessionId })) {
    if (!byTaskId.has(taskId)) problems.push(`no call started ${path} ${taskId}`);
  }
  const logs = await Promise.all(rootRecords.map(({ taskId }) => readLog(store, taskId)));
  return { byTaskId, byKey, sessions, logs, problems };
}

/** Returns the id of a planned call. */
export function callIdOf({ messages }: TrueTask, key: string): string | undefined {
  for (const block of blocksOf(messages)) {
    if (block.type === "tool_use" && block.providerCallId === key) return block.id;
  }
  return undefined;
}

/** Returns the result of a planned call. */
export function resultOf(task: TrueTask, key: string): ToolResultBlock | undefined {
  const id = callIdOf(task, key);
  const results = blocksOf(task.messages).filter((block) => block.type === "tool_result");
  return results.find((block) => block.id === id);
}

/** Returns all blocks of messages, in order. */
export function blocksOf(messages: readonly Message[]): readonly Block[] {
  return messages.flatMap(({ content }) => content);
}

/** A call has no child if its task was stopped before the call, or if its addressee does not exist. */
function mayLack(parent: TrueTask, call: ChildCall, byKey: ReadonlyMap<string, TrueTask>): boolean {
  if (parent.record.status === "cancelled") return true;
  const { key } = call;
  if (callIdOf(parent, key) !== undefined) return call.type === "send" && !byKey.has(call.to);
  return parent.plan.kind === "short" && !key.startsWith(`${parent.plan.key}.0.`);
}

function recordProblems(
  { plan, record, parent, call, mayBeCancelled }: TrueTask,
  byKey: ReadonlyMap<string, TrueTask>,
): readonly string[] {
  const problems: string[] = [];
  const same = (what: string, actual: unknown, expected: unknown) => {
    if (actual !== expected) problems.push(`${what} is ${actual}, not ${expected}`);
  };
  const isStuck = callsOf(plan)[0]?.type === "stuck";
  const status = isStuck ? "cancelled" : plannedStatus(plan);
  if (!(mayBeCancelled && record.status === "cancelled")) same("status", record.status, status);
  if (record.status === "failed" && !record.error?.message.includes(`⟨${plan.key}⟩`)) {
    problems.push(`it failed with ${record.error?.message}`);
  }
  same("agent", record.agentId, plan.kind);
  same("depth", record.depth, parent ? parent.record.depth + 1 : 0);
  same("path", record.path, parent ? `${parent.record.path}/${plan.kind}` : sessionId);
  same("parent", record.parentTaskId, parent?.record.taskId);
  same("parent session", record.parentSessionId, parent?.record.sessionId);
  same("root", record.rootTaskId, parent?.record.rootTaskId ?? record.taskId);
  if (call === undefined) return problems;
  const others = [...byKey.values()].filter((other) => other.record.taskId !== record.taskId);
  const addressed = call.type === "send" ? byKey.get(call.to) : undefined;
  if (addressed) {
    same("session", record.sessionId, addressed.record.sessionId);
    same("key", record.agentKey, addressed.record.agentKey);
  } else {
    const isTaken = others.some(
      (other) =>
        other.record.sessionId === record.sessionId || other.record.agentKey === record.agentKey,
    );
    if (isTaken) problems.push("another task has its session or key");
  }
  // A cancelled task may have ended before its caller's timeout.
  if (call.wait !== "promoted" || record.status !== "cancelled") {
    same("mode", record.mode, call.wait === "sync" ? "sync" : "background");
  }
  return problems;
}
