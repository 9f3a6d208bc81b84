import type { Decision, GenerateReason } from "./message.ts";
import type { SourceRef } from "./source.ts";
import type {
  Annotation,
  ApprovalKind,
  Cost,
  DiscardReason,
  Item,
  ItemChange,
  ModelUsage,
  Progress,
  SnapshotTask,
  SummaryEntry,
  Suspension,
  TaskMode,
  TaskObject,
  TerminalStatus,
  Usage,
  WireBlock,
  WireImageBlock,
  WireTextBlock,
} from "./task.ts";

/** What every event of a log carries. */
export interface Envelope {
  /** The task that this event changes. */
  readonly task_id: string;
  /** The position in the root's log, given at append and never changed. */
  readonly sequence_number: number;
  /** The position within this task: finds gaps and duplicates. */
  readonly task_seq: number;
  /** On a filtered stream: the `task_seq` of this task's event that was let through before this one; -1 for none. */
  readonly prev_task_seq?: number;
  /** Milliseconds; informational, never used for order. */
  readonly created_at: number;
  /** Absent on the root's own events; complete on `task.created`, short on the rest. */
  readonly source?: SourceRef;
}

/** Names an item by its place in the task's output. */
interface OnItem {
  readonly item_id: string;
  readonly output_index: number;
}
/** Names a block within an item. */
interface OnBlock extends OnItem {
  readonly block_index: number;
}
/** Names a child by the call that started it. */
interface OnChild extends OnItem {
  readonly child_task_id: string;
  readonly call_id: string;
}

/** The part of a task that a lifecycle event changes. */
export type TaskChange<Status extends TaskObject["status"]> = Omit<TaskObject, "status"> & {
  readonly status: Status;
};

/** A task exists; a child names its parent, its call and its item. */
export interface TaskCreated extends Envelope {
  readonly type: "task.created";
  readonly task: TaskChange<"queued">;
}

/** A task started to work. */
export interface TaskInProgress extends Envelope {
  readonly type: "task.in_progress";
  readonly task: TaskChange<"in_progress">;
}

/** A task waits for a person, an outside result or a child that waits. */
export interface TaskSuspended extends Envelope, Suspension {
  readonly type: "task.suspended";
  readonly generate_reason?: GenerateReason;
}

/** A suspended or recovered task works again. */
export interface TaskResumed extends Envelope {
  readonly type: "task.resumed";
  readonly reason: string;
}

/** Somebody asked a task to stop; a flag, not a status. */
export interface TaskCancelling extends Envelope {
  readonly type: "task.cancelling";
  readonly requested_by?: string;
  readonly reason?: string;
}

/** A task finished. */
export interface TaskCompleted extends Envelope {
  readonly type: "task.completed";
  readonly task: TaskChange<"completed">;
}

/** A task failed; the task carries the error. */
export interface TaskFailed extends Envelope {
  readonly type: "task.failed";
  readonly task: TaskChange<"failed">;
}

/** A task was stopped from outside. */
export interface TaskCancelled extends Envelope {
  readonly type: "task.cancelled";
  readonly task: TaskChange<"cancelled">;
}

/** A task ended before it was finished; the task says why. */
export interface TaskIncomplete extends Envelope {
  readonly type: "task.incomplete";
  readonly task: TaskChange<"incomplete">;
}

/** An item opens, its collections still empty. */
export interface OutputItemAdded extends Envelope {
  readonly type: "task.output_item.added";
  readonly output_index: number;
  readonly item: Item;
}

/** An item closes; keys that are absent keep what was assembled. */
export interface OutputItemDone extends Envelope {
  readonly type: "task.output_item.done";
  readonly output_index: number;
  readonly item: ItemChange;
}

/** An item is taken back; its index is never used again. */
export interface OutputItemDiscarded extends Envelope, OnItem {
  readonly type: "task.output_item.discarded";
  readonly reason: DiscardReason;
}

/** A paragraph of a reasoning's summary opens. */
export interface ReasoningSummaryItemAdded extends Envelope, OnItem {
  readonly type: "task.reasoning_summary_item.added";
  readonly summary_index: number;
  readonly item: SummaryEntry;
}

/** Text to append to a summary's paragraph. */
export interface ReasoningSummaryTextDelta extends Envelope, OnItem {
  readonly type: "task.reasoning_summary_text.delta";
  readonly summary_index: number;
  readonly delta: string;
}

/** A summary's paragraph, whole. */
export interface ReasoningSummaryItemDone extends Envelope, OnItem {
  readonly type: "task.reasoning_summary_item.done";
  readonly summary_index: number;
  readonly item: SummaryEntry;
}

/** Raw reasoning to append; off by default. */
export interface ReasoningTextDelta extends Envelope, OnItem {
  readonly type: "task.reasoning_text.delta";
  readonly content_index: number;
  readonly delta: string;
}

/** A piece of raw reasoning, whole. */
export interface ReasoningTextDone extends Envelope, OnItem {
  readonly type: "task.reasoning_text.done";
  readonly content_index: number;
  readonly text: string;
}

/** JSON text to append to a call's arguments. */
export interface ToolCallArgumentsDelta extends Envelope, OnItem {
  readonly type: "task.tool_call_arguments.delta";
  readonly delta: string;
}

/** A call's arguments, whole. */
export interface ToolCallArgumentsDone extends Envelope, OnItem {
  readonly type: "task.tool_call_arguments.done";
  readonly arguments: string;
}

/** How far a running tool is; the last one wins, the final document has none. */
export interface ToolResultProgress extends Envelope, OnItem, Progress {
  readonly type: "task.tool_result.progress";
  readonly call_id: string;
}

/** A text block opens. */
export interface TextAdded extends Envelope, OnBlock {
  readonly type: "task.text.added";
  readonly item: WireTextBlock;
}

/** Text to append; never half a surrogate pair. */
export interface TextDelta extends Envelope, OnBlock {
  readonly type: "task.text.delta";
  readonly delta: string;
}

/** A citation, as soon as its marker is complete. */
export interface TextAnnotationAdded extends Envelope, OnBlock {
  readonly type: "task.text.annotation.added";
  readonly annotation_index: number;
  readonly annotation: Annotation;
}

/** A text block, whole. */
export interface TextDone extends Envelope, OnBlock {
  readonly type: "task.text.done";
  readonly item: WireTextBlock;
}

/** An image's place, before the image. */
export interface ImageAdded extends Envelope, OnBlock {
  readonly type: "task.image.added";
  readonly item: WireImageBlock;
}

/** A complete preview that REPLACES the one before it. */
export interface ImageDelta extends Envelope, OnBlock {
  readonly type: "task.image.delta";
  readonly partial_image_index: number;
  readonly item: WireImageBlock;
}

/** The image itself. */
export interface ImageDone extends Envelope, OnBlock {
  readonly type: "task.image.done";
  readonly item: WireImageBlock;
}

/** A block of any other kind, whole. */
export interface BlockDone extends Envelope, OnBlock {
  readonly type: "task.block.done";
  readonly item: WireBlock;
}

/** On the parent: a call started a child. */
export interface ChildStarted extends Envelope, OnChild {
  readonly type: "task.child.started";
  readonly mode: TaskMode;
  readonly remote?: boolean;
  readonly agent: { readonly id: string; readonly name?: string; readonly key: string };
}

/** On the parent: a synchronous child ended. */
export interface ChildFinished extends Envelope, OnChild {
  readonly type: "task.child.finished";
  readonly status: TerminalStatus;
  readonly usage?: Usage;
}

/** On the parent: it stops waiting, the child goes on in the background. */
export interface ChildPromoted extends Envelope, OnChild {
  readonly type: "task.child.promoted";
  readonly mode: "background";
  readonly reason: string;
}

/** A call waits for somebody's word. */
export interface ApprovalRequested extends Envelope {
  readonly type: "task.approval.requested";
  readonly approval_id: string;
  readonly kind: ApprovalKind;
  readonly call_id: string;
  readonly item_id?: string;
  readonly output_index?: number;
  readonly name: string;
  readonly arguments: string;
  readonly message?: string;
  readonly options?: readonly Decision[];
  readonly response_schema?: Readonly<Record<string, unknown>>;
  readonly expires_at?: number;
}

/** Somebody, or the clock, has spoken. */
export interface ApprovalResolved extends Envelope {
  readonly type: "task.approval.resolved";
  readonly approval_id: string;
  readonly decision: Decision;
  readonly by?: string;
  readonly reason?: string | null;
}

/** What a task has used so far, its own, cumulative. */
export interface TaskUsage extends Envelope {
  readonly type: "task.usage";
  readonly cumulative: true;
  readonly usage: Usage;
  readonly by_model?: readonly ModelUsage[];
  readonly cost?: Cost;
}

/** Anything an application wants on the stream. */
export interface TaskCustom extends Envelope {
  readonly type: "task.custom";
  readonly name: string;
  readonly value: unknown;
}

/** A task's state through a number, synthesised by a server; not in the log. */
export interface TaskSnapshot {
  readonly type: "task.snapshot";
  readonly task_id: string;
  readonly through_sequence_number: number;
  readonly through_task_seq: number;
  readonly created_at: number;
  readonly source?: SourceRef;
  readonly task: SnapshotTask;
}

/** A problem of the stream itself; it never changes a task. */
export interface StreamError {
  readonly type: "error";
  readonly task_id?: string;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly hint?: string;
  readonly oldest_sequence_number?: number;
}

/** The first frame of a stream: what it is and what it leaves out. */
export interface StreamOpened {
  readonly type: "stream.opened";
  readonly protocol: string;
  readonly root_task_id: string;
  readonly oldest_sequence_number: number;
  readonly last_sequence_number: number;
  readonly heartbeat_ms: number;
  readonly filter?: StreamFilter;
}
/** What a stream was asked to show. */
export interface StreamFilter {
  readonly depth?: number | null;
  readonly path?: string | null;
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}
/** A sign of life, for transports that have no comments. */
export interface StreamHeartbeat {
  readonly type: "stream.heartbeat";
  readonly created_at: number;
  readonly last_sequence_number: number;
}
/** The last frame of a stream; only `terminal` is final, the rest can be resumed. */
export interface StreamClosed {
  readonly type: "stream.closed";
  readonly reason: "terminal" | "idle" | "slow_consumer" | "max_duration" | "server_shutdown";
  readonly final: boolean;
  readonly last_sequence_number: number;
}

/** What a log holds. */
export type LogEvent =
  | TaskCreated
  | TaskInProgress
  | TaskSuspended
  | TaskResumed
  | TaskCancelling
  | TaskCompleted
  | TaskFailed
  | TaskCancelled
  | TaskIncomplete
  | OutputItemAdded
  | OutputItemDone
  | OutputItemDiscarded
  | ReasoningSummaryItemAdded
  | ReasoningSummaryTextDelta
  | ReasoningSummaryItemDone
  | ReasoningTextDelta
  | ReasoningTextDone
  | ToolCallArgumentsDelta
  | ToolCallArgumentsDone
  | ToolResultProgress
  | TextAdded
  | TextDelta
  | TextAnnotationAdded
  | TextDone
  | ImageAdded
  | ImageDelta
  | ImageDone
  | BlockDone
  | ChildStarted
  | ChildFinished
  | ChildPromoted
  | ApprovalRequested
  | ApprovalResolved
  | TaskUsage
  | TaskCustom;

/** Everything that can change a tree, or say why it cannot: a log's events and what a server adds to them. */
export type TaskEvent = LogEvent | TaskSnapshot | StreamError;
/** Frames of the transport; they carry no number and change nothing. */
export type ControlFrame = StreamOpened | StreamHeartbeat | StreamClosed;
/** Whatever may arrive on a stream. */
export type StreamFrame = TaskEvent | ControlFrame;

/** The protocol's name on the wire; within `/1` changes only add. */
export const protocolVersion = "rivulet.task-stream/1";

/** Every event type of the catalogue, in its order. */
export const taskEventTypes = [
  "task.created",
  "task.in_progress",
  "task.suspended",
  "task.resumed",
  "task.cancelling",
  "task.completed",
  "task.failed",
  "task.cancelled",
  "task.incomplete",
  "task.output_item.added",
  "task.output_item.done",
  "task.output_item.discarded",
  "task.reasoning_summary_item.added",
  "task.reasoning_summary_text.delta",
  "task.reasoning_summary_item.done",
  "task.reasoning_text.delta",
  "task.reasoning_text.done",
  "task.tool_call_arguments.delta",
  "task.tool_call_arguments.done",
  "task.tool_result.progress",
  "task.text.added",
  "task.text.delta",
  "task.text.annotation.added",
  "task.text.done",
  "task.image.added",
  "task.image.delta",
  "task.image.done",
  "task.block.done",
  "task.child.started",
  "task.child.finished",
  "task.child.promoted",
  "task.approval.requested",
  "task.approval.resolved",
  "task.usage",
  "task.custom",
  "task.snapshot",
  "error",
] as const satisfies readonly TaskEvent["type"][];
