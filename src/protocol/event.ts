import type {
  controlFrames,
  logEvents,
  origin,
  position,
  snapshot,
  streamError,
} from "./grammar/index.ts";
import type { Fields, TypeOf } from "./shape.ts";

// The types of all frames come from the grammar, which describes their fields.

/** The fields of every event in a log. */
export interface Envelope extends TypeOf<typeof position & typeof origin> {}

/** A log event of a type. */
type EventOf<Type extends keyof typeof logEvents> = Envelope &
  TypeOf<(typeof logEvents)[Type]> & { readonly type: Type };
/** Another frame of a type. */
type FrameOf<Type, Shape extends Fields> = TypeOf<Shape> & { readonly type: Type };

/** A task was created; a child names its parent, call and item. */
export interface TaskCreated extends EventOf<"task.created"> {}
/** A task started to work. */
export interface TaskInProgress extends EventOf<"task.in_progress"> {}
/** A task waits for an approval, an external result or a suspended child. */
export interface TaskSuspended extends EventOf<"task.suspended"> {}
/** A suspended or recovered task continues. */
export interface TaskResumed extends EventOf<"task.resumed"> {}
/** A cancel was requested; the status of the task does not change yet. */
export interface TaskCancelling extends EventOf<"task.cancelling"> {}
/** A task finished. */
export interface TaskCompleted extends EventOf<"task.completed"> {}
/** A task failed; the task carries the error. */
export interface TaskFailed extends EventOf<"task.failed"> {}
/** A task was cancelled. */
export interface TaskCancelled extends EventOf<"task.cancelled"> {}
/** A task ended before it was finished; `incomplete_details` has the reason. */
export interface TaskIncomplete extends EventOf<"task.incomplete"> {}
/** An item opens; its lists are empty. */
export interface OutputItemAdded extends EventOf<"task.output_item.added"> {}
/** An item closes; absent fields keep the assembled value. */
export interface OutputItemDone extends EventOf<"task.output_item.done"> {}
/** An item is discarded; its index is not used again. */
export interface OutputItemDiscarded extends EventOf<"task.output_item.discarded"> {}
/** The provider names a source of an item. */
export interface ReferenceAdded extends EventOf<"task.reference.added"> {}
/** A paragraph of a reasoning's summary opens. */
export interface ReasoningSummaryItemAdded extends EventOf<"task.reasoning_summary_item.added"> {}
/** Text to append to a summary's paragraph. */
export interface ReasoningSummaryTextDelta extends EventOf<"task.reasoning_summary_text.delta"> {}
/** A complete paragraph of a summary. */
export interface ReasoningSummaryItemDone extends EventOf<"task.reasoning_summary_item.done"> {}
/** Text to append to the raw reasoning; not sent by default. */
export interface ReasoningTextDelta extends EventOf<"task.reasoning_text.delta"> {}
/** A complete piece of raw reasoning. */
export interface ReasoningTextDone extends EventOf<"task.reasoning_text.done"> {}
/** JSON text to append to a call's arguments. */
export interface ToolCallArgumentsDelta extends EventOf<"task.tool_call_arguments.delta"> {}
/** The complete arguments of a call. */
export interface ToolCallArgumentsDone extends EventOf<"task.tool_call_arguments.done"> {}
/** The progress of a running tool; the last one replaces the others, and `done` removes it. */
export interface ToolResultProgress extends EventOf<"task.tool_result.progress"> {}
/** A text block opens. */
export interface TextAdded extends EventOf<"task.text.added"> {}
/** Text to append; it never splits a surrogate pair. */
export interface TextDelta extends EventOf<"task.text.delta"> {}
/** A citation, sent as soon as its marker is complete. */
export interface TextAnnotationAdded extends EventOf<"task.text.annotation.added"> {}
/** A complete text block. */
export interface TextDone extends EventOf<"task.text.done"> {}
/** An image block opens, without the image. */
export interface ImageAdded extends EventOf<"task.image.added"> {}
/** A complete preview, which REPLACES the previous one. */
export interface ImageDelta extends EventOf<"task.image.delta"> {}
/** A complete image block. */
export interface ImageDone extends EventOf<"task.image.done"> {}
/** A complete block of any other type. */
export interface BlockDone extends EventOf<"task.block.done"> {}
/** On the parent: a call started a child. */
export interface ChildStarted extends EventOf<"task.child.started"> {}
/** On the parent: a synchronous child ended. */
export interface ChildFinished extends EventOf<"task.child.finished"> {}
/** On the parent: it stops waiting, and the child continues in the background. */
export interface ChildPromoted extends EventOf<"task.child.promoted"> {}
/** A call waits for a decision; a `stop` may concern no call. */
export interface ApprovalRequested extends EventOf<"task.approval.requested"> {}
/** The decision about an approval. */
export interface ApprovalResolved extends EventOf<"task.approval.resolved"> {}
/** The model gets a note that is not its input. */
export interface HintAdded extends EventOf<"task.hint.added"> {}
/** The usage of a task so far, without its children. */
export interface TaskUsage extends EventOf<"task.usage"> {}
/** An event of the application. */
export interface TaskCustom extends EventOf<"task.custom"> {}
/** The state of a task at a number, made by a server; not in the log. */
export interface TaskSnapshot extends FrameOf<"task.snapshot", typeof snapshot> {}
/** An error of the stream; it does not change a task. */
export interface StreamError extends FrameOf<"error", typeof streamError> {}
/** The first frame of a stream. */
export interface StreamOpened
  extends FrameOf<"stream.opened", (typeof controlFrames)["stream.opened"]> {}
/** A heartbeat, for transports without comments. */
export interface StreamHeartbeat
  extends FrameOf<"stream.heartbeat", (typeof controlFrames)["stream.heartbeat"]> {}
/** The last frame of a stream; all reasons except `terminal` can be resumed. */
export interface StreamClosed
  extends FrameOf<"stream.closed", (typeof controlFrames)["stream.closed"]> {}

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
