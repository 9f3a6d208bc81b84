import { stateOf, streamedText } from "../../contract/index.ts";
import {
  type ApprovalRequested,
  type ApprovalState,
  type Item,
  type ItemChange,
  isTerminal,
  type LogEvent,
  type TaskEvent,
  type TaskStatus,
} from "../../protocol/index.ts";

/** How much of a run a client gets: `status` has no text, `full` and `verbose` have it. */
export type Detail = "status" | "full" | "verbose";

/** A call that waits for a confirmation, in the words of AgentScope. */
export interface PendingConfirm {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly toolInputJson: string;
  readonly toolTitle?: string;
}

/** An event of the AgentScope task protocol. */
export interface RemoteAgentEvent {
  readonly seq: number;
  readonly type: EventType;
  readonly taskId: string;
  readonly agentId: string;
  /** An ISO instant. */
  readonly timestamp: string;
  readonly text?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly toolInput?: string;
  readonly pendingConfirms?: readonly PendingConfirm[];
  readonly status?: string;
  readonly error?: string;
}

type EventType =
  | "RUN_STARTED"
  | "RUN_FINISHED"
  | "RUN_ERROR"
  | "TEXT_DELTA"
  | "THINKING_DELTA"
  | "TOOL_CALL_START"
  | "TOOL_CALL_END"
  | "TOOL_RESULT"
  | "REQUIRE_CONFIRM"
  | "STATUS";
type Body = Pick<RemoteAgentEvent, "type"> & Partial<RemoteAgentEvent>;

/** The status words of the protocol; it has none for a task that ended without finishing. */
const statusWords: Readonly<Record<TaskStatus, string>> = {
  queued: "pending",
  in_progress: "running",
  suspended: "awaiting_confirm",
  completed: "success",
  failed: "error",
  cancelled: "cancelled",
  incomplete: "error",
};

/** The status of a task in the words of AgentScope. */
export function statusWord(status: TaskStatus | "unknown"): string {
  return status === "unknown" ? "pending" : statusWords[status];
}

/** An approval as a call that waits; one that concerns no call is named by its own id. */
export function pendingConfirm(
  approval: Pick<
    ApprovalState,
    "approval_id" | "call_id" | "name" | "arguments" | "message" | "kind"
  >,
): PendingConfirm {
  const { approval_id, call_id, name, kind, message } = approval;
  return {
    toolCallId: call_id || approval_id,
    toolName: name || kind,
    toolInputJson: approval.arguments ?? "{}",
    ...(message !== undefined && { toolTitle: message }),
  };
}

/** Why a task has not succeeded, as one text. */
export function problemOf(task: {
  readonly error?: { readonly message: string };
  readonly incompleteReason?: string;
}): string | undefined {
  const { error, incompleteReason } = task;
  return error?.message ?? (incompleteReason && `The task is incomplete: ${incompleteReason}.`);
}

/** The number of an event; an event of ours becomes at most two of theirs, and theirs begin with 1. */
function seqOf(sequenceNumber: number, index: number): number {
  return 2 * sequenceNumber + 1 + index;
}

/** Translates the log of a root task, which must be read from its beginning, to events of AgentScope. */
export class AgentScopeEvents {
  readonly #taskId: string;
  readonly #agentId: string;
  readonly #hasText: boolean;
  /** The types of the task's items, by index. */
  readonly #types = new Map<number, Item["type"]>();
  /** The blocks of which a delta was sent. */
  readonly #streamed = new Set<string>();
  readonly #callNames = new Map<string, string>();
  readonly #approvals = new Map<string, ApprovalRequested | ApprovalState>();

  constructor(taskId: string, agentId: string, detail: Detail) {
    this.#taskId = taskId;
    this.#agentId = agentId;
    this.#hasText = detail !== "status";
  }

  /** The events for one event of the log. */
  translate(event: TaskEvent): readonly RemoteAgentEvent[] {
    if (event.type === "error") return [];
    const isOwn = event.task_id === this.#taskId;
    if (event.type === "task.snapshot") {
      for (const approval of event.task.approvals ?? [])
        if (approval.decision === undefined) this.#approvals.set(approval.approval_id, approval);
      if (!isOwn) return [];
      for (const [index, { type }] of (event.task.output ?? []).entries())
        this.#types.set(index, type);
      // The events before were trimmed: their text is in the result.
      const { status, error, incomplete_details } = event.task;
      const body = isTerminal(status)
        ? this.#ended(status, { error, incomplete_details })
        : [{ type: "STATUS" as const, status: statusWord(status) }];
      return this.#stamp(event.through_sequence_number, event.created_at, body);
    }
    if (event.type === "task.approval.requested") this.#approvals.set(event.approval_id, event);
    if (event.type === "task.approval.resolved") this.#approvals.delete(event.approval_id);
    const bodies = isOwn ? this.#bodiesOf(event) : [];
    return this.#stamp(event.sequence_number, event.created_at, bodies);
  }

  #stamp(number: number, createdAt: number, bodies: readonly Body[]): readonly RemoteAgentEvent[] {
    return bodies.map((body, index) => ({
      ...body,
      seq: seqOf(number, index),
      taskId: this.#taskId,
      agentId: this.#agentId,
      timestamp: new Date(createdAt).toISOString(),
    }));
  }

  #bodiesOf(event: LogEvent): readonly Body[] {
    switch (event.type) {
      case "task.in_progress":
        return [{ type: "RUN_STARTED" }];
      case "task.resumed":
        return [{ type: "STATUS", status: "running" }];
      case "task.suspended":
        return [this.#confirm()];
      case "task.output_item.added":
        this.#types.set(event.output_index, event.item.type);
        return this.#added(event.item);
      case "task.output_item.done":
        return this.#done(event.item);
      case "task.text.delta":
        return this.#delta(event, `${event.block_index}`, event.delta);
      case "task.text.done":
        return this.#whole(event, `${event.block_index}`, event.item.text);
      case "task.reasoning_summary_text.delta":
        return this.#delta(event, `s${event.summary_index}`, event.delta);
      case "task.reasoning_summary_item.done":
        return this.#whole(event, `s${event.summary_index}`, event.item.text);
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        return this.#ended(event.task.status, event.task);
      default:
        return [];
    }
  }

  #confirm(): Body {
    const pendingConfirms = [...this.#approvals.values()].map(pendingConfirm);
    return { type: "REQUIRE_CONFIRM", status: "awaiting_confirm", pendingConfirms };
  }

  #added(item: Item): readonly Body[] {
    if (item.type !== "tool_call") return [];
    this.#callNames.set(item.call_id, item.name);
    return [{ type: "TOOL_CALL_START", toolCallId: item.call_id, toolName: item.name }];
  }

  #done(item: ItemChange): readonly Body[] {
    if (item.type === "tool_call") {
      const { call_id: toolCallId, name = this.#callNames.get(toolCallId) ?? "" } = item;
      const toolInput = item.arguments;
      const input = toolInput === undefined ? {} : { toolInput };
      return [{ type: "TOOL_CALL_END", toolCallId, toolName: name, ...input }];
    }
    if (item.type !== "tool_result") return [];
    const toolCallId = item.call_id;
    const whole = { block_list: [], ...item };
    const text = streamedText(whole);
    return [
      {
        type: "TOOL_RESULT",
        toolCallId,
        toolName: this.#callNames.get(toolCallId) ?? "",
        status: stateOf(whole).toUpperCase(),
        ...(this.#hasText && text !== "" && { text }),
      },
    ];
  }

  #delta(event: LogEvent & { output_index: number }, place: string, text: string): readonly Body[] {
    this.#streamed.add(`${event.output_index} ${place}`);
    return this.#text(event.output_index, text);
  }

  /** A block that came in one piece. */
  #whole(event: LogEvent & { output_index: number }, place: string, text: string): readonly Body[] {
    if (this.#streamed.delete(`${event.output_index} ${place}`) || text === "") return [];
    return this.#text(event.output_index, text);
  }

  #text(index: number, text: string): readonly Body[] {
    const type = this.#types.get(index);
    if (!this.#hasText || (type !== "message" && type !== "reasoning")) return [];
    return [{ type: type === "message" ? "TEXT_DELTA" : "THINKING_DELTA", text }];
  }

  #ended(
    status: TaskStatus,
    task: {
      readonly error?: { readonly message: string } | undefined;
      readonly incomplete_details?: { readonly reason: string } | undefined;
    },
  ): readonly Body[] {
    const word = statusWord(status);
    if (status === "completed") return [{ type: "RUN_FINISHED" }, { type: "STATUS", status: word }];
    if (status === "cancelled") return [{ type: "STATUS", status: word }];
    const { error, incomplete_details } = task;
    const problem = problemOf({
      ...(error && { error }),
      ...(incomplete_details && { incompleteReason: incomplete_details.reason }),
    });
    return [{ type: "RUN_ERROR", status: word, error: problem ?? "The task failed." }];
  }
}
