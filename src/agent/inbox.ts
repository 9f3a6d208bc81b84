import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { Post } from "../protocol/store.ts";
import { stopCallId } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { commitStep } from "./task-run.ts";

/**
 * Moves what was posted to this task's session into its transcript, in the commit that marks the rows taken. Answers
 * and cancels are taken at every step; hints and input only before a reasoning, which is when they can be read.
 */
export async function takeInbox(task: TaskRun, before: "step" | "reasoning"): Promise<void> {
  const { store } = task.conversation;
  const posts = await store.posts({ sessionId: task.record.sessionId });
  if (posts.length === 0) return;
  const due = posts.filter((post) => before === "reasoning" || isControl(post));
  const messages = due.flatMap((post) => arrive(task, post));
  if (due.length > 0) await commitStep(task, { messages, taken: due.map((post) => post.id) });
}

function arrive(task: TaskRun, post: Post): Message[] {
  const isForAnother = post.rootTaskId !== undefined && post.rootTaskId !== task.ref.rootTaskId;
  if (isForAnother && isControl(post)) return []; // for a task of this session that has ended
  if (post.kind === "cancel") {
    const reason = textOf(post.message?.content ?? []) || "cancelled";
    task.emitter.emit({ type: "task.cancelling", reason });
    task.controller.abort(new Error(reason));
    return [];
  }
  if (post.message === undefined) return [];
  for (const block of post.message.content) {
    if (block.type === "answer") {
      if (block.callId === stopCallId) continue; // nobody was asked
      task.emitter.emit({
        type: "task.approval.resolved",
        approval_id: block.approvalId,
        decision: block.decision,
        ...(block.by !== undefined && { by: block.by }),
        ...(block.reason !== undefined && { reason: block.reason }),
      });
    } else if (block.type === "hint" || block.type === "text") {
      const value = { text: block.text, ...(block.type === "hint" && block.metadata) };
      task.emitter.emit({ type: "task.custom", name: "rivulet.hint", value });
    }
  }
  return [post.message];
}

/** Whether a row is about a task, and not about what its model is to read. */
export function isControl({ kind }: Post): boolean {
  return kind === "answer" || kind === "cancel";
}
