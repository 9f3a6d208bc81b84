import type { SourceRef } from "./source.ts";
import type {
  Annotation,
  ApprovalQuestion,
  Cost,
  Decision,
  DiscardReason,
  GenerateReason,
  Hint,
  Item,
  ItemChange,
  ModelUsage,
  Progress,
  Reference,
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

/** The fields of every event in a log. */
export interface Envelope {
  /** The task that this event changes. */
  readonly task_id: string;
  /** The position in the log of the root; it never changes. */
  readonly sequence_number: number;
  /** The position within this task; shows gaps and duplicates. */
  readonly task_seq: number;
  /** On a filtered stream, the `task_seq` of the previous event of this task that was sent; -1 if there is none. */
  readonly prev_task_seq?: number;
  /** Milliseconds since 1970; does not define the order of events. */
  readonly created_at: number;
  /** Absent on events of the root; complete on `task.created`, short on other events. */
  readonly source?: SourceRef;
}

/** Names an item by its index in the task's output. */
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

/** A task was created; a child names its parent, call and item. */
export interface TaskCreated extends Envelope {
  readonly type: "task.created";
  readonly task: TaskChange<"queued">;
}

/** A task started to work. */
export interface TaskInProgress extends Envelope {
  readonly type: "task.in_progress";
  readonly task: TaskChange<"in_progress">;
}

/** A task waits for an approval, an external result or a suspended child. */
export interface TaskSuspended extends Envelope, Suspension {
  readonly type: "task.suspended";
  readonly generate_reason?: GenerateReason;
}

/** A suspended or recovered task continues. */
export interface TaskResumed extends Envelope {
  readonly type: "task.resumed";
  readonly reason: string;
}

/** A cancel was requested; the status of the task does not change yet. */
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

/** A task was cancelled. */
export interface TaskCancelled extends Envelope {
  readonly type: "task.cancelled";
  readonly task: TaskChange<"cancelled">;
}

/** A task ended before it was finished; `incomplete_details` has the reason. */
export interface TaskIncomplete extends Envelope {
  readonly type: "task.incomplete";
  readonly task: TaskChange<"incomplete">;
}

/** An item opens; its lists are empty. */
export interface OutputItemAdded extends Envelope {
  readonly type: "task.output_item.added";
  readonly output_index: number;
  readonly item: Item;
}

/** An item closes; absent fields keep the assembled value. */
export interface OutputItemDone extends Envelope {
  readonly type: "task.output_item.done";
  readonly output_index: number;
  readonly item: ItemChange;
}

/** An item is discarded; its index is not used again. */
export interface OutputItemDiscarded extends Envelope, OnItem {
  readonly type: "task.output_item.discarded";
  readonly reason: DiscardReason;
}

/** The provider names a source of an item. */
export interface ReferenceAdded extends Envelope, OnItem {
  readonly type: "task.reference.added";
  readonly reference: Reference;
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

/** A complete paragraph of a summary. */
export interface ReasoningSummaryItemDone extends Envelope, OnItem {
  readonly type: "task.reasoning_summary_item.done";
  readonly summary_index: number;
  readonly item: SummaryEntry;
}

/** Text to append to the raw reasoning; not sent by default. */
export interface ReasoningTextDelta extends Envelope, OnItem {
  readonly type: "task.reasoning_text.delta";
  readonly content_index: number;
  readonly delta: string;
}

/** A complete piece of raw reasoning. */
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

/** The complete arguments of a call. */
export interface ToolCallArgumentsDone extends Envelope, OnItem {
  readonly type: "task.tool_call_arguments.done";
  readonly arguments: string;
}

/** The progress of a running tool; the last one replaces the others, and `done` removes it. */
export interface ToolResultProgress extends Envelope, OnItem, Progress {
  readonly type: "task.tool_result.progress";
  readonly call_id: string;
}

/** A text block opens. */
export interface TextAdded extends Envelope, OnBlock {
  readonly type: "task.text.added";
  readonly item: WireTextBlock;
}

/** Text to append; it never splits a surrogate pair. */
export interface TextDelta extends Envelope, OnBlock {
  readonly type: "task.text.delta";
  readonly delta: string;
}

/** A citation, sent as soon as its marker is complete. */
export interface TextAnnotationAdded extends Envelope, OnBlock {
  readonly type: "task.text.annotation.added";
  readonly annotation_index: number;
  readonly annotation: Annotation;
}

/** A complete text block. */
export interface TextDone extends Envelope, OnBlock {
  readonly type: "task.text.done";
  readonly item: WireTextBlock;
}

/** An image block opens, without the image. */
export interface ImageAdded extends Envelope, OnBlock {
  readonly type: "task.image.added";
  readonly item: WireImageBlock;
}

/** A complete preview, which REPLACES the previous one. */
export interface ImageDelta extends Envelope, OnBlock {
  readonly type: "task.image.delta";
  readonly partial_image_index: number;
  readonly item: WireImageBlock;
}

/** A complete image block. */
export interface ImageDone extends Envelope, OnBlock {
  readonly type: "task.image.done";
  readonly item: WireImageBlock;
}

/** A complete block of any other type. */
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

/** On the parent: it stops waiting, and the child continues in the background. */
export interface ChildPromoted extends Envelope, OnChild {
  readonly type: "task.child.promoted";
  readonly mode: "background";
  readonly reason: string;
}

/** A call waits for a decision; a `stop` may concern no call. */
export interface ApprovalRequested extends Envelope, ApprovalQuestion {
  readonly type: "task.approval.requested";
}

/** The decision about an approval. */
export interface ApprovalResolved extends Envelope {
  readonly type: "task.approval.resolved";
  readonly approval_id: string;
  readonly decision: Decision;
  readonly by?: string;
  readonly reason?: string;
}

/** The model gets a note that is not its input. */
export interface HintAdded extends Envelope {
  readonly type: "task.hint.added";
  readonly hint: Hint;
}

/** The usage of a task so far, without its children. */
export interface TaskUsage extends Envelope {
  readonly type: "task.usage";
  readonly cumulative: true;
  readonly usage: Usage;
  readonly by_model?: readonly ModelUsage[];
  readonly cost?: Cost;
}

/** An event of the application. */
export interface TaskCustom extends Envelope {
  readonly type: "task.custom";
  readonly name: string;
  readonly value: unknown;
}

/** The state of a task at a number, made by a server; not in the log. */
export interface TaskSnapshot {
  readonly type: "task.snapshot";
  readonly task_id: string;
  readonly through_sequence_number: number;
  readonly through_task_seq: number;
  readonly created_at: number;
  readonly source?: SourceRef;
  readonly task: SnapshotTask;
  /** True on the last snapshot of a log: no event up to `through_sequence_number` is missing. */
  readonly final?: boolean;
}

/** An error of the stream; it does not change a task. */
export interface StreamError {
  readonly type: "error";
  readonly task_id?: string;
  readonly source?: SourceRef;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly hint?: string;
  readonly oldest_sequence_number?: number;
}

/** The first frame of a stream. */
export interface StreamOpened {
  readonly type: "stream.opened";
  readonly protocol: string;
  readonly root_task_id: string;
  readonly oldest_sequence_number: number;
  readonly last_sequence_number: number;
  readonly heartbeat_ms: number;
  readonly filter?: StreamFilter;
}
/** The filter of a stream. */
export interface StreamFilter {
  readonly depth?: number;
  readonly path?: string;
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}
/** A heartbeat, for transports without comments. */
export interface StreamHeartbeat {
  readonly type: "stream.heartbeat";
  readonly created_at: number;
  readonly last_sequence_number: number;
}
/** The last frame of a stream; all reasons except `terminal` can be resumed. */
export interface StreamClosed {
  readonly type: "stream.closed";
  readonly reason: "terminal" | "idle" | "slow_consumer" | "max_duration" | "server_shutdown";
  readonly final: boolean;
  readonly last_sequence_number: number;
}

/** An event of a log. */
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
  | ReferenceAdded
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
  | HintAdded
  | TaskUsage
  | TaskCustom;

/** An event of a log, or one that a server adds to a stream. */
export type TaskEvent = LogEvent | TaskSnapshot | StreamError;
/** A frame of the transport; it has no number and changes no task. */
export type ControlFrame = StreamOpened | StreamHeartbeat | StreamClosed;
/** Any frame of a stream. */
export type StreamFrame = TaskEvent | ControlFrame;
