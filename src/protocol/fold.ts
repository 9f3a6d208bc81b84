import type { Draft, Verdict } from "./draft.ts";
import { editTask, isId, isIndex } from "./draft.ts";
import type { LogEvent, StreamFrame, TaskSnapshot } from "./event.ts";
import { fits, isSource, nests } from "./fits.ts";
import { foldItem } from "./fold-item.ts";
import { foldBlock, foldReasoning, foldToolCall } from "./fold-part.ts";
import { foldLifecycle, foldSnapshot, foldTask } from "./fold-task.ts";
import type { Task } from "./task.ts";
import { isTerminal } from "./task.ts";

/** How a stream is to be read. */
export interface FoldOptions {
  /** The producer sends no numbers: apply events as they arrive. Repeated deltas are then not recognised. */
  readonly legacy?: boolean;
  /** The stream leaves events out on purpose, so a missing `sequence_number` means nothing. */
  readonly filtered?: boolean;
}

/** Folds one frame into the draft: numbers first (duplicates, gaps), then the rule for its type. */
export function fold(draft: Draft, frame: StreamFrame, options: FoldOptions): void {
  const event = frame as LogEvent | TaskSnapshot;
  if (typeof event !== "object" || event === null || typeof event.type !== "string") {
    draft.ignored++;
  } else if (event.type.startsWith("stream.") || frame.type === "error") {
    // The transport's own frames say nothing about a task.
  } else if (!isId(event.task_id)) {
    draft.ignored++;
  } else if (event.type === "task.snapshot") {
    foldSnapshotFrame(draft, event, options);
  } else if (event.task_seq === undefined && options.legacy) {
    apply(draft, event, options);
  } else if (!isIndex(event.task_seq) || !isCursor(event.sequence_number) || !follows(event)) {
    draft.ignored++;
  } else {
    foldNumbered(draft, event, options);
  }
}

/** Whether a value can be a position or, -1, the one before the first: an event that is in no log yet has that. */
function isCursor(value: unknown): value is number {
  return isIndex(value) || value === -1;
}

/** Whether what an event says of the one that was let through before it can be true. */
function follows({ prev_task_seq, task_seq }: LogEvent): boolean {
  if (prev_task_seq === undefined) return true;
  return isCursor(prev_task_seq) && prev_task_seq < task_seq;
}

function foldNumbered(draft: Draft, event: LogEvent, options: FoldOptions): void {
  const applied = draft.table.get(event.task_id)?.appliedSeq ?? -1;
  const isEarly = (event.prev_task_seq ?? event.task_seq - 1) > applied;
  if (isEarly && !nests(event)) {
    draft.ignored++; // It would be kept as it is. When it comes in its turn, it is refused like any other.
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
  if (event.task_seq !== undefined) task.appliedSeq = event.task_seq;
  else if (task.status === "unknown") task.status = "in_progress";
  let refused = ended;
  if (event.source !== undefined && task.source === undefined) {
    if (isSource(event.source)) task.source = event.source;
    else refused = true;
  }

  const verdict = refused ? "ignored" : applyRule(draft, event, options);
  if (verdict === "ignored") draft.ignored++;
  else if (verdict === "unknown") draft.unknown++;
  if (isNew || event.type === "task.child.started") chooseRoot(draft, event.task_id);
}

/** The rule for an event; what is not built as its type says never reaches one. */
function applyRule(draft: Draft, event: LogEvent, options: FoldOptions): Verdict {
  switch (event.type) {
    case "task.text.delta":
      return foldBlock(draft, event, options);
    case "task.reasoning_summary_text.delta":
    case "task.reasoning_text.delta":
      return foldReasoning(draft, event, options);
    case "task.tool_call_arguments.delta":
      return foldToolCall(draft, event, options);
    case "task.text.added":
    case "task.text.done":
    case "task.text.annotation.added":
    case "task.image.added":
    case "task.image.delta":
    case "task.image.done":
    case "task.block.done":
      return fits(event) ? foldBlock(draft, event, options) : "ignored";
    case "task.reasoning_summary_item.added":
    case "task.reasoning_summary_item.done":
    case "task.reasoning_text.done":
      return fits(event) ? foldReasoning(draft, event, options) : "ignored";
    case "task.tool_call_arguments.done":
    case "task.tool_result.progress":
      return fits(event) ? foldToolCall(draft, event, options) : "ignored";
    case "task.output_item.added":
    case "task.output_item.done":
    case "task.output_item.discarded":
      return fits(event) ? foldItem(draft, event, options) : "ignored";
    case "task.created":
    case "task.in_progress":
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      return fits(event) ? foldLifecycle(draft, event, options) : "ignored";
    case "task.suspended":
    case "task.resumed":
    case "task.cancelling":
    case "task.child.started":
    case "task.child.finished":
    case "task.child.promoted":
    case "task.approval.requested":
    case "task.approval.resolved":
    case "task.usage":
    case "task.custom":
      return fits(event) ? foldTask(draft, event) : "ignored";
    default:
      return "unknown";
  }
}

function foldSnapshotFrame(draft: Draft, event: TaskSnapshot, options: FoldOptions): void {
  const applied = draft.table.get(event.task_id)?.appliedSeq ?? -1;
  const fit = fits(event);
  if (fit && event.through_task_seq < applied) return;
  if (!fit || foldSnapshot(draft, event, options) === "ignored") {
    draft.ignored++;
    return;
  }
  chooseRoot(draft, event.task_id);
  draft.snapshotCursor = Math.max(draft.snapshotCursor ?? -1, event.through_sequence_number);
  drain(draft, event.task_id, options);
}

/** Keeps an event until what is missing before it has come; its order is its `task_seq`. */
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

/** Moves `safeCursor` over every number up to which nothing is missing. */
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

/** On a filtered stream numbers are missing on purpose: without a gap in any task, all that was received is safe. */
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
 * The root is the task that has no parent. Until its own events arrive, the topmost task that has any stands in for
 * it, so that a stream of one subtree has a root as well.
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

/** Whether a task is more than a name that another one's events have mentioned. */
function hasEvents(task: Task): boolean {
  return task.appliedSeq >= 0 || task.status === "in_progress";
}
