import type { Message } from "../protocol/message.ts";
import type { Post } from "../protocol/store.ts";
import { delivered } from "./delivery.ts";
import { abortTree, cancelReason, isFor } from "./drive.ts";
import { stopCallId } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { commitStep, untilItEnds } from "./task-run.ts";

/**
 * Moves what was posted to this task's session into its transcript, in the commit that marks the rows taken. Answers
 * and cancels are heard at every step; hints and input only before a reasoning, which is when they can be read. A
 * cancel is taken by the task's end, so that whoever takes the task over before that hears of it too.
 */
export async function takeInbox(task: TaskRun, before: "step" | "reasoning"): Promise<void> {
  const { store } = task.conversation;
  const posts = await store.posts({ sessionId: task.record.sessionId });
  if (posts.length === 0) return;
  const due = posts.filter((post) =>
    isControl(post) ? isMine(task, post) && !task.claims.has(post.id) : before === "reasoning",
  );
  if (due.length === 0) return;
  const read = await Promise.all(
    due.map((post) => (isControl(post) ? post.message : delivered(task, post))),
  );
  const messages = due.flatMap((post, index) => arrive(task, post, read[index]));
  const taken = due.filter(({ id }) => !task.claims.has(id));
  await commitStep(task, { messages, taken: taken.map(({ id }) => id) });
}

/** Whether a row is for this task, or for one of its session that has ended; one that waits its turn takes its own. */
function isMine(task: TaskRun, post: Post): boolean {
  return isForAnotherTree(task, post) || isFor(post, task.record);
}

function isForAnotherTree({ ref }: TaskRun, { rootTaskId }: Post): boolean {
  return rootTaskId !== undefined && rootTaskId !== ref.rootTaskId;
}

function arrive(task: TaskRun, post: Post, message: Message | undefined): Message[] {
  if (isControl(post) && isForAnotherTree(task, post)) return [];
  if (post.kind === "cancel") {
    const reason = cancelReason(post);
    task.claims.set(post.id, untilItEnds);
    task.emitter.emit({ type: "task.cancelling", reason: reason.message });
    task.controller.abort(reason);
    abortTree(task.conversation, task.ref.taskId, reason);
    return [];
  }
  if (message === undefined || comesTooLate(task, message)) return [];
  for (const block of message.content) {
    if (block.type === "answer") {
      if (block.callId === stopCallId) continue; // nobody was asked
      task.emitter.emit({
        type: "task.approval.resolved",
        approval_id: block.approvalId,
        decision: block.decision,
        ...(block.by !== undefined && { by: block.by }),
        ...(block.reason !== undefined && { reason: block.reason }),
      });
    }
  }
  const [first] = message.content;
  if (first?.type === "hint" || first?.type === "text") {
    const said = message.content.flatMap((block) =>
      block.type === "hint" || block.type === "text" ? [block.text] : [],
    );
    const taskId = first.type === "hint" ? first.metadata?.taskId : undefined;
    const value = { text: said.join("\n"), ...(taskId !== undefined && { taskId }) };
    task.emitter.emit({ type: "task.custom", name: "rivulet.hint", value });
  }
  return [message];
}

/** Whether a message answers a call that has its result: it was settled when somebody cancelled. */
function comesTooLate({ messages }: TaskRun, { content }: Message): boolean {
  const [answer] = content;
  if (answer?.type !== "answer") return false;
  return messages.some((message) =>
    message.content.some((block) => block.type === "tool_result" && block.id === answer.callId),
  );
}

/** Whether a row is about a task, and not about what its model is to read. */
export function isControl({ kind }: Post): boolean {
  return kind === "answer" || kind === "cancel";
}
