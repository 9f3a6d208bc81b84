export { checkStream, StreamCheck } from "./check/check.ts";
export type { CheckOptions, CheckRule, Problem } from "./check/state.ts";
export { addAmounts, amountOf, sumOf } from "./cost.ts";
export type {
  ApprovalRequested,
  ApprovalResolved,
  BlockDone,
  ChildFinished,
  ChildPromoted,
  ChildStarted,
  ControlFrame,
  HintAdded,
  ImageAdded,
  ImageDelta,
  ImageDone,
  LogEvent,
  OutputItemAdded,
  OutputItemDiscarded,
  OutputItemDone,
  ReasoningSummaryItemAdded,
  ReasoningSummaryItemDone,
  ReasoningSummaryTextDelta,
  ReasoningTextDelta,
  ReasoningTextDone,
  ReferenceAdded,
  StreamClosed,
  StreamError,
  StreamFrame,
  StreamHeartbeat,
  StreamOpened,
  TaskCancelled,
  TaskCancelling,
  TaskCompleted,
  TaskCreated,
  TaskCustom,
  TaskEvent,
  TaskFailed,
  TaskIncomplete,
  TaskInProgress,
  TaskResumed,
  TaskSnapshot,
  TaskSuspended,
  TaskUsage,
  TextAdded,
  TextAnnotationAdded,
  TextDelta,
  TextDone,
  ToolCallArgumentsDelta,
  ToolCallArgumentsDone,
  ToolResultProgress,
} from "./event.ts";
export type { Mutable } from "./fold/draft.ts";
export type { FoldOptions } from "./fold/fold.ts";
export { closedItem } from "./fold/item.ts";
export * as grammar from "./grammar/index.ts";
export {
  controlFrames,
  logEvents,
  origin,
  position,
  protocolVersion,
  snapshot,
  source,
  streamError,
  taskEventTypes,
  taskObject,
  words,
} from "./grammar/index.ts";
export {
  type DocumentItem,
  type MaterializeOptions,
  materialize,
  type TaskDocument,
} from "./materialize.ts";
export { emptyTree, reduce, TaskTree } from "./reduce.ts";
export { type Citation, type ReferenceLookup, ReferenceParser } from "./reference-parser.ts";
export {
  addUsage,
  childrenOf,
  noUsage,
  openItems,
  rootTask,
  subtreeOf,
  subtreeUsage,
  taskOf,
  type WaitingApproval,
  waitingApprovals,
  waitingIn,
} from "./select.ts";
export * as shape from "./shape.ts";
export {
  type Fields,
  isCursor,
  isId,
  isIndex,
  isJson,
  isList,
  isOffset,
  isText,
  isTime,
  nests,
  Optional,
  type Shape,
  type TypeOf,
  Variants,
} from "./shape.ts";
export { snapshotOf } from "./snapshot.ts";
export { asSent, prependSource, type Source, type SourceRef, sourceRef } from "./source.ts";
export {
  decodeSse,
  encodeComment,
  encodeRetry,
  encodeSse,
  type SseDecodeOptions,
  SseDecoder,
  type SseEncodeOptions,
} from "./sse.ts";
export type { Decision, GenerateReason } from "./task.ts";
export {
  type Annotation,
  type ApprovalKind,
  type ApprovalQuestion,
  type ApprovalState,
  type BlockAddress,
  type Cost,
  type DiscardReason,
  type Gap,
  type Hint,
  type IncompleteReason,
  type Item,
  type ItemChange,
  type ItemStatus,
  isTerminal,
  type MessageItem,
  type ModelUsage,
  type Progress,
  type ReasoningItem,
  type ReasoningText,
  type Reference,
  type SnapshotTask,
  type SummaryEntry,
  type Suspension,
  type Task,
  type TaskMode,
  type TaskObject,
  type TaskStatus,
  type TerminalStatus,
  type ToolCallItem,
  type ToolResultItem,
  type Tree,
  type Usage,
  type WireBlock,
  type WireFileBlock,
  type WireImageBlock,
  type WireTaskBlock,
  type WireTextBlock,
} from "./task.ts";

export type { WrittenItem, WrittenPart } from "./writer/item.ts";

export { type EventBody, halfAtEnd, maxDelta, piecesOf } from "./writer/rules.ts";
export type { TaskWriterOptions } from "./writer/state.ts";
export { TaskWriter } from "./writer/writer.ts";
