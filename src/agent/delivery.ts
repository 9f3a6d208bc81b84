import type { Block, Message } from "../protocol/message.ts";
import type { Post, TaskRecord } from "../protocol/store.ts";
import { isTerminal, type TerminalStatus } from "../protocol/task.ts";
import { deliveryId, outcomeOf } from "./child-outcome.ts";
import { childReport } from "./child-report.ts";
import { backgroundEnded } from "./prompts.ts";
import type { TaskRun } from "./task-run.ts";

/** The row that tells a parent of the end of a background child: a pointer, read when the parent's model is next asked. */
export function deliveryOf(task: TaskRun, status: TerminalStatus): readonly Post[] {
  const { taskId, rootTaskId, mode, parentSessionId, agentId } = task.record;
  if (mode !== "background" || parentSessionId === undefined) return [];
  const text = `${agentId} ${status}`;
  const message: Message = {
    id: task.settings.ids.next("msg"),
    role: "user",
    content: [{ type: "hint", text, metadata: { taskId } }],
  };
  const id = deliveryId(taskId);
  return [{ id, kind: "hint", sessionId: parentSessionId, rootTaskId, message }];
}

/**
 * What the parent's model reads of it: the child's result or error, with what it cites in the parent's numbers. Any
 * other row is read as it is.
 */
export async function delivered(task: TaskRun, post: Post): Promise<Message | undefined> {
  const { message } = post;
  const [hint] = message?.content ?? [];
  if (message === undefined || hint?.type !== "hint") return message;
  const taskId = hint.metadata?.taskId;
  const record = await endedChild(task, taskId);
  if (record === undefined) return message;
  const outcome = await outcomeOf(task, record);
  const references = task.pool.toJSON().entries.slice(task.storedReferences);
  task.storedReferences += references.length;
  const { header, said } = childReport(outcome);
  const first: Block = {
    type: "hint",
    text: `${backgroundEnded}\ntask_id: ${taskId}\n${header}`,
    metadata: { ...hint.metadata, ...(references.length > 0 && { references }) },
  };
  return { ...message, content: [first, ...outcome.cited, ...said] };
}

async function endedChild(task: TaskRun, taskId: unknown): Promise<TaskRecord | undefined> {
  if (typeof taskId !== "string") return undefined;
  const record = await task.conversation.store.task(taskId);
  return record && isTerminal(record.status) ? record : undefined;
}
