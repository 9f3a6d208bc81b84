import type { Answer, Approval } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { IdSource } from "../protocol/id.ts";
import type { AnswerBlock, Message } from "../protocol/message.ts";
import type { Store } from "../protocol/store.ts";
import { duplicate, type ReadInput } from "./input.ts";
import type { WaitingTask } from "./waiting.ts";

/** How answers are matched. */
export interface MatchOptions {
  /** The tasks that the session's own task waits for: nothing may be said to it while they ask. */
  readonly holding: ReadonlySet<string>;
  readonly onSuspended: "fail" | "deny";
  readonly now: number;
}

/** The answers that this call gives; what cannot be given is an error before anything has changed. */
export function matchAnswers(
  { messages, answers, results }: ReadInput,
  waiting: readonly WaitingTask[],
  { holding, onSuspended, now }: MatchOptions,
): readonly Answer[] {
  const approvals = waiting.flatMap((task) => task.approvals);
  const byId = new Map(approvals.map((approval) => [approval.id, approval]));
  const byCall = new Map(approvals.map((approval) => [approval.call.id, approval]));
  const unknown = [
    ...answers.filter(({ approvalId }) => !byId.has(approvalId)).map((one) => one.approvalId),
    ...[...results.keys()].filter((callId) => !byCall.has(callId)),
  ];
  if (unknown.length > 0) throw unknownApproval(unknown);
  const sent = [
    ...answers,
    ...[...results].map(([callId, { output, state }]) => ({
      ...(byCall.get(callId) as Approval).answer(output),
      ...(state !== "success" && { state }),
    })),
  ];
  // What has expired is denied, whatever is said about it now.
  const expired = approvals.filter(({ expiresAt = Infinity }) => expiresAt <= now);
  const isExpired = new Set(expired.map(({ id }) => id));
  const given = [
    ...sent.filter(({ approvalId }) => !isExpired.has(approvalId)),
    ...expired.map((one): Answer => ({ ...one.deny(), decision: "expire" })),
  ];
  const said = new Set(given.map(({ approvalId }) => approvalId));
  if (said.size < given.length) throw duplicate("A call has an answer and a result.");
  if (messages.length === 0) return given;
  const open = approvals.filter(({ id, taskId }) => holding.has(taskId) && !said.has(id));
  if (open.length === 0) return given;
  if (onSuspended === "deny") {
    return [...given, ...open.map((one) => one.deny("The user went on with something else."))];
  }
  throw new RivuletError(
    "session_suspended",
    `The session waits for ${open.map(({ id, call }) => `${call.name} (${id})`).join(", ")}.`,
    { hint: 'Answer these first, or call with onSuspended: "deny" to deny them and go on.' },
  );
}

/** Answers reach a transcript through its inbox only, so that whoever drives a task is the only one who writes it. */
export async function postAnswers(
  store: Store,
  ids: IdSource,
  answers: readonly Answer[],
  waiting: readonly WaitingTask[],
): Promise<void> {
  const post = async ({ record }: WaitingTask, block: AnswerBlock) => {
    const { taskId, sessionId, rootTaskId } = record;
    const message: Message = {
      id: ids.next("msg"),
      role: "user",
      content: [block],
      metadata: { taskId },
    };
    const id = `answer:${block.approvalId}`;
    await store.post({ id, kind: "answer", sessionId, rootTaskId, message });
  };
  for (const answer of answers) {
    const { decision, input, output, state, reason, always, approvalId } = answer;
    const task = waiting.find(({ approvals }) => approvals.some(({ id }) => id === approvalId));
    const approval = task?.approvals.find(({ id }) => id === approvalId);
    if (task === undefined || approval === undefined) continue;
    await post(task, {
      type: "answer",
      approvalId,
      callId: approval.call.id,
      decision,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      ...(state !== undefined && { state }),
      ...(reason !== undefined && { reason }),
      ...(always !== undefined && { always }),
    });
  }
  // A stop, at any depth, was for the caller to look: that it calls again is the answer.
  for (const task of waiting) {
    if (task.stop === undefined) continue;
    const { approvalId, callId } = task.stop;
    await post(task, { type: "answer", approvalId, callId, decision: "approve" });
  }
}

function unknownApproval(ids: readonly string[]): RivuletError {
  return new RivuletError("unknown_approval", `Nothing waits for ${ids.join(", ")}.`, {
    hint: "agent.approvals({ sessionId }) lists what waits; answers belong to the session that asked.",
  });
}
