import { flag, readArgument, readOptions, text } from "../base/options.ts";
import type { ApprovalState, Decision, Task } from "../protocol/index.ts";
import type { Answer, Approval } from "./agent.ts";
import { parseJson } from "./item-content.ts";
import { asBlocks, type SuspensionBlock, type ToolUseBlock } from "./message.ts";
import type { TaskRecord } from "./store.ts";

/** An approval with the functions that create its answers. */
export function approvalOf(
  record: Pick<TaskRecord, "taskId" | "rootTaskId" | "path" | "depth">,
  call: Pick<ToolUseBlock, "id" | "name" | "input">,
  suspension: SuspensionBlock,
): Approval {
  const { taskId, rootTaskId, path, depth } = record;
  const { approvalId, reason, expiresAt, edited = call, input = edited.input } = suspension;
  const { responseSchema } = suspension;
  const answer = (decision: Decision, more: Partial<Answer> = {}): Answer => ({
    type: "answer",
    approvalId,
    taskId,
    rootTaskId,
    decision,
    ...more,
  });
  return {
    id: approvalId,
    kind: kindOf(suspension.kind),
    taskId,
    rootTaskId,
    ...(depth > 0 && { path }),
    call: { id: call.id, name: edited.name, input },
    ...(reason !== undefined && { message: reason }),
    ...(responseSchema && { responseSchema }),
    ...(expiresAt !== undefined && { expiresAt }),
    approve(options = {}) {
      const { always } = readOptions("approve()", options, { always: flag });
      return answer("approve", always ? { always } : {});
    },
    deny(why) {
      readArgument("reason", why, text);
      return answer("deny", why === undefined ? {} : { reason: why });
    },
    edit: (input) => answer("edit", { input }),
    answer: (output) => answer("answer", { output: asBlocks(output) }),
  };
}

/** An approval of a task in the tree. */
export function approvalIn(task: Task, state: ApprovalState, rootTaskId: string): Approval {
  const { approval_id, kind, call_id: callId = "", name = "", message, expires_at } = state;
  const { response_schema: responseSchema } = state;
  const { path = "", depth = 0 } = task.source ?? {};
  return approvalOf(
    { taskId: task.id, rootTaskId, path, depth },
    { id: callId, name, input: parseJson(state.arguments ?? "{}") },
    {
      type: "suspension",
      callId,
      kind: kind === "external" || kind === "question" || kind === "stop" ? kind : "approval",
      approvalId: approval_id,
      ...(message !== undefined && { reason: message }),
      ...(responseSchema && { responseSchema }),
      ...(expires_at !== undefined && { expiresAt: expires_at }),
    },
  );
}

/** The kind of a suspension in the API and on the wire. */
export function kindOf(kind: SuspensionBlock["kind"]): Approval["kind"] {
  return kind === "approval" ? "tool_call" : kind;
}
