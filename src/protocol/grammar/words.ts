/** The name of the protocol on the wire; changes within `/1` are additive. */
export const protocolVersion = "rivulet.task-stream/1";

/**
 * The lists of words, by name. A reader accepts other words, because a newer version may add some, so that only the
 * linter and the schemas need the lists.
 */
export const words = {
  task: ["queued", "in_progress", "suspended", "completed", "failed", "cancelled", "incomplete"],
  status: ["in_progress", "completed", "failed", "cancelled", "incomplete"],
  end: ["completed", "failed", "cancelled", "incomplete"],
  mode: ["sync", "background"],
  approval: ["tool_call", "question", "external", "form", "auth", "stop"],
  decision: ["approve", "deny", "edit", "answer", "expire", "cancel"],
  discarded: ["provider_retry", "fallback", "recovered", "edited", "tool_retry"],
  suspended: ["approval", "external", "stop_requested", "child"],
  incomplete_details: [
    "max_iterations",
    "max_output_tokens",
    "content_filter",
    "timeout",
    "budget",
    "no_progress",
  ],
  generate_reason: [
    "model_stop",
    "failed",
    "tool_suspended",
    "approval_required",
    "reasoning_stop_requested",
    "acting_stop_requested",
    "interrupted",
    "max_iterations",
    "structured_output",
    "budget",
    "no_progress",
    "max_output_tokens",
    "content_filter",
  ],
  closeReason: ["terminal", "idle", "slow_consumer", "max_duration", "server_shutdown"],
} as const;
