import { RivuletError } from "../../base/error.ts";
import type { IdSource } from "../../base/id.ts";
import { isSame } from "../../base/plain.ts";
import type {
  Answer,
  AnswerBlock,
  Approval,
  Budget,
  Message,
  Post,
  StandardSchema,
  TaskRecord,
} from "../../contract/index.ts";
import { refOf } from "../loop/ending.ts";
import { duplicate, type ReadInput } from "../loop/input.ts";
import { stopCallId } from "../loop/next.ts";
import type { WaitingTask } from "../loop/waiting.ts";
import { toJsonSchema } from "../tool/schema.ts";

/**
 * The answers that a call gives; throws before anything is written when one of them cannot be given. `holding`: the tasks
 * that must not wait any more when text continues the session's own task.
 */
export function matchAnswers(
  { messages, answers, results }: ReadInput,
  waiting: readonly WaitingTask[],
  holding: ReadonlySet<string>,
  onSuspended: "fail" | "deny",
  now: number,
): readonly Answer[] {
  const approvals = waiting.flatMap((task) => task.approvals);
  const byId = new Map(approvals.map((approval) => [approval.id, approval]));
  const byCall = new Map(approvals.map((approval) => [approval.call.id, approval]));
  const unknown = [
    ...answers.map(({ approvalId }) => approvalId).filter((id) => !byId.has(id)),
    ...[...results.keys()].filter((callId) => !byCall.has(callId)),
  ];
  if (unknown.length > 0)
    throw new RivuletError("unknown_approval", `No approval waits for ${unknown.join(", ")}.`, {
      hint: "List the approvals of the session with agent.approvals({ sessionId }).",
    });
  const sent = [
    ...answers,
    ...[...results].map(([callId, { output, state }]) => ({
      ...(byCall.get(callId) as Approval).answer(output),
      ...(state !== "success" && { state }),
    })),
  ];
  for (const { approvalId, decision } of sent) {
    const isNoCall = byId.get(approvalId)?.call.id === stopCallId;
    if (!isNoCall || decision === "approve" || decision === "deny") continue;
    throw new RivuletError("invalid_input", `Approval ${approvalId} is a stop without a call.`, {
      hint: "Approve it or deny it with a reason. Nothing has changed.",
    });
  }
  // An expired approval is denied, whatever the answer says.
  const expired = approvals.filter(({ expiresAt = Infinity }) => expiresAt <= now);
  const isExpired = new Set(expired.map(({ id }) => id));
  const given = [
    ...sent.filter(({ approvalId }) => !isExpired.has(approvalId)),
    ...expired.map((approval): Answer => ({ ...approval.deny(), decision: "expire" })),
  ];
  const answered = new Set(given.map(({ approvalId }) => approvalId));
  if (answered.size < given.length) throw duplicate("A call has an answer and a result.");
  if (messages.length === 0) return given;
  const open = approvals.filter(({ id, taskId }) => holding.has(taskId) && !answered.has(id));
  if (open.length === 0) return given;
  if (onSuspended === "deny") return [...given, ...denyAll(open)];
  throw sessionSuspended(open);
}

/** The denials of approvals that text replaces. */
export function denyAll(approvals: readonly Approval[]): readonly Answer[] {
  return approvals.map((approval) => approval.deny("The user went on with something else."));
}

/** A call without input approves the stops of hooks. */
export function approveStops(waiting: readonly WaitingTask[]): readonly Answer[] {
  const approvals = waiting.flatMap((task) => task.approvals);
  return approvals.filter(({ kind }) => kind === "stop").map((approval) => approval.approve());
}

/** The session waits for answers and takes no text. */
export function sessionSuspended(waiting: readonly Approval[] = []): RivuletError {
  const names = waiting.map(({ id, call }) => `${call.name || "a stop"} (${id})`);
  return new RivuletError(
    "session_suspended",
    `The session waits for ${names.join(", ") || "an answer"}.`,
    { hint: 'Answer these first, or call with onSuspended: "deny" to deny them and continue.' },
  );
}

/** The inbox rows of answers. */
export function answerRows(
  ids: IdSource,
  answers: readonly Answer[],
  waiting: readonly WaitingTask[],
): readonly Post[] {
  return answers.flatMap(({ approvalId, decision, input, output, state, reason, always }) => {
    const task = waiting.find(({ approvals }) => approvals.some(({ id }) => id === approvalId));
    const approval = task?.approvals.find(({ id }) => id === approvalId);
    if (task === undefined || approval === undefined) return [];
    const { taskId } = task.record;
    const block: AnswerBlock = {
      type: "answer",
      approvalId,
      callId: approval.call.id,
      decision,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      ...(state !== undefined && { state }),
      ...(reason !== undefined && { reason }),
      ...(always !== undefined && { always }),
    };
    const content = [block];
    const message: Message = { id: ids.next("msg"), role: "user", content, metadata: { taskId } };
    return [{ id: `answer:${approvalId}`, kind: "answer", ...refOf(task.record), message }];
  });
}

/** The error for answers that came too late; thrown only if no other row was posted, because that has to be driven. */
export function refusalOf(
  rows: readonly Post[],
  stored: readonly Post[],
): RivuletError<"already_answered"> | undefined {
  const lost = rows.flatMap((row, index) => {
    const [sent] = row.message?.content ?? [];
    const [first] = stored[index]?.message?.content ?? [];
    if (sent?.type !== "answer" || first?.type !== "answer" || sent.decision === "expire")
      return [];
    const fields = ["decision", "input", "output", "state"] as const;
    if (fields.every((field) => isSame(sent[field], first[field]))) return [];
    const { approvalId, decision } = sent;
    const before = `Approval ${approvalId} was answered before with ${first.decision}`;
    return [`${before}, so ${decision} has no effect.`];
  });
  if (lost.length === 0) return undefined;
  const error = new RivuletError("already_answered", lost.join(" "), {
    hint: "Call agent.approvals({ sessionId }) for the open approvals. The rest of this call took effect.",
  });
  if (lost.length === rows.length) throw error;
  return error;
}

/** The rows with the limits that their call sets for the task. */
export function withLimits(rows: readonly Post[], budget: Budget | undefined): readonly Post[] {
  const [first] = rows;
  if (budget === undefined || first?.message === undefined) return rows;
  const metadata = { ...first.message.metadata, budget };
  return rows.with(0, { ...first, message: { ...first.message, metadata } });
}

/** A task continues only with the agent of its own name: the name finds its open calls in the transcript. */
export function checkAgent(name: string, { agentName, taskId }: TaskRecord): void {
  if (name === agentName) return;
  throw new RivuletError(
    "other_agent",
    `Task ${taskId} belongs to agent ${agentName}, not to ${name}.`,
    { hint: `Call ${agentName} to continue or cancel it, or use another session for ${name}.` },
  );
}

/** A task keeps the output schema that it was started with. */
export function checkOutput(
  output: StandardSchema | undefined,
  { taskId, outputSchema }: Pick<TaskRecord, "taskId" | "outputSchema">,
): void {
  if (output === undefined || isSame(toJsonSchema(output), outputSchema)) return;
  const asked = outputSchema === undefined ? "no structured output" : "another output schema";
  throw new RivuletError("other_output", `Task ${taskId} was started with ${asked}.`, {
    hint: "Leave `output` out to continue the task, or use another session. Nothing has changed.",
  });
}

/** Throws if a call names another model than the task that it continues has; `own` is that of the agent. */
export function checkTaskModel(
  chosen: string | undefined,
  own: string,
  { taskId, model = own }: Pick<TaskRecord, "taskId" | "model">,
): void {
  if (chosen === undefined || chosen === model) return;
  throw new RivuletError("other_model", `Task ${taskId} was started with the model ${model}.`, {
    hint: "Leave `model` out to continue the task, or use another session. Nothing has changed.",
  });
}
