import type { WaitReason } from "../protocol/agent.ts";
import type { Reply } from "../protocol/message.ts";

/** Exit codes: the outcome of a run. */
export const exitCodes = {
  completed: 0,
  failed: 1,
  usage: 2,
  incomplete: 3,
  cancelled: 130,
} as const;

/** The exit code of a reply. */
export function outcomeOf({ generateReason, approvals }: Reply, signal: AbortSignal): number {
  if (generateReason === "interrupted" || signal.aborted) return exitCodes.cancelled;
  if (approvals.length > 0 || generateReason === "approval_required") return exitCodes.incomplete;
  return generateReason === "model_stop" || generateReason === "structured_output"
    ? exitCodes.completed
    : exitCodes.incomplete;
}

/** Why a run does not begin, for people. */
export function waitText({ reason, leftMs = 0 }: WaitReason): string {
  if (reason === "busy") return "Waiting for another task of this session.";
  if (reason === "unknown_agent") return "Waiting for a process that has the agent of this task.";
  const seconds = Math.ceil(leftMs / 1_000);
  return `Waiting for a process that stopped responding; taking over in ${seconds} s.`;
}

/** A new id that a person can type. */
export function newSessionId(): string {
  return crypto.randomUUID().slice(0, 8);
}

/** The command that continues a session. */
export function resumeCommand(isDemo: boolean, sessionId: string): string {
  const id = /^[\w.-]+$/.test(sessionId) ? sessionId : JSON.stringify(sessionId);
  return isDemo ? `npm start -- --terminal --session ${id}` : `rivulet --session ${id}`;
}
