import type { ErrorShape } from "../base/error.ts";
import type { TaskEvent } from "./event.ts";
import type { SourceRef } from "./source.ts";

/** The final statuses of a task. */
export type TerminalStatus = "completed" | "failed" | "cancelled" | "incomplete";
/** The status of a task. */
export type TaskStatus = "queued" | "in_progress" | "suspended" | TerminalStatus;
/** The status of an item. */
export type ItemStatus = "in_progress" | TerminalStatus;
/** Whether the parent waits for a child. */
export type TaskMode = "sync" | "background";

/** Why a task ended without finishing. */
export type IncompleteReason =
  | "max_iterations"
  | "max_output_tokens"
  | "content_filter"
  | "timeout"
  | "budget"
  | "no_progress";

/** A decision about an approval; a timeout makes it `expire`, a cancel `cancel`. */
export type Decision = "approve" | "deny" | "edit" | "answer" | "expire" | "cancel";

/** Why a run returned its reply. */
export type GenerateReason =
  | "model_stop"
  | "tool_suspended"
  | "approval_required"
  | "reasoning_stop_requested"
  | "acting_stop_requested"
  | "interrupted"
  | "max_iterations"
  | "structured_output"
  | "budget"
  | "no_progress"
  | "max_output_tokens"
  | "content_filter"
  | "failed";

/** The tokens that a task has used so far, without its children. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  readonly cached_input_tokens?: number;
  readonly reasoning_tokens?: number;
}
/** One model's share of a usage. */
export interface ModelUsage {
  readonly provider: string;
  readonly model: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
}
/** An amount of money; a decimal string avoids rounding. */
export interface Cost {
  readonly amount: string;
  readonly currency: string;
}
/** The progress of a running tool; the field names are those of MCP. */
export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A piece of an item that people see. Blocks of unknown types are kept as they are. */
export type WireBlock =
  | WireTextBlock
  | WireImageBlock
  | WireFileBlock
  | WireTaskBlock
  | OmittedBlock;
interface BlockBase {
  readonly id?: string;
  /** The number that `[^n]` cites; one number per tool result, shared by its blocks. */
  readonly reference_id?: number;
  /** Only while the block is still being sent. */
  readonly status?: "in_progress";
}
/** Text with its citations. */
export interface WireTextBlock extends BlockBase {
  readonly type: "text";
  readonly text: string;
  readonly annotations?: readonly Annotation[];
}
/** An image; an empty url means that it has not arrived yet. */
export interface WireImageBlock extends BlockBase {
  readonly type: "image";
  readonly image_url: { readonly url: string };
  readonly mime_type?: string;
  readonly width?: number;
  readonly height?: number;
  /** The number of the last preview; absent when the image is complete. */
  readonly partial_image_index?: number;
}
/** A file or a recording, by reference. */
export interface WireFileBlock extends BlockBase {
  readonly type: "file" | "audio" | "video";
  readonly url: string;
  readonly filename?: string;
  readonly mime_type?: string;
}
/** The position of a child's output in a list of blocks. */
export interface WireTaskBlock extends BlockBase {
  readonly type: "task";
  readonly task_id: string;
}
/** A placeholder for a block that a filtered stream left out. */
export interface OmittedBlock extends BlockBase {
  readonly type: "omitted";
}

/** A citation: `text.slice(start_index, end_index)` of its block is the marker (UTF-16 code units). */
export interface Annotation {
  readonly type: "reference_to_block";
  readonly reference_id: number;
  readonly start_index: number;
  readonly end_index: number;
  readonly marker?: string;
  readonly target?: BlockAddress;
}
/** One block of one item of one task. */
export interface BlockAddress {
  readonly task_id: string;
  readonly item_id: string;
  readonly block_index: number;
}

/** An entry of a task's output. */
export type Item =
  | ReasoningItem
  | ToolCallItem
  | ToolResultItem
  | MessageItem
  | DiscardedItem
  | OmittedItem;
interface ItemBase {
  readonly id: string;
  readonly status?: ItemStatus;
  /** The sources that the provider names for this item. */
  readonly references?: readonly Reference[];
}
/** A source that a provider names: a page or a document. */
export interface Reference {
  readonly id: string;
  readonly url?: string;
  readonly title?: string;
  readonly mime_type?: string;
}
/** A note for the model that is not its input: delivered background work, or a message that steers a running task. */
export interface Hint {
  readonly id: string;
  readonly text: string;
  /** The background task that the hint is from. */
  readonly from_task_id?: string;
}
/** An item of a model's turn. */
interface TurnItem extends ItemBase {
  /** The message of the transcript that this item is a part of. */
  readonly message_id?: string;
}
/** The reasoning of the model: a summary, and the raw text on request. */
export interface ReasoningItem extends TurnItem {
  readonly type: "reasoning";
  readonly summary: readonly SummaryEntry[];
  readonly content?: readonly ReasoningText[];
  readonly encrypted_content?: string;
}
/** One paragraph of a reasoning's summary. */
export interface SummaryEntry {
  readonly type: "text";
  readonly text: string;
  readonly status?: "in_progress";
}
/** One piece of raw reasoning. */
export interface ReasoningText {
  readonly type: "reasoning_text";
  readonly text: string;
  readonly status?: "in_progress";
}
/** A tool call; `arguments` is JSON text, which may not parse before it is complete. */
export interface ToolCallItem extends TurnItem {
  readonly type: "tool_call";
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
  readonly provider_call_id?: string;
  /** Set between the end of the arguments and the end of the item. */
  readonly arguments_status?: "completed";
}
/** The result of a tool call; `child_task_id` links a child to it. */
export interface ToolResultItem extends ItemBase {
  readonly type: "tool_result";
  readonly call_id: string;
  readonly block_list: readonly WireBlock[];
  /** The content for the model; only for trusted readers, on request. */
  readonly content?: readonly WireBlock[];
  readonly child_task_id?: string;
  readonly error?: ErrorShape;
  /** Set while the tool runs. */
  readonly progress?: Progress;
}
/** A message of the agent. */
export interface MessageItem extends TurnItem {
  readonly type: "message";
  readonly role: "assistant";
  readonly block_list: readonly WireBlock[];
  readonly content?: readonly WireBlock[];
  readonly purpose?: "summary";
}
/** A placeholder for a discarded item. */
export interface DiscardedItem extends ItemBase {
  readonly type: "discarded";
  readonly reason: DiscardReason;
}
/** A placeholder for an item that a filtered stream left out. */
export interface OmittedItem extends ItemBase {
  readonly type: "omitted";
}
/** Why an item was discarded; `edited`: a hook replaced it; `tool_retry`: its tool runs again. */
export type DiscardReason = "provider_retry" | "fallback" | "recovered" | "edited" | "tool_retry";

/** The item of `task.output_item.done`: its identity, its status, and the fields that replace assembled values. */
export type ItemChange = ItemChangeOf<ReasoningItem | ToolCallItem | ToolResultItem | MessageItem>;
type ItemChangeOf<I> = I extends ItemBase
  ? Pick<I, Extract<keyof I, "type" | "id" | "call_id" | "status">> & Partial<I>
  : never;

/** A task on the wire; lifecycle events carry the fields that changed. */
export interface TaskObject {
  readonly id: string;
  readonly object: "task";
  readonly status: TaskStatus;
  readonly agent_id?: string;
  readonly session_id?: string;
  readonly parent_task_id?: string;
  readonly parent_call_id?: string;
  readonly parent_item_id?: string;
  readonly mode?: TaskMode;
  readonly remote?: boolean;
  readonly created_at?: number;
  readonly completed_at?: number;
  readonly usage?: Usage;
  readonly subtree_usage?: Usage;
  readonly error?: ErrorShape;
  readonly reason?: string;
  readonly incomplete_details?: { readonly reason: IncompleteReason };
  readonly generate_reason?: GenerateReason;
  readonly structured?: unknown;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly output?: readonly Item[];
}

/** A task with its complete state, from which a reader can continue. */
export interface SnapshotTask extends TaskObject {
  readonly approvals?: readonly ApprovalState[];
  readonly cancelling?: boolean;
  readonly suspension?: Suspension;
  readonly cost?: Cost;
  readonly hints?: readonly Hint[];
  readonly state?: Readonly<Record<string, unknown>>;
  readonly parent_output_index?: number;
}

/** What a person or an outside tool is asked. */
export interface ApprovalQuestion {
  readonly approval_id: string;
  readonly kind: ApprovalKind;
  readonly call_id?: string;
  readonly item_id?: string;
  readonly output_index?: number;
  readonly name?: string;
  readonly arguments?: string;
  readonly message?: string;
  readonly options?: readonly Decision[];
  readonly response_schema?: Readonly<Record<string, unknown>>;
  readonly expires_at?: number;
  /** A hook or the schema has changed the call: `name` and `arguments` are those of the call that would run. */
  readonly edited?: true;
}
/** An approval in the tree; it is pending until it has a decision. */
export interface ApprovalState extends ApprovalQuestion {
  readonly decision?: Decision;
  readonly by?: string;
  readonly reason?: string;
}
/** The kind of an approval; `stop`: a hook stopped the task before the call, or before it continues. */
export type ApprovalKind = "tool_call" | "question" | "external" | "form" | "auth" | "stop";

/** A task in the tree; items and blocks keep their shape on the wire. */
export interface Task {
  readonly id: string;
  /** `unknown`: another event named this task, and none of its own events has arrived. */
  readonly status: TaskStatus | "unknown";
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly source?: SourceRef;
  readonly mode?: TaskMode;
  readonly remote?: boolean;
  readonly callId?: string;
  readonly parentTaskId?: string;
  readonly parentItemId?: string;
  /** The index of the parent's item that holds this task; children are ordered by it. */
  readonly parentOutputIndex?: number;
  readonly output: readonly Item[];
  readonly children: readonly string[];
  readonly approvals: readonly ApprovalState[];
  readonly cancelling?: boolean;
  readonly suspension?: Suspension;
  readonly usage?: Usage;
  readonly subtreeUsage?: Usage;
  readonly cost?: Cost;
  readonly error?: ErrorShape;
  readonly reason?: string;
  readonly incompleteReason?: IncompleteReason;
  readonly generateReason?: GenerateReason;
  readonly structured?: unknown;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly createdAt?: number;
  readonly completedAt?: number;
  /** The hints of the task, in order. */
  readonly hints?: readonly Hint[];
  /** The last value of each `task.custom` name. */
  readonly state?: Readonly<Record<string, unknown>>;
  /** The highest `task_seq` before which no event is missing; -1 before the first event. */
  readonly appliedSeq: number;
  /** Events that wait for a missing event, in order. */
  readonly parked?: readonly TaskEvent[];
}
/** Why a task is suspended. */
export interface Suspension {
  readonly reason: "approval" | "external" | "stop_requested" | "child";
  readonly approval_ids?: readonly string[];
  readonly waiting_on?: readonly string[];
  readonly expires_at?: number;
}

/** The state of all tasks of a log, as one JSON document. */
export interface Tree {
  /** The task without a parent; undefined before the first event. */
  readonly rootId?: string;
  readonly tasks: Readonly<Record<string, Task>>;
  /** Reconnect after this number; no event up to it is missing. */
  readonly safeCursor: number;
  /** Ranges of numbers received beyond `safeCursor`. */
  readonly ahead: readonly (readonly [from: number, to: number])[];
  /** The number of the snapshots so far; becomes the cursor with the last snapshot or the next event. */
  readonly snapshotCursor?: number;
  /** The gaps at the moment. */
  readonly gaps: readonly Gap[];
  /** The number of events of unknown types. */
  readonly unknown: number;
  /** The number of events that broke a rule and changed nothing. */
  readonly ignored: number;
}
/** The events of a task between `after` and `before` are missing. */
export interface Gap {
  readonly taskId: string;
  readonly after: number;
  readonly before: number;
}

/** Whether a task with this status has ended. */
export function isTerminal(status: TaskStatus | "unknown"): status is TerminalStatus {
  return (
    status === "completed" ||
    status === "failed" ||
    status === "cancelled" ||
    status === "incomplete"
  );
}
