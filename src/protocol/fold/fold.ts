import type { LogEvent, StreamFrame, TaskSnapshot, TextDelta } from "../event.ts";
import { logEvents, snapshot, sourceRef } from "../grammar/index.ts";
import {
  type Fields,
  isCursor,
  isId,
  isIndex,
  isText,
  nests,
  optional,
  readerOf,
  type Scalar,
} from "../shape.ts";
import type { SourceRef } from "../source.ts";
import { isTerminal } from "../task.ts";
import { type Draft, editTask, type TaskNode } from "./draft.ts";
import { foldItem } from "./item.ts";
import { at, find, firstPage, last, splice } from "./pages.ts";
import { foldPart, foldReference, foldToolCall } from "./part.ts";
import { foldLifecycle, foldSnapshot, foldTask } from "./task.ts";

/** Options for folding a stream. */
export interface FoldOptions {
  /** The producer sends no numbers: events apply as they arrive, and a repeated delta applies twice. */
  readonly legacy?: boolean;
  /** The stream is filtered, so a missing `sequence_number` is not a gap. */
  readonly filtered?: boolean;
}

/** Folds an event; returns false if it does not fit the tree. */
type Rule = (draft: Draft, event: never, options: FoldOptions) => boolean;
/** The rules for events of items and parts, by the second word of their type. */
const partRules: Readonly<Record<string, Rule>> = {
  text: foldPart,
  image: foldPart,
  block: foldPart,
  reasoning_summary_text: foldPart,
  reasoning_summary_item: foldPart,
  reasoning_text: foldPart,
  tool_call_arguments: foldToolCall,
  tool_result: foldToolCall,
  reference: foldReference,
  output_item: foldItem,
};
/** `apply` reads the source, and only once for all events of a task that share it. */
const isReadApart: Scalar = (value): value is unknown => value !== undefined;
/** How every type of event is read and folded. */
const rules = new Map(
  Object.entries<Fields>(logEvents).map(([type, fields]) => {
    const partRule = partRules[type.split(".")[1] as string];
    const fold: Rule = partRule ?? ("task" in fields ? foldLifecycle : foldTask);
    return [type, { read: readerOf({ ...fields, source: optional(isReadApart) }), fold }];
  }),
);
const readSource = readerOf(sourceRef);
const readSnapshot = readerOf(snapshot);

/** Folds one frame into the draft: numbers first (duplicates, gaps), then the rule for its type. */
export function fold(draft: Draft, frame: StreamFrame, options: FoldOptions): void {
  const event = frame as LogEvent | TaskSnapshot;
  if (typeof event !== "object" || event === null || typeof event.type !== "string") {
    draft.ignored++;
  } else if (event.type.startsWith("stream.") || frame.type === "error") {
    // Frames of the transport do not change a task.
  } else if (!isId(event.task_id)) {
    draft.ignored++;
  } else if (event.type === "task.snapshot") {
    foldSnapshotFrame(draft, event, options);
  } else if (options.legacy && (event.task_seq ?? null) === null) {
    apply(draft, event, options);
  } else if (!isIndex(event.task_seq) || !isCursor(event.sequence_number) || !follows(event)) {
    draft.ignored++;
  } else {
    foldNumbered(draft, event, options);
  }
}

/** Whether `prev_task_seq` can be the number of an earlier event. */
function follows({ prev_task_seq, task_seq }: LogEvent): boolean {
  const previous = prev_task_seq ?? -1;
  return isCursor(previous) && previous < task_seq;
}

function foldNumbered(draft: Draft, event: LogEvent, options: FoldOptions): void {
  const applied = draft.table.get(event.task_id)?.appliedSeq ?? -1;
  const isEarly = (event.prev_task_seq ?? event.task_seq - 1) > applied;
  if (isEarly && !nests(event)) {
    draft.ignored++; // It would be parked unread.
    return;
  }
  noteSequence(draft, event.sequence_number);
  if (event.task_seq <= applied) return;
  if (isEarly) {
    park(draft, event);
    return;
  }
  apply(draft, event, options);
  if (draft.gapCount > 0) drain(draft, event.task_id, options);
  if (options.filtered && draft.gapCount === 0) skipLeftOut(draft);
}

function apply(draft: Draft, event: LogEvent, options: FoldOptions): void {
  const before = draft.table.get(event.task_id);
  const ended = before !== undefined && before.appliedSeq >= 0 && isTerminal(before.status);
  const isNew = before === undefined || !hasEvents(before);
  const task = editTask(draft, event.task_id);
  if (isIndex(event.task_seq)) task.appliedSeq = event.task_seq;
  else if (task.status === "unknown") task.status = "in_progress";
  const isStamped = options.legacy || isIndex(event.created_at);
  const isFitting = !ended && isStamped && foldSource(task, event.source ?? undefined, options);
  if (!isFitting || !applyRule(draft, event, options)) draft.ignored++;
  if (isNew || event.type === "task.child.started") chooseRoot(draft, event.task_id);
}

/** Keeps the first source of a task; returns false if the source does not fit the grammar. */
function foldSource(task: TaskNode, sent: SourceRef | undefined, options: FoldOptions): boolean {
  if (sent === undefined || sent === task.source || isRepeated(sent, task.source)) return true;
  const source = readSource(sent, options) as SourceRef | undefined;
  if (source === undefined) return false;
  task.source ??= source;
  return true;
}

/** Whether a source is short and in the place of one that was read before. */
function isRepeated(source: SourceRef, before: SourceRef | undefined): boolean {
  let fields = 0;
  for (const _name in source) fields++;
  return (
    before !== undefined &&
    fields === 3 &&
    source.path === before.path &&
    source.agentId === before.agentId &&
    source.depth === before.depth
  );
}

function applyRule(draft: Draft, event: LogEvent, options: FoldOptions): boolean {
  if (event.type === "task.text.delta" && isPlain(event, event.block_index)) {
    return foldPart(draft, event, options);
  }
  const rule = rules.get(event.type);
  if (rule === undefined) {
    draft.unknown++;
    return true;
  }
  const fitting = isPlainDelta(event) ? event : rule.read(event, options);
  return fitting !== undefined && rule.fold(draft, fitting as never, options);
}

/** Folds an event of a known type that fits the grammar, whatever its number; returns false if it does not fit the tree. */
export function foldFitting(draft: Draft, event: LogEvent, options: FoldOptions): boolean {
  return rules.get(event.type)?.fold(draft, event as never, options) ?? false;
}

/** Whether an event is a delta that plainly fits the grammar: most events are, and reading one in full takes longer. */
function isPlainDelta(event: LogEvent): boolean {
  if (event.type === "task.tool_call_arguments.delta") return isPlain(event, 0);
  if (event.type === "task.reasoning_text.delta") return isPlain(event, event.content_index);
  return event.type === "task.reasoning_summary_text.delta" && isPlain(event, event.summary_index);
}

function isPlain(event: Pick<TextDelta, "delta" | "item_id" | "output_index">, index: number) {
  return (
    isText(event.delta) && isIndex(index) && isIndex(event.output_index) && isId(event.item_id)
  );
}

function foldSnapshotFrame(draft: Draft, event: TaskSnapshot, options: FoldOptions): void {
  const applied = draft.table.get(event.task_id)?.appliedSeq ?? -1;
  const fitting = readSnapshot(event, options) as TaskSnapshot | undefined;
  const isOlder = fitting !== undefined && fitting.through_task_seq < applied;
  if (fitting === undefined || (!isOlder && !foldSnapshot(draft, fitting, options))) {
    draft.ignored++;
    return;
  }
  if (!isOlder) {
    chooseRoot(draft, event.task_id);
    drain(draft, event.task_id, options);
  }
  if (isOlder && !fitting.final) return;
  draft.snapshotCursor = Math.max(draft.snapshotCursor ?? -1, event.through_sequence_number);
  if (fitting.final) passSnapshots(draft);
}

/** Keeps an event, in the order of `task_seq`, until the events before it have arrived. */
function park(draft: Draft, event: LogEvent): void {
  const task = editTask(draft, event.task_id);
  if (task.parked === undefined) draft.gapCount++;
  const { parked = [] } = task;
  const isBefore = (other: LogEvent) => other.task_seq < event.task_seq;
  const isLast = (last(parked)?.task_seq ?? -1) < event.task_seq;
  const isThere = !isLast && find(parked, isBefore)?.task_seq === event.task_seq;
  task.parked = isThere ? parked : splice(parked, draft.owned, isBefore, 0, event);
}

/** Applies the parked events that nothing is missing before. */
function drain(draft: Draft, taskId: string, options: FoldOptions): void {
  for (;;) {
    const { parked, appliedSeq = -1 } = draft.table.get(taskId) ?? {};
    if (parked === undefined) return;
    let applied = appliedSeq;
    const page = firstPage(parked);
    const end = page.findIndex((event) => {
      if ((event.prev_task_seq ?? event.task_seq - 1) > applied) return true;
      applied = Math.max(applied, event.task_seq);
      return false;
    });
    if (end === 0) return;
    const due = page.slice(0, end < 0 ? page.length : end);
    const task = editTask(draft, taskId);
    task.parked = splice(parked, draft.owned, () => false, due.length);
    if (task.parked.length === 0) {
      delete task.parked;
      draft.gapCount--;
    }
    for (const event of due) {
      if (event.task_seq > (draft.table.get(taskId)?.appliedSeq ?? -1))
        apply(draft, event, options);
    }
  }
}

/** Moves `safeCursor` to the last number before which none is missing. */
function noteSequence(draft: Draft, sequence: number): void {
  if (sequence > (draft.snapshotCursor ?? sequence)) passSnapshots(draft);
  const { safeCursor, ahead, owned } = draft;
  if (sequence === safeCursor + 1 && ahead.length === 0) {
    draft.safeCursor = sequence;
    return;
  }
  if (sequence <= safeCursor) return;
  const isBefore = (range: readonly [number, number]) => range[1] < sequence - 1;
  const end = last(ahead);
  const range = end?.[1] === sequence - 1 ? end : find(ahead, isBefore);
  if (range === undefined || range[0] > sequence + 1) {
    draft.ahead = splice(ahead, owned, isBefore, 0, [sequence, sequence]);
  } else if (range[0] > sequence) {
    draft.ahead = splice(ahead, owned, isBefore, 1, [sequence, range[1]]);
  } else if (range[1] < sequence) {
    let to = sequence;
    if (range !== end) {
      const isLower = (other: readonly [number, number]) => other[0] <= sequence;
      const next = find(ahead, isLower);
      if (next?.[0] === sequence + 1) {
        to = next[1];
        draft.ahead = splice(ahead, owned, isLower, 1);
      }
    }
    draft.ahead = splice(draft.ahead, owned, isBefore, 1, [range[0], to]);
  }
  passRanges(draft);
}

/** All snapshots of a log have arrived: no event up to their number is missing. */
function passSnapshots(draft: Draft): void {
  draft.safeCursor = Math.max(draft.safeCursor, draft.snapshotCursor ?? -1);
  draft.snapshotCursor = undefined;
  passRanges(draft);
}

/** Moves `safeCursor` over the ranges that nothing is missing before. */
function passRanges(draft: Draft): void {
  for (;;) {
    const range = at(draft.ahead, 0);
    if (range === undefined || range[0] > draft.safeCursor + 1) return;
    draft.safeCursor = Math.max(draft.safeCursor, range[1]);
    draft.ahead = splice(draft.ahead, draft.owned, () => false, 1);
  }
}

/** On a filtered stream all received numbers are safe if no task has a gap. */
function skipLeftOut(draft: Draft): void {
  draft.safeCursor = last(draft.ahead)?.[1] ?? draft.safeCursor;
  draft.ahead = [];
}

/**
 * The root is the task without a parent. Until its events arrive, the topmost task with events is the root, so that a
 * stream of a subtree has a root as well.
 */
function chooseRoot(draft: Draft, taskId: string): void {
  const parentless = draft.table.get(taskId)?.parentTaskId === undefined;
  let candidate = draft.rootId ?? taskId;
  const seen = new Set<string>();
  for (;;) {
    seen.add(candidate);
    const parentId = draft.table.get(candidate)?.parentTaskId;
    if (parentId === undefined) break;
    const parent = draft.table.get(parentId);
    if (parent === undefined || !hasEvents(parent) || seen.has(parentId)) {
      if (parentless) candidate = taskId;
      break;
    }
    candidate = parentId;
  }
  draft.rootId = candidate;
}

/** Whether a task has events of its own. */
function hasEvents(task: TaskNode): boolean {
  return task.appliedSeq >= 0 || task.status === "in_progress";
}
