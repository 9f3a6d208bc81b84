export {
  addBills,
  type Bill,
  type BilledTask,
  type BillKey,
  type BillOptions,
  type BillRow,
  billKeys,
  billOf,
  billOfTree,
  toolOf,
} from "./bill.ts";
export { isSameInput } from "./check/calls.ts";
export { checkStream, StreamCheck } from "./check/check.ts";
export type { CheckOptions } from "./check/checked.ts";
export type { CheckRule, Problem } from "./check/problem.ts";
export { addAmounts, addShare, amountOf, dayOf, sumOf } from "./cost.ts";
export type * from "./event.ts";
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
export { listPricesDay, type Prices, priceBy, type TokenPrices } from "./prices.ts";
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
export type * from "./task.ts";
export { isTerminal } from "./task.ts";
export { type EventBody, maxDelta, piecesOf } from "./writer/delta.ts";
export { WrittenItem, type WrittenPart } from "./writer/item.ts";
export type { TaskWriterOptions } from "./writer/state.ts";
export { type DeltaEvent, type StreamStart, TaskStream } from "./writer/stream.ts";
export { TaskWriter } from "./writer/writer.ts";
