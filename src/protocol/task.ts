import type { ErrorShape } from "./error.ts";
import type { TaskEvent } from "./event.ts";
import type { Decision, GenerateReason } from "./message.ts";
import type { SourceRef } from "./source.ts";

/** How a task ends; nothing follows it. */
export type TerminalStatus = "completed" | "failed" | "cancelled" | "incomplete";
/** Where a task stands. */
export type TaskStatus = "queued" | "in_progress" | "suspended" | TerminalStatus;
/** Where an item stands. */
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

/** Tokens used, cumulative, one task's own. */
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
/** Money, as a decimal string so that nothing is rounded on the way. */
export interface Cost {
  readonly amount: string;
  readonly currency: string;
}
/** How far a running tool is; the field names are MCP's. */
export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A piece of an item, as people see it. Blocks of kinds that this version does not know are kept as they came. */
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
/** Text, with what it cites. */
export interface WireTextBlock extends BlockBase {
  readonly type: "text";
  readonly text: string;
  readonly annotations?: readonly Annotation[];
}
/** An image; an empty url means that it is still to come. */
export interface WireImageBlock extends BlockBase {
  readonly type: "image";
  readonly image_url: { readonly url: string };
  readonly mime_type?: string;
  readonly width?: number;
  readonly height?: number;
  /** Only while previews arrive: the number of the last one. */
  readonly partial_image_index?: number;
}
/** A file or a recording, by reference. */
export interface WireFileBlock extends BlockBase {
  readonly type: "file" | "audio" | "video";
  readonly url: string;
  readonly filename?: string;
  readonly mime_type?: string;
}
/** The place in a list of blocks where a child's output belongs. */
export interface WireTaskBlock extends BlockBase {
  readonly type: "task";
  readonly task_id: string;
}
/** The place of a block that a filtered stream left out. */
export interface OmittedBlock extends BlockBase {
  readonly type: "omitted";
}

/** A citation: `text.slice(start_index, end_index)` of the block it stands on is its marker (UTF-16 units, half open). */
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
}
/** What the model thought: summaries for people, raw text only when asked for. */
export interface ReasoningItem extends ItemBase {
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
/** The model asks for a tool; `arguments` is JSON text, opaque until it is complete. */
export interface ToolCallItem extends ItemBase {
  readonly type: "tool_call";
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
  readonly provider_call_id?: string;
  /** Only between the end of the arguments and the end of the item. */
  readonly arguments_status?: "completed";
}
/** What a tool call came to; a child's work hangs on it through `child_task_id`. */
export interface ToolResultItem extends ItemBase {
  readonly type: "tool_result";
  readonly call_id: string;
  readonly block_list: readonly WireBlock[];
  /** The model's side; only for trusted readers who ask for it. */
  readonly content?: readonly WireBlock[];
  readonly child_task_id?: string;
  readonly error?: ErrorShape;
  /** Only while the tool runs. */
  readonly progress?: Progress;
}
/** What the agent said. */
export interface MessageItem extends ItemBase {
  readonly type: "message";
  readonly role: "assistant";
  readonly block_list: readonly WireBlock[];
  readonly content?: readonly WireBlock[];
  readonly purpose?: "summary";
}
/** The tombstone of an item that was taken back. */
export interface DiscardedItem extends ItemBase {
  readonly type: "discarded";
  readonly reason: DiscardReason;
}
/** The place of an item that a filtered stream left out. */
export interface OmittedItem extends ItemBase {
  readonly type: "omitted";
}
/** Why an item was taken back; `edited`: a hook put other words in its place; `tool_retry`: its tool is tried again. */
export type DiscardReason = "provider_retry" | "fallback" | "recovered" | "edited" | "tool_retry";

/** What closes an item: its identity and status, and whatever replaces what was assembled. */
export type ItemChange = ItemChangeOf<ReasoningItem | ToolCallItem | ToolResultItem | MessageItem>;
type ItemChangeOf<I> = I extends ItemBase
  ? Pick<I, Extract<keyof I, "type" | "id" | "call_id" | "status">> & Partial<I>
  : never;

/** A task as the wire carries it; lifecycle events send the parts that changed. */
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

/** A task with everything the fold knows of it, so that a reader can go on from here. */
export interface SnapshotTask extends TaskObject {
  readonly approvals?: readonly ApprovalState[];
  readonly cancelling?: boolean;
  readonly suspension?: Suspension;
  readonly cost?: Cost;
  readonly state?: Readonly<Record<string, unknown>>;
  readonly parent_output_index?: number;
}

/** An approval as the tree keeps it; it waits until it has a decision. */
export interface ApprovalState {
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
  readonly decision?: Decision;
  readonly by?: string;
  readonly reason?: string | null;
}
/** What is asked for. */
export type ApprovalKind = "tool_call" | "question" | "external" | "form" | "auth";

/** A task as the fold keeps it. Items and blocks keep their wire shape. */
export interface Task {
  readonly id: string;
  /** `unknown`: something named this task, but none of its own events has arrived. */
  readonly status: TaskStatus | "unknown";
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly source?: SourceRef;
  readonly mode?: TaskMode;
  readonly remote?: boolean;
  readonly callId?: string;
  readonly parentTaskId?: string;
  readonly parentItemId?: string;
  /** The index of the parent's item that holds this child; children are ordered by it. */
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
  /** The last value of each `task.custom` name. */
  readonly state?: Readonly<Record<string, unknown>>;
  /** The highest `task_seq` up to which nothing is missing; -1 before the first event. */
  readonly appliedSeq: number;
  /** Events that wait for a missing one, in order. */
  readonly parked?: readonly TaskEvent[];
}
/** What a suspended task waits for. */
export interface Suspension {
  readonly reason: "approval" | "external" | "stop_requested" | "child";
  readonly approval_ids?: readonly string[];
  readonly waiting_on?: readonly string[];
  readonly expires_at?: number;
}

/** Everything a log has said so far, as one JSON document. */
export interface Tree {
  /** The task that has no parent; undefined until one is known. */
  readonly rootId?: string;
  readonly tasks: Readonly<Record<string, Task>>;
  /** Reconnect after this number: nothing at or below it is missing. */
  readonly safeCursor: number;
  /** Ranges of numbers received beyond `safeCursor`. */
  readonly ahead: readonly (readonly [from: number, to: number])[];
  /** What a snapshot brought the tree to; becomes the cursor with the first event after it. */
  readonly snapshotCursor?: number;
  /** Where something is missing right now. */
  readonly gaps: readonly Gap[];
  /** Events of a type that this version does not know. */
  readonly unknown: number;
  /** Events that broke a rule and changed nothing. */
  readonly ignored: number;
}
/** Events of a task between `after` and `before` have not arrived. */
export interface Gap {
  readonly taskId: string;
  readonly after: number;
  readonly before: number;
}

/** Whether a task in this state has ended. */
export function isTerminal(status: TaskStatus | "unknown"): status is TerminalStatus {
  return (
    status === "completed" ||
    status === "failed" ||
    status === "cancelled" ||
    status === "incomplete"
  );
}
