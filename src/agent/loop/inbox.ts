import {
  type AnswerBlock,
  answerProblem,
  type Message,
  type Post,
  type TaskRecord,
} from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import { stopDenied } from "../base/prompts.ts";
import { delivered } from "./child-outcome.ts";
import { steeringProblem } from "./input.ts";
import { stopCallId } from "./next.ts";
import { commitStep, type StepWrite, type TaskRun, untilItEnds } from "./task-run.ts";
import { messagesOf } from "./transcript.ts";

/** The most characters of a hint that its event shows; the model reads all of it. */
const maxHintCharacters = 32_000;

/**
 * Moves posted rows into the transcript of their task, in the commit that marks them taken. Answers and cancels are read
 * at every step; hints and input only before a reasoning. A cancel is taken by the commit that ends the task, so that a
 * process that takes the task over before then still sees it. Returns the rows that are left; pass them as `read` to take
 * more of them in the same step.
 */
export async function takeInbox(
  task: TaskRun,
  before: "step" | "reasoning",
  read?: readonly Post[],
): Promise<readonly Post[]> {
  const { sessionId } = task.state.record;
  const posts = read ?? (await task.conversation.store.posts({ sessionId }));
  if (posts.length === 0) return posts;
  const control = posts.filter(
    (post) =>
      isControl(post) &&
      !post.ifQueued &&
      isFor(post, task.state.record) &&
      !task.control.claims.has(post.id),
  );
  const words = before === "reasoning" ? await addressedTo(task, posts) : [];
  const wanted = new Set([...control, ...words]);
  const due = await readRows(
    task,
    posts.filter((post) => wanted.has(post)),
  );
  if (due.length === 0) return posts;
  await commitStep(task, arrived(task, due));
  return posts.filter((post) => !wanted.has(post));
}

/** A row to move, and the message that it becomes. */
export interface DueRow {
  readonly post: Post;
  readonly message?: Message | undefined;
  /** Why the row cannot be read. */
  readonly problem?: string;
}

/** The hints and input posted before this task began: they precede its own input. */
export async function lateRows(task: TaskRun): Promise<readonly DueRow[]> {
  const posts = await task.conversation.store.posts({ sessionId: task.state.record.sessionId });
  return posts.length === 0 ? [] : readRows(task, await addressedTo(task, posts));
}

/** Hints and input for this task, for no task in particular, or for a task of its session that has ended. */
async function addressedTo(task: TaskRun, posts: readonly Post[]): Promise<readonly Post[]> {
  const { store } = task.conversation;
  const isMine = await Promise.all(
    posts.map(async (post) => {
      if (isControl(post)) return false;
      if (post.taskId === undefined || post.taskId === task.identity.ref.taskId) return true;
      const target = await store.task(post.taskId);
      return target === undefined || isTerminal(target.status);
    }),
  );
  return posts.filter((_, index) => isMine[index]);
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

/** Emits the events of rows and returns the messages to write. */
export function arrived(task: TaskRun, due: readonly DueRow[]): StepWrite {
  const messages = due.flatMap(({ post, message, problem }) => {
    if (problem === undefined) return arrive(task, post, message);
    // Any process may post, so a malformed row is dropped instead of failing the session on every read.
    const value = { post: post.id, kind: post.kind, problem };
    task.output.emitter.append({ type: "task.custom", name: "rivulet.ignored", value });
    return [];
  });
  const taken = due.flatMap(({ post }) => (task.control.claims.has(post.id) ? [] : [post.id]));
  return { messages, taken };
}

function postProblem({ kind, message }: Post): string | undefined {
  // A cancel may have a reason; an empty row has no effect.
  if (kind === "cancel" || message === undefined) return undefined;
  if (kind !== "answer") return steeringProblem(message);
  const content: readonly unknown[] = Array.isArray(message?.content) ? message.content : [];
  const [block, ...more] = content as readonly (Partial<AnswerBlock> | null)[];
  if (block?.type !== "answer" || more.length > 0)
    return "message holds something else than an answer.";
  if (typeof block.callId !== "string") return "message.content[0].callId is no string.";
  return answerProblem(block, "message.content[0]");
}

function arrive(task: TaskRun, post: Post, message: Message | undefined): Message[] {
  if (post.kind === "cancel") {
    const reason = cancelReason(post);
    task.control.claims.set(post.id, untilItEnds);
    task.output.emitter.append({ type: "task.cancelling", reason: reason.message });
    task.control.controller.abort(reason);
    task.conversation.abortTree(task.identity.ref.taskId, reason);
    return [];
  }
  if (message === undefined || comesTooLate(task, message)) return [];
  for (const block of message.content) {
    if (block.type === "answer") {
      task.output.emitter.append({
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
    const text = said.join("\n").slice(0, maxHintCharacters).toWellFormed();
    const hint = {
      id: post.id.slice(0, 128),
      text,
      ...(taskId !== undefined && { from_task_id: taskId }),
    };
    task.output.emitter.append({ type: "task.hint.added", hint });
  }
  return [message, ...denialOf(task, message)];
}

/** Tells the model that a person denied to go on after a stop; a denied call has a result that says so. */
function denialOf({ settings }: TaskRun, { content, metadata }: Message): readonly Message[] {
  const [answer] = content;
  if (answer?.type !== "answer" || answer.callId !== stopCallId) return [];
  if (answer.decision === "approve") return [];
  const text = stopDenied(
    answer.decision === "expire" ? undefined : (answer.reason ?? "They gave no reason."),
  );
  const hint = { type: "hint", text } as const;
  return [
    { id: settings.ids.next("msg"), role: "user", content: [hint], metadata: { ...metadata } },
  ];
}

/** Whether a message answers a call that already has its result, because a cancel settled it. */
function comesTooLate(task: TaskRun, { content }: Message): boolean {
  const [answer] = content;
  if (answer?.type !== "answer") return false;
  return messagesOf(task).some((message) =>
    message.content.some((block) => block.type === "tool_result" && block.id === answer.callId),
  );
}

/** Whether a row controls a task, in contrast to text for its model. */
export function isControl({ kind }: Post): boolean {
  return kind === "answer" || kind === "cancel";
}

/** Whether an answer or a cancel is for this task. */
export function isFor(
  post: Post,
  record: Pick<TaskRecord, "taskId" | "sessionId" | "rootTaskId">,
): boolean {
  const taskId = post.taskId ?? post.message?.metadata?.taskId;
  if (taskId !== undefined) return taskId === record.taskId;
  if (post.sessionId !== record.sessionId) return false;
  return post.rootTaskId === undefined || post.rootTaskId === record.rootTaskId;
}

/** The reason that a cancel gives. Any process may post a row, so its message may be malformed. */
export function cancelReason({ message }: Post): Error {
  const block = message?.content?.[0];
  return new Error(block?.type === "text" && block.text ? String(block.text) : "cancelled");
}

/** The reason of a cancel, as it is stored and shown. */
export function reasonText(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason ?? "cancelled");
}
