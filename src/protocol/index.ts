export type {
  Agent,
  AgentEvent,
  Answer,
  Approval,
  Awaitable,
  Budget,
  Class,
  ContextLookup,
  Input,
  InputMessage,
  InputOf,
  ObserveOptions,
  Origin,
  OutputOf,
  Retry,
  Run,
  RunOptions,
  StandardIssue,
  StandardResult,
  StandardSchema,
  StreamOptions,
  Via,
} from "./agent.ts";
export type { CheckOptions, Problem, Rule } from "./check.ts";
export { checkStream } from "./check.ts";
export type { Clock } from "./clock.ts";
export { systemClock } from "./clock.ts";
export type { ErrorPlace, ErrorShape, RivuletErrorOptions } from "./error.ts";
export { RivuletError } from "./error.ts";
export type * from "./event.ts";
export type { FoldOptions } from "./fold.ts";
export { protocolVersion, taskEventTypes } from "./grammar.ts";
export type * from "./hook.ts";
export type { IdPrefix, IdSource, RandomBytes } from "./id.ts";
export { createIds } from "./id.ts";
export type { DocumentItem, MaterializeOptions, TaskDocument } from "./materialize.ts";
export { materialize } from "./materialize.ts";
export type {
  AnswerBlock,
  Block,
  CompactionBlock,
  Decision,
  GenerateReason,
  HintBlock,
  MediaBlock,
  MediaSource,
  Message,
  MessageMetadata,
  Reply,
  ReplyMessage,
  SuspensionBlock,
  TaskRef,
  TextBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolResultState,
  ToolUseBlock,
} from "./message.ts";
export { assistantMessage, textOf, userMessage } from "./message.ts";
export { emptyTree, reduce, TaskTree } from "./reduce.ts";
export type { Citation, ParsedText, ReferenceLookup } from "./reference-parser.ts";
export { ReferenceParser } from "./reference-parser.ts";
export type {
  CitableResult,
  EmbeddedResult,
  NumberedResult,
  ReferenceEntry,
  ReferencePoolRecord,
} from "./references.ts";
export { ReferencePool } from "./references.ts";
export type {
  RemoteAnswer,
  RemoteLimits,
  RemoteLink,
  RemoteReading,
  RemoteStart,
  RemoteTask,
} from "./remote-link.ts";
export type { PlacedItem, WaitingApproval } from "./select.ts";
export {
  addUsage,
  childrenOf,
  openItems,
  rootTask,
  subtreeUsage,
  taskOf,
  waitingApprovals,
} from "./select.ts";
export { snapshotOf } from "./snapshot.ts";
export type { Source, SourceRef } from "./source.ts";
export { prependSource, sourceRef } from "./source.ts";
export type { SseDecodeOptions, SseEncodeOptions, SseErrorCode, SseMessage } from "./sse.ts";
export { decodeSse, encodeComment, encodeRetry, encodeSse, SseDecoder } from "./sse.ts";
export type {
  Commit,
  FileInfo,
  Files,
  Lease,
  ListedSession,
  LogSnapshot,
  Post,
  PostQuery,
  SearchMatch,
  SearchQuery,
  SessionAppend,
  SessionInfo,
  SessionQuery,
  Store,
  StoredFile,
  StoreMemory,
  TaskQuery,
  TaskRecord,
  WatchKey,
} from "./store.ts";
export type * from "./task.ts";
export { isTerminal } from "./task.ts";
