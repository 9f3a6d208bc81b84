import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { copyPlain, freezePlain } from "../../base/plain.ts";
import {
  type Message,
  type Reply,
  replyWith,
  type Store,
  type TaskRecord,
  type TaskRef,
} from "../../contract/index.ts";
import type { GenerateReason } from "../../protocol/index.ts";
import { type IncompleteReason, noUsage, type Suspension } from "../../protocol/index.ts";
import { BudgetUsedUp } from "../base/budget.ts";
import { callHooks, hooksAt, readReplyVerdict } from "./hooks.ts";
import { reasonText } from "./inbox.ts";
import { isRunnable, type OpenStep } from "./next.ts";
import type { AgentSettings } from "./settings.ts";
import { type TaskRun, type TaskWords, totalOf } from "./task-run.ts";
import { waitingTasks } from "./waiting.ts";

/** How a task rests. All but `suspended` are final. */
export type Ending = RestingEnding | { readonly status: "failed"; readonly error: RivuletError };
/** An ending with a message. */
export interface RestingEnding {
  readonly status: "completed" | "incomplete" | "cancelled" | "suspended";
  readonly generateReason: GenerateReason;
  readonly message: Message;
  /** True: a `postCall` hook has changed the message. */
  readonly isEdited?: true;
  readonly structured?: unknown;
  readonly incompleteReason?: IncompleteReason;
  readonly reason?: string;
  /** Of a suspended task, which continues when it is answered. */
  readonly suspension?: Suspension;
}

/** The parts of a reply. */
type Rested = Pick<RestingEnding, "generateReason" | "message" | "structured"> &
  Pick<TaskRecord, "status">;

/** The part of a task that its ending depends on. */
interface Spoken extends TaskWords {
  readonly settings: Pick<AgentSettings, "ids" | "name">;
}

/** The task has its answer. */
export function completed(
  task: Spoken,
  message: Message | undefined,
  structured?: { readonly value: unknown },
): RestingEnding {
  const said = message ?? lastReply(task);
  if (structured === undefined) {
    return { status: "completed", generateReason: "model_stop", message: said };
  }
  const text = JSON.stringify(structured.value);
  return {
    status: "completed",
    generateReason: "structured_output",
    message: freezePlain({ ...said, content: [{ type: "text", text }] }),
    structured: structured.value,
  };
}

/** The task ends before it is finished. */
export function incomplete(task: Spoken, reason: IncompleteReason): RestingEnding {
  const message = lastReply(task);
  const generateReason = reason === "timeout" ? "interrupted" : reason;
  return { status: "incomplete", generateReason, message, incompleteReason: reason };
}

/** The budget of the task is used up: its background children end as well. */
export async function endOfBudget(task: TaskRun): Promise<RestingEnding> {
  await task.conversation.cancelChildren(task, "all", new BudgetUsedUp());
  return incomplete(task, "budget");
}

/** The task was cancelled. */
export function cancelled(task: TaskRun): RestingEnding {
  const reason = reasonText(task.control.controller.signal.reason);
  return { status: "cancelled", generateReason: "interrupted", message: lastReply(task), reason };
}

/** The task was aborted: by a cancel, or because its budget is used up. */
export function aborted(task: TaskRun): RestingEnding {
  const isLate = task.control.controller.signal.reason instanceof BudgetUsedUp;
  return isLate ? incomplete(task, "budget") : cancelled(task);
}

/** The task cannot continue; the error names the task. */
export function failed({ state: { record } }: TaskRun, error: unknown): Ending {
  const { taskId, path } = record;
  return { status: "failed", error: rivuletErrorOf(error).at({ taskId, path }) };
}

/** The error of a task whose process is gone and that no other process can continue. */
export function executorLost(cause?: unknown): RivuletError {
  return new RivuletError("executor_lost", "executor lost", {
    cause,
    hint: "The process that drove this task is gone. Start it again.",
  });
}

/** The task continues only with an answer; `childReasons` are those of the children that it waits for. */
export function suspended(
  task: Spoken,
  step: OpenStep,
  childReasons: readonly (GenerateReason | undefined)[] = [],
) {
  const { calls, stop, stoppedAfter } = step;
  const waiting = calls.flatMap(({ suspension, answer }) =>
    suspension && !answer ? [suspension] : [],
  );
  if (stop) waiting.push(stop);
  const children = stop ? [] : calls.filter(isRunnable).map(({ call }) => call.id);
  const needsApproval = waiting.some(({ kind }) => kind === "approval");
  const onlyChildren = waiting.length === 0;
  const status = "suspended" as const;
  const waits = {
    ...(waiting.length > 0 && { approval_ids: waiting.map(({ approvalId }) => approvalId) }),
    ...(children.length > 0 && { waiting_on: children }),
  };
  if (stoppedAfter) {
    const generateReason = `${stoppedAfter}_stop_requested` as const;
    const isActing = stoppedAfter === "acting";
    const message = isActing ? lastToolMessage(task) : openMessage(step, true);
    const suspension: Suspension = { reason: "stop_requested", ...waits };
    return { status, generateReason, message, suspension };
  }
  const isExternal = (reason: GenerateReason | undefined) => reason === "tool_suspended";
  const isAsked =
    needsApproval || (onlyChildren && !(childReasons.length > 0 && childReasons.every(isExternal)));
  const generateReason = isAsked ? ("approval_required" as const) : ("tool_suspended" as const);
  const reason = needsApproval ? "approval" : onlyChildren ? "child" : "external";
  const suspension: Suspension = { reason, ...waits };
  return { status, generateReason, message: openMessage(step, false), suspension };
}

/** Suspends a task; the calls that can run wait for children, whose reasons tell what a person is asked for. */
export async function suspend(task: TaskRun, step: OpenStep): Promise<RestingEnding> {
  const children = step.calls.filter(isRunnable).map(({ call }) => call.id);
  const records = await Promise.all(children.map((id) => task.conversation.store.task(id)));
  const reasons = records.map((record) => record?.generateReason);
  return suspended(task, step, reasons);
}

/** The message of the calls that wait, without those that have a result. */
function openMessage({ message, calls }: OpenStep, withText: boolean): Message {
  const open = new Set(calls.map(({ call }) => call.id));
  const content = message.content.filter((block) =>
    block.type === "tool_use" ? open.has(block.id) : withText,
  );
  return freezePlain({ ...message, content });
}

function lastReply(task: Spoken): Message {
  const { taskId } = task.identity.ref;
  const mine = task.transcript.messages.findLast(
    (message) => message.role === "assistant" && message.metadata?.taskId === taskId,
  );
  const { ids, name } = task.settings;
  return mine ?? freezePlain({ id: ids.next("msg"), role: "assistant", name, content: [] });
}

function lastToolMessage(task: Spoken): Message {
  const { messages } = task.transcript;
  const result = messages.findLast((message) => message.content[0]?.type === "tool_result");
  return result ?? lastReply(task);
}

/** The ids of a task. */
export function refOf({ taskId, rootTaskId, sessionId }: TaskRecord): TaskRef {
  return Object.freeze({ taskId, rootTaskId, sessionId });
}

/** Builds the reply of a task that rests; a suspended one lists the approvals at and below it. */
export async function replyOf(
  store: Store,
  record: TaskRecord,
  { status, generateReason, message, structured }: Rested,
): Promise<Reply<unknown>> {
  const { rootTaskId, path } = record;
  const waiting = status === "suspended" ? await waitingTasks(store, { rootTaskId }) : [];
  const isBelow = (other: string) => other === path || other.startsWith(`${path}/`);
  const { usage = noUsage, total = { usage } } = record;
  return replyWith(message, {
    approvals: waiting.flatMap((task) => (isBelow(task.record.path) ? task.approvals : [])),
    task: refOf(record),
    ...{ usage, total, generateReason, structured },
  });
}

/** How a task rests, from its record; throws the error of a failed task. */
export function readEnding(record: TaskRecord): Rested {
  const { taskId, status, agentName, error, structured, generateReason = "model_stop" } = record;
  if (status === "failed") {
    const { code = "failed", message = "The task failed.", ...details } = error ?? {};
    throw new RivuletError(code, message, details);
  }
  const nothing: Message = { id: taskId, role: "assistant", name: agentName, content: [] };
  return { status, generateReason, message: record.result ?? nothing, structured };
}

/** Calls the `postCall` hooks, which may change the message of the reply. */
export async function editReply(task: TaskRun, ending: RestingEnding): Promise<RestingEnding> {
  const { conversation } = task;
  const { hookContext } = task.scope;
  const { record } = task.state;
  if (hooksAt(task.settings.hooks, "postCall").length === 0) return ending;
  await task.output.log.flush(); // a hook must not see a reply that a crash could lose
  const total = await totalOf(task);
  const reply = Object.freeze(await replyOf(conversation.store, { ...record, total }, ending));
  const edited = await callHooks(
    task,
    "postCall",
    reply,
    (hook, current) => hook.postCall?.(hookContext, current),
    (current, returned) => Object.freeze(readReplyVerdict(current, returned)),
  );
  if (edited === reply) return ending;
  const { content, metadata } = edited;
  const message = { ...ending.message, content, ...(metadata && { metadata }) };
  return { ...ending, message: freezePlain(copyPlain(message)), isEdited: true };
}
