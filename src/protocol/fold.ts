import type { Draft, Verdict } from "./draft.ts";
import { editTask } from "./draft.ts";
import type { LogEvent, StreamFrame, TaskSnapshot, TextDelta } from "./event.ts";
import { foldItem } from "./fold-item.ts";
import { foldBlock, foldReasoning, foldToolCall } from "./fold-part.ts";
import { foldLifecycle, foldSnapshot, foldTask } from "./fold-task.ts";
import { logEvents, snapshot, sourceRef } from "./grammar.ts";
import type { Fields, Scalar } from "./shape.ts";
import { isCursor, isId, isIndex, isText, nests, readerOf } from "./shape.ts";
import type { SourceRef } from "./source.ts";
import type { Task } from "./task.ts";
import { isTerminal } from "./task.ts";

/** Options for folding a stream. */
export interface FoldOptions {
  /** The producer sends no numbers: events apply as they arrive, and a repeated delta applies twice. */
  readonly legacy?: boolean;
  /** The stream is filtered, so a missing `sequence_number` is not a gap. */
  readonly filtered?: boolean;
}

type Rule = (draft: Draft, event: never, options: FoldOptions) => Verdict;
/** The rules for events of items and parts, by the second word of their type. */
const partRules: Readonly<Record<string, Rule>> = {
  text: foldBlock,
  image: foldBlock,
  block: foldBlock,
  reasoning_summary_text: foldReasoning,
  reasoning_summary_item: foldReasoning,
  reasoning_text: foldReasoning,
  tool_call_arguments: foldToolCall,
  tool_result: foldToolCall,
  output_item: foldItem,
};
/** `apply` reads the source, and only once for all events of a task that share it. */
const isReadApart: Scalar = (value): value is unknown => value !== undefined;
/** How every type of event is read and folded. */
const rules = new Map(
  Object.entries<Fields>(logEvents).map(([type, fields]) => {
    const partRule = partRules[type.split(".")[1] as string];
    const fold: Rule = partRule ?? ("task" in fields ? foldLifecycle : foldTask);
    return [type, { read: readerOf({ ...fields, "source?": isReadApart }), fold }];
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
  if (draft.gaps.length > 0) drain(draft, event.task_id, options);
  if (options.filtered && draft.gaps.length === 0) skipLeftOut(draft);
}

function apply(draft: Draft, event: LogEvent, options: FoldOptions): void {
  const before = draft.table.get(event.task_id);
  const ended = before !== undefined && before.appliedSeq >= 0 && isTerminal(before.status);
  const isNew = before === undefined || !hasEvents(before);
  const task = editTask(draft, event.task_id);
  if (isIndex(event.task_seq)) task.appliedSeq = event.task_seq;
  else if (task.status === "unknown") task.status = "in_progress";
  const sent = event.source ?? undefined;
  const isRead = sent === undefined || sent === task.source || isRepeated(sent, task.source);
  const source = isRead ? sent : (readSource(sent, options) as SourceRef | undefined);
  const isStamped = options.legacy || isIndex(event.created_at);
  let verdict: Verdict = "ignored";
  if (!ended && isStamped && (isRead || source !== undefined)) {
    if (source !== undefined) task.source ??= source;
    verdict = applyRule(draft, event, options);
  }
  if (verdict === "ignored") draft.ignored++;
  else if (verdict === "unknown") draft.unknown++;
  if (isNew || event.type === "task.child.started") chooseRoot(draft, event.task_id);
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

function applyRule(draft: Draft, event: LogEvent, options: FoldOptions): Verdict {
  if (event.type === "task.text.delta" && isPlain(event, event.block_index)) {
    return foldBlock(draft, event, options);
  }
  const rule = rules.get(event.type);
  if (rule === undefined) return "unknown";
  const fitting = isPlainDelta(event) ? event : rule.read(event, options);
  return fitting === undefined ? "ignored" : rule.fold(draft, fitting as never, options);
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
  if (fitting !== undefined && fitting.through_task_seq < applied) return;
  if (fitting === undefined || foldSnapshot(draft, fitting, options) === "ignored") {
    draft.ignored++;
    return;
  }
  chooseRoot(draft, event.task_id);
  draft.snapshotCursor = Math.max(draft.snapshotCursor ?? -1, event.through_sequence_number);
  drain(draft, event.task_id, options);
}

/** Keeps an event, in the order of `task_seq`, until the events before it have arrived. */
function park(draft: Draft, event: LogEvent): void {
  const task = editTask(draft, event.task_id);
  const parked = task.parked ?? [];
  let at = parked.length;
  while (at > 0 && (parked[at - 1] as LogEvent).task_seq > event.task_seq) at--;
  if (at > 0 && (parked[at - 1] as LogEvent).task_seq === event.task_seq) return;
  task.parked = parked.toSpliced(at, 0, event);
  noteGap(draft, event.task_id);
}

function drain(draft: Draft, taskId: string, options: FoldOptions): void {
  const parked = draft.table.get(taskId)?.parked as readonly LogEvent[] | undefined;
  if (parked === undefined) return;
  let next = 0;
  for (; next < parked.length; next++) {
    const event = parked[next] as LogEvent;
    const applied = draft.table.get(taskId)?.appliedSeq ?? -1;
    if (event.task_seq <= applied) continue;
    if ((event.prev_task_seq ?? event.task_seq - 1) > applied) break;
    apply(draft, event, options);
  }
  const task = editTask(draft, taskId);
  if (next === parked.length) delete task.parked;
  else task.parked = parked.slice(next);
  noteGap(draft, taskId);
}

function noteGap(draft: Draft, taskId: string): void {
  const task = draft.table.get(taskId);
  const first = task?.parked?.[0] as LogEvent | undefined;
  const others = draft.gaps.filter((gap) => gap.taskId !== taskId);
  draft.gaps =
    task === undefined || first === undefined
      ? others
      : [...others, { taskId, after: task.appliedSeq, before: first.task_seq }];
}

/** Moves `safeCursor` to the last number before which none is missing. */
function noteSequence(draft: Draft, sequence: number): void {
  if (draft.snapshotCursor !== undefined && sequence > draft.snapshotCursor) {
    draft.safeCursor = Math.max(draft.safeCursor, draft.snapshotCursor);
    draft.snapshotCursor = undefined;
    draft.ahead = draft.ahead.filter(([, to]) => to > draft.safeCursor);
  }
  if (sequence === draft.safeCursor + 1 && draft.ahead.length === 0) {
    draft.safeCursor = sequence;
    return;
  }
  if (sequence <= draft.safeCursor) return;
  draft.ahead = insertInto(draft.ahead, sequence);
  const [from, to] = draft.ahead[0] as readonly [number, number];
  if (from === draft.safeCursor + 1) {
    draft.safeCursor = to;
    draft.ahead = draft.ahead.slice(1);
  }
}

/** On a filtered stream all received numbers are safe if no task has a gap. */
function skipLeftOut(draft: Draft): void {
  const last = draft.ahead[draft.ahead.length - 1];
  if (last === undefined) return;
  draft.safeCursor = last[1];
  draft.ahead = [];
}

function insertInto(
  ranges: readonly (readonly [number, number])[],
  value: number,
): readonly (readonly [number, number])[] {
  let at = ranges.length;
  while (at > 0 && (ranges[at - 1] as readonly [number, number])[0] > value) at--;
  const before = ranges[at - 1];
  const after = ranges[at];
  if (before !== undefined && value <= before[1]) return ranges;
  const joinsBefore = before !== undefined && before[1] === value - 1;
  const joinsAfter = after !== undefined && after[0] === value + 1;
  const joined: readonly [number, number] = [
    joinsBefore ? before[0] : value,
    joinsAfter ? after[1] : value,
  ];
  const start = joinsBefore ? at - 1 : at;
  return ranges.toSpliced(start, (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), joined);
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
function hasEvents(task: Task): boolean {
  return task.appliedSeq >= 0 || task.status === "in_progress";
}
