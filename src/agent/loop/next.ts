import type {
  AnswerBlock,
  Block,
  Message,
  SuspensionBlock,
  ToolUseBlock,
} from "../../protocol/message.ts";

/** A tool call that has no result yet. */
export interface PendingCall {
  readonly call: ToolUseBlock;
  /** Its last suspension; the call waits until there is an answer. */
  readonly suspension?: SuspensionBlock;
  readonly answer?: AnswerBlock;
}

/** The next step of an agent. */
export type Step =
  | { readonly type: "reason" }
  | OpenStep
  | { readonly type: "done"; readonly message: Message };

/** The last message has open calls, or a hook stopped the task after it. */
export interface OpenStep {
  readonly type: "act" | "wait";
  readonly message: Message;
  readonly calls: readonly PendingCall[];
  /** An open stop that concerns no call. */
  readonly stop?: SuspensionBlock;
  /** When a hook asked for the stop that is open. */
  readonly stoppedAfter?: "reasoning" | "acting";
}

/** The next step is a pure function of the transcript, so start, resume and recovery are one code path. */
export function nextStep(messages: readonly Message[], agentName: string): Step {
  const at = messages.findLastIndex(
    (message) => message.role === "assistant" && message.name === agentName,
  );
  const message = messages[at];
  if (message === undefined) return { type: "reason" };
  const suspensions = new Map<string, SuspensionBlock>();
  const answers = new Map<string, AnswerBlock>();
  const results = new Set<string>();
  let stoppedAfter: "reasoning" | "acting" | undefined;
  for (let index = at + 1; index < messages.length; index++) {
    for (const block of messages[index]?.content ?? []) {
      if (block.type === "tool_result") results.add(block.id);
      else if (block.type === "suspension") {
        suspensions.set(block.callId, block);
        if (block.kind === "stop") stoppedAfter = results.size > 0 ? "acting" : "reasoning";
      } else if (block.type === "answer") answers.set(block.approvalId, block);
    }
  }
  const pending = (callId: string) => {
    const suspension = suspensions.get(callId);
    const answer = suspension && answers.get(suspension.approvalId);
    // An approved stop asked nothing about the call itself: hooks, rules and approvals follow.
    if (suspension?.kind === "stop" && answer?.decision === "approve") return {};
    return { ...(suspension && { suspension }), ...(answer && { answer }) };
  };
  const calls = message.content.flatMap((block) =>
    block.type === "tool_use" && !results.has(block.id)
      ? [{ call: block, ...pending(block.id) }]
      : [],
  );
  const { suspension: stop, answer: stopAnswer } = pending(stopCallId);
  const isStopped = stop !== undefined && stopAnswer === undefined;
  const hasStop =
    isStopped || calls.some((call) => call.suspension?.kind === "stop" && !isRunnable(call));
  const open = {
    message,
    calls,
    ...(isStopped && { stop }),
    ...(hasStop && stoppedAfter && { stoppedAfter }),
  };
  if (isStopped) return { type: "wait", ...open };
  if (calls.length > 0) return { type: calls.some(isRunnable) ? "act" : "wait", ...open };
  const heard = messages.findLastIndex((later) => later.content.some(isSpoken));
  const asked = message.content.some((block) => block.type === "tool_use");
  // A filtered or cut reply also ends the task, even without content.
  const isSaid = message.content.some(isVisible) || message.metadata?.finish !== undefined;
  if (heard <= at && !asked && isSaid) return { type: "done", message };
  return { type: "reason" };
}

/** Whether people can see a block of a reply. */
export function isVisible(block: Block): boolean {
  return block.type === "text" ? block.text.trim() !== "" : "source" in block;
}

/** In place of the id of a call, for a stop that concerns none. */
export const stopCallId = "";

/** Whether a call can run: it was never suspended, or it has its answer. */
export function isRunnable(pending: PendingCall): boolean {
  return pending.suspension === undefined || pending.answer !== undefined;
}

/** Whether a block is content, in contrast to a control block. */
export function isSpoken(block: Block): boolean {
  return block.type !== "suspension" && block.type !== "answer" && block.type !== "compaction";
}
