import {
  type Block,
  type Message,
  type Post,
  ReferencePool,
  type TaskRecord,
  textOf,
} from "../../contract/index.ts";
import { isTerminal, type TaskStatus, type TerminalStatus } from "../../protocol/index.ts";
import { backgroundEnded, incompleteReasons } from "../base/prompts.ts";
import type { ChildOutcome } from "../tool/context.ts";
import type { TaskRun } from "./task-run.ts";
import { loadReferences, newReferences, referencesIn } from "./transcript.ts";

/** The id of the row that delivers the end of a background child. */
function deliveryId(taskId: string): string {
  return `done:${taskId}`;
}

/** The state of a child that has not ended. */
export function standing({
  taskId,
  sessionId,
  agentKey,
  agentId,
  label,
  ...record
}: TaskRecord): ChildOutcome {
  const { status, mode } = record;
  const named = label !== undefined && { label };
  return { status, mode, taskId, sessionId, agentKey, agentId, ...named, cited: [] };
}

/** The outcome of an ended child, with its citations; a call that reads it claims the row that would deliver it. */
export async function outcomeOf(
  parent: TaskRun,
  record: TaskRecord,
  callId?: string,
): Promise<ChildOutcome> {
  const { result, structured, generateReason, error, usage } = record;
  if (callId !== undefined && record.mode === "background") await claim(parent, record, callId);
  const messages = result ? await parent.conversation.store.session(record.sessionId) : [];
  await loadReferences(parent);
  const embedded =
    result && parent.output.pool.embed(poolOf(record.taskId, messages), result.content);
  const content = embedded?.message ?? [];
  return {
    ...standing(record),
    cited: embedded?.pool ?? [],
    ...(usage && { usage }),
    ...(result && { reply: { ...result, content, text: textOf(content) } }),
    ...(structured !== undefined && { structured }),
    ...(generateReason && { generateReason }),
    ...(error && { error }),
  };
}

/** The references that a transcript holds. */
function poolOf(taskId: string, messages: readonly Message[]): ReferencePool {
  return ReferencePool.from({ taskId, entries: referencesIn(messages) });
}

/** Lets the result of this call take the delivery row; the first call that reads an outcome wins. */
async function claim(parent: TaskRun, { taskId }: TaskRecord, callId: string): Promise<void> {
  const id = deliveryId(taskId);
  const { store } = parent.conversation;
  const posts = await store.posts({ sessionId: parent.identity.ref.sessionId });
  const isThere = posts.some((post) => post.id === id);
  if (isThere && !parent.control.claims.has(id)) parent.control.claims.set(id, callId);
}

/** The status words that a model reads. */
const words: Readonly<Record<TaskStatus, string>> = {
  queued: "accepted",
  in_progress: "accepted",
  suspended: "suspended",
  completed: "ok",
  failed: "error",
  cancelled: "cancelled",
  incomplete: "incomplete",
};

/** A child's outcome for its parent's model: who it is and how it stands, what it cites and said. */
export interface ChildReport {
  readonly header: string;
  readonly said: readonly Block[];
}

/** Names a child and its status to its parent's model. */
export function describeChild(
  child: Pick<ChildOutcome, "agentKey" | "agentId" | "sessionId" | "label">,
  status: string,
): string {
  const { agentKey, agentId, sessionId, label } = child;
  const named = label === undefined ? "" : `\nlabel: ${label}`;
  return `agent_key: ${agentKey}\nagent_id: ${agentId}\nsession_id: ${sessionId}\nstatus: ${status}${named}`;
}

/** Why a child is incomplete; undefined if it is not. */
export function incompleteReason({ status, generateReason }: ChildOutcome): string | undefined {
  return status === "incomplete" ? incompleteReasons[generateReason ?? ""] : undefined;
}

/** Reports a child to its parent's model: its true status, and its last message or its error. */
export function childReport(outcome: ChildOutcome, status = words[outcome.status]): ChildReport {
  const { taskId, error, reply, cited } = outcome;
  const lines = [describeChild(outcome, status)];
  if (!isTerminal(outcome.status))
    return { header: [...lines, `task_id: ${taskId}`].join("\n"), said: [] };
  // The parent does not see the child's reasoning and calls.
  const said = (reply?.content ?? []).filter(
    (block) => (block.type === "text" && block.text !== "") || "source" in block,
  );
  const reason = incompleteReason(outcome);
  if (reason !== undefined) lines.push(`reason: ${reason}`);
  if (error) lines.push(`error: ${error.message}`);
  if (said.length > 0) lines.push("reply:", "");
  return { header: lines.join("\n"), said: [...cited, ...said] };
}

/** The row that delivers the end of a background child: a pointer, resolved before the parent's next model call. */
export function deliveryOf(task: TaskRun, status: TerminalStatus): readonly Post[] {
  const { taskId, rootTaskId, mode, parentSessionId, agentId } = task.state.record;
  if (mode !== "background" || parentSessionId === undefined) return [];
  const text = `${agentId} ${status}`;
  const message: Message = {
    id: task.settings.ids.next("msg"),
    role: "user",
    content: [{ type: "hint", text, metadata: { taskId } }],
  };
  const id = deliveryId(taskId);
  return [
    { id, kind: task.identity.deliveryKind, sessionId: parentSessionId, rootTaskId, message },
  ];
}

/** The message that a row becomes: the result or error of an ended child, or the message of the row. */
export async function delivered(task: TaskRun, post: Post): Promise<Message | undefined> {
  const { message } = post;
  const [hint] = message?.content ?? [];
  if (message === undefined || hint?.type !== "hint") return message;
  const taskId = hint.metadata?.taskId;
  const record = await endedChild(task, taskId);
  if (record === undefined) return message;
  const { header, said } = childReport(await outcomeOf(task, record));
  const first: Block = {
    type: "hint",
    text: `${backgroundEnded}\ntask_id: ${taskId}\n${header}`,
    metadata: { ...hint.metadata, ...newReferences(task) },
  };
  return { ...message, content: [first, ...said] };
}

async function endedChild(task: TaskRun, taskId: unknown): Promise<TaskRecord | undefined> {
  if (typeof taskId !== "string") return undefined;
  const record = await task.conversation.store.task(taskId);
  return record && isTerminal(record.status) ? record : undefined;
}
