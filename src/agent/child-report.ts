import type { Block } from "../protocol/message.ts";
import type { TaskStatus } from "../protocol/task.ts";
import type { ChildOutcome } from "./tool/context.ts";

/** How a child stands, as a model reads it. */
const words: Readonly<Record<TaskStatus, string>> = {
  queued: "accepted",
  in_progress: "accepted",
  suspended: "suspended",
  completed: "ok",
  failed: "error",
  cancelled: "cancelled",
  incomplete: "incomplete",
};

/** A child's outcome for its parent's model: who it is and how it stands, what it said. */
export interface ChildReport {
  readonly header: string;
  readonly said: readonly Block[];
}

/** What the parent's model reads of a child: its true status, and its last message or what went wrong. */
export function childReport(outcome: ChildOutcome, status = words[outcome.status]): ChildReport {
  const { agentKey, agentId, sessionId, label, taskId, error, reply } = outcome;
  const lines = [
    `agent_key: ${agentKey}`,
    `agent_id: ${agentId}`,
    `session_id: ${sessionId}`,
    `status: ${status}`,
    ...(label === undefined ? [] : [`label: ${label}`]),
  ];
  if (isOpen(outcome.status))
    return { header: [...lines, `task_id: ${taskId}`].join("\n"), said: [] };
  // Its thoughts and its calls are its own.
  const said = (reply?.content ?? []).filter(
    (block) => (block.type === "text" && block.text !== "") || "source" in block,
  );
  if (error) lines.push(`error: ${error.message}`);
  if (said.length > 0) lines.push("reply:", "");
  return { header: lines.join("\n"), said };
}

function isOpen(status: TaskStatus): boolean {
  return status === "queued" || status === "in_progress" || status === "suspended";
}
