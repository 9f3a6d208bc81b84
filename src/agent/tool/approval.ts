import type { Answer, Approval } from "../../protocol/agent.ts";
import type { Decision, Message, SuspensionBlock, ToolUseBlock } from "../../protocol/message.ts";
import { asBlocks } from "../../protocol/message.ts";
import type { TaskRecord } from "../../protocol/store.ts";

/** One approval: data, and functions that make the answers to it. */
export function approvalOf(
  record: Pick<TaskRecord, "taskId" | "rootTaskId" | "path" | "depth">,
  call: Pick<ToolUseBlock, "id" | "name" | "input">,
  suspension: SuspensionBlock,
): Approval {
  const { taskId, rootTaskId, path, depth } = record;
  const { approvalId, reason, expiresAt, edited = call, input = edited.input } = suspension;
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
    ...(expiresAt !== undefined && { expiresAt }),
    approve: (options = {}) => answer("approve", options.always ? { always: true } : {}),
    deny: (why) => answer("deny", why === undefined ? {} : { reason: why }),
    edit: (input) => answer("edit", { input }),
    answer: (output) => answer("answer", { output: asBlocks(output) }),
  };
}

/** How the wire and the API name what a call waits for. */
export function kindOf(kind: SuspensionBlock["kind"]): Approval["kind"] {
  return kind === "approval" || kind === "stop" ? "tool_call" : kind;
}

/** Whether somebody has said "always" to this tool in this session. */
export function isAlwaysAllowed(messages: readonly Message[], toolName: string): boolean {
  const called = new Map<string, string>();
  const asked = new Map<string, string | undefined>();
  for (const block of messages.flatMap((message) => message.content)) {
    if (block.type === "tool_use") called.set(block.id, block.name);
    else if (block.type === "suspension") {
      asked.set(block.approvalId, block.edited?.name ?? called.get(block.callId));
    } else if (block.type === "answer" && block.always && block.decision === "approve") {
      if (asked.get(block.approvalId) === toolName) return true;
    }
  }
  return false;
}
