import type { AnswerBlock, Message } from "../protocol/message.ts";
import type { Post } from "../protocol/store.ts";
import { delivered } from "./delivery.ts";
import { abortTree, cancelReason, isFor } from "./drive.ts";
import { answerProblem, steeringProblem } from "./input.ts";
import { stopCallId } from "./next.ts";
import type { StepWrite, TaskRun } from "./task-run.ts";
import { commitStep, untilItEnds } from "./task-run.ts";

/**
 * Moves what was posted to this task's session into its transcript, in the commit that marks the rows taken. Answers
 * and cancels are heard at every step; hints and input only before a reasoning, which is when they can be read. A
 * cancel is taken by the task's end, so that whoever takes the task over before that hears of it too.
 */
export async function takeInbox(task: TaskRun, before: "step" | "reasoning"): Promise<void> {
  const posts = await task.conversation.store.posts({ sessionId: task.record.sessionId });
  if (posts.length === 0) return;
  const due = await readRows(
    task,
    posts.filter((post) =>
      isControl(post) ? isMine(task, post) && !task.claims.has(post.id) : before === "reasoning",
    ),
  );
  if (due.length > 0) await commitStep(task, arrived(task, due));
}

/** A row that is to be moved, and what is to be read of it. */
export interface DueRow {
  readonly post: Post;
  readonly message?: Message | undefined;
  /** Why it cannot be read. */
  readonly problem?: string;
}

/**
 * What was said to the session while no task of it could read it. It was said before what the next task is asked, so
 * it goes before that.
 */
export async function lateWords(task: TaskRun): Promise<readonly DueRow[]> {
  const posts = await task.conversation.store.posts({ sessionId: task.record.sessionId });
  return readRows(
    task,
    posts.filter((post) => !isControl(post)),
  );
}

function readRows(task: TaskRun, posts: readonly Post[]): Promise<readonly DueRow[]> {
  return Promise.all(
    posts.map(async (post) => {
      const problem = postProblem(post);
      if (problem !== undefined) return { post, problem };
      return { post, message: isControl(post) ? post.message : await delivered(task, post) };
    }),
  );
}

/** Tells of rows, and gives what is to be written of them. */
export function arrived(task: TaskRun, due: readonly DueRow[]): StepWrite {
  const messages = due.flatMap(({ post, message, problem }) => {
    if (problem === undefined) return arrive(task, post, message);
    // Anybody may post: what cannot be read is put away, or the session would stumble over it for ever.
    const value = { post: post.id, kind: post.kind, problem };
    task.emitter.emit({ type: "task.custom", name: "rivulet.ignored", value });
    return [];
  });
  const taken = due.flatMap(({ post }) => (task.claims.has(post.id) ? [] : [post.id]));
  return { messages, taken };
}

function postProblem({ kind, message }: Post): string | undefined {
  // A cancel may say why, and an empty row says nothing.
  if (kind === "cancel" || message === undefined) return undefined;
  if (kind !== "answer") return steeringProblem(message);
  const content: readonly unknown[] = Array.isArray(message?.content) ? message.content : [];
  const [block, ...more] = content as readonly (Partial<AnswerBlock> | null)[];
  if (block?.type !== "answer" || more.length > 0)
    return "message holds something else than an answer.";
  if (typeof block.callId !== "string") return "message.content[0].callId is no string.";
  return answerProblem(block, "message.content[0]");
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
