import { isObject } from "../../base/plain.ts";
import type { ChildStarted, StreamFrame } from "../event.ts";
import { pick } from "../fold/draft.ts";
import { TaskTree } from "../reduce.ts";
import type { SourceRef } from "../source.ts";
import type { Annotation, TaskMode, TaskObject, TaskStatus, Usage } from "../task.ts";

/** The names of the rules; docs/protocol/check-stream.md explains them. */
export type CheckRule =
  | `I${1 | 2 | 3 | 4 | 5 | 6 | 8 | 9 | 10 | 11 | 12 | 14 | 15}`
  | `A${1 | 3 | 5 | 9 | 16 | 17 | 20 | 23}`
  | `L${3 | 6}`
  | ("shape" | "word" | "sequence" | "task_seq" | "duplicate" | "frame" | "snapshot")
  | ("edge" | "link" | "child" | "call" | "approval" | "reason" | "usage" | "surrogate");

/** A rule that an event breaks; `index` is the index of the event in the list. */
export interface Problem {
  readonly index: number;
  readonly rule: CheckRule;
  readonly message: string;
}

/** A frame whose type is a string. */
export type Frame = Readonly<Record<string, unknown>> & { readonly type: string };

/** A block of any type, in either form of the protocol. */
export interface SentBlock {
  readonly type: string;
  readonly id?: unknown;
  readonly reference_id?: number;
  readonly status?: string;
  readonly text?: string;
  readonly image_url?: { readonly url: string };
  readonly partial_image_index?: number;
  readonly annotations?: readonly Annotation[];
  readonly task_id?: string;
}
/** An item of any type. */
export interface SentItem {
  readonly type: string;
  readonly id: string;
  readonly status?: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly arguments_status?: string;
  readonly block_list?: readonly SentBlock[];
  readonly summary?: readonly SentBlock[];
  readonly content?: readonly SentBlock[];
  readonly child_task_id?: string;
  readonly error?: unknown;
  readonly progress?: unknown;
  readonly encrypted_content?: string;
  readonly provider_call_id?: string;
  readonly purpose?: string;
}

/** Options for `checkStream`. */
export interface CheckOptions {
  /** The first form of the protocol: no numbers, lifecycle, sources or statuses; numbers as ids of blocks. */
  readonly legacy?: boolean;
  /** A filtered stream, which leaves out tasks, items and numbers. */
  readonly filtered?: boolean;
  /** A stream that has not ended: tasks and items may be open at its end. */
  readonly partial?: boolean;
}

/** The state of a check. */
export type Check = ReturnType<typeof newCheck>;

/** The state before the first frame. */
export function newCheck(options: CheckOptions) {
  return {
    options,
    problems: [] as Problem[],
    /** The index of the current event. */
    index: -1,
    /** Whether events may name tasks and items that the stream does not have: if it is filtered, or after a snapshot. */
    lenient: options.filtered ?? false,
    lastSequence: -1,
    /** The last number of a connection that sends events again; undefined if none may be repeated. */
    replayedTo: undefined as number | undefined,
    rootId: undefined as string | undefined,
    /** The root that `stream.opened` names, and the first event of the log that it has. */
    openedRootId: undefined as string | undefined,
    oldestSequence: 0,
    /** The number of the snapshots that precede this frame, and of the last event before them. */
    snapshotSequence: undefined as number | undefined,
    eventSequence: -1,
    /** The fold of the frames so far, to compare with snapshots; `unfolded` are those it does not have yet. */
    tree: new TaskTree(pick(options, "legacy", "filtered")),
    unfolded: [] as StreamFrame[],
    /** Whether the last control frame was `stream.closed`. */
    closed: false,
    tasks: new Map<string, TaskState>(),
    /** The children that parents have named, by id. */
    children: new Map<string, ChildState>(),
    approvals: new Map<string, ApprovalState>(),
    /** The sessions of all tasks and the call ids of all tool calls so far. */
    sessionIds: new Set<string>(),
    callIds: new Set<string>(),
    /** The first tool result of each call id, for producers that send no links. */
    results: new Map<string, { readonly task: TaskState; readonly item: ItemState }>(),
  };
}

/** The state of a task. */
export type TaskState = ReturnType<typeof newTask>;

function newTask(id: string, index: number) {
  return {
    id,
    /** The index of its last event. */
    lastIndex: index,
    status: undefined as TaskStatus | undefined,
    ended: false,
    lastSeq: -1,
    /** The event of every `task_seq` so far. */
    seen: new Map<number, Frame>(),
    source: undefined as SourceRef | undefined,
    /** The task as `task.created` or a snapshot describes it. */
    sent: {} as Partial<TaskObject>,
    /** The session that its children name as their parent's. */
    childSessionId: undefined as string | undefined,
    parentId: undefined as string | undefined,
    parentItemId: undefined as string | undefined,
    /** The index of the event that named the parent. */
    linkedAt: index,
    mode: undefined as TaskMode | undefined,
    /** Whether I14 was reported for it. */
    outsideReported: false,
    /** The `output_index` of the next item; on a filtered stream the lowest one. */
    nextIndex: 0,
    itemAt: new Map<number, ItemState>(),
    itemById: new Map<string, ItemState>(),
    /** The calls and the results that were not discarded, by call id. */
    calls: new Map<string, ItemState>(),
    results: new Map<string, ItemState>(),
    /** The approvals that have no decision yet. */
    pending: new Set<string>(),
    usage: undefined as Usage | undefined,
  };
}

/** The link from a parent to a child. */
export interface ChildState {
  readonly parentId: string;
  readonly itemId: string;
  readonly index: number;
  readonly agent?: ChildStarted["agent"];
  mode: TaskMode;
  finished: boolean;
}

/** The state of an approval. */
export interface ApprovalState {
  readonly taskId: string;
  resolved: boolean;
}

/** The state of an item. */
export type ItemState = ReturnType<typeof newItem>;

function newItem(sent: SentItem, index: number) {
  return {
    id: sent.id,
    type: sent.type,
    callId: sent.call_id,
    /** The item as it was opened, at the index of the stream. */
    sent,
    openedAt: index,
    state: "open" as "open" | "done" | "discarded",
    isCompleted: false,
    childId: undefined as string | undefined,
    blocks: [] as PartState[],
    summary: [] as PartState[],
    content: [] as PartState[],
    /** A tool call's arguments: at most one entry. */
    arguments: [] as PartState[],
  };
}

/** The state of a block, a paragraph of a summary, a raw text or the arguments of a call. */
export type PartState = ReturnType<typeof newPart>;

/** Creates a part of an item. */
export function newPart(kind: string, open: boolean, text: string, block?: SentBlock) {
  return {
    kind,
    /** The part as it was opened or closed. */
    block,
    open,
    /** The text so far; for an image, its url. */
    text,
    deltas: 0,
    /** Whether the text so far ends in the first half of a surrogate pair. */
    endsInHalf: endsInHalf(text),
    lastPartial: -1,
    annotations: [] as { readonly annotation: Annotation; readonly index: number }[],
  };
}

/** Reports a problem, by default at the current event. */
export function report(check: Check, rule: CheckRule, message: string, index = check.index): void {
  check.problems.push({ index, rule, message });
}

/** A value as a short text for a message. */
export function show(value: unknown): string {
  if (typeof value === "string") {
    return JSON.stringify(value.length > 48 ? `${value.slice(0, 47)}…` : value);
  }
  if (value === null || typeof value !== "object") return String(value);
  return Array.isArray(value) ? "an array" : "an object";
}

/** Whether two values are the same JSON; null is absent. */
export function isSame(left: unknown, right: unknown): boolean {
  if (left === right || (left ?? right ?? null) === null) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((entry, at) => isSame(entry, right[at]));
  }
  if (!isObject(left) || !isObject(right)) return false;
  return Object.keys({ ...left, ...right }).every((key) => isSame(left[key], right[key]));
}

/** The state of a task; created with its first event or snapshot. */
export function taskState(check: Check, id: string): TaskState {
  const task = check.tasks.get(id) ?? newTask(id, check.index);
  check.tasks.set(id, task);
  return task;
}

/** Adds an item to a task. */
export function addItem(check: Check, task: TaskState, at: number, sent: SentItem): ItemState {
  const item = newItem(sent, check.index);
  task.itemAt.set(at, item);
  task.itemById.set(item.id, item);
  task.nextIndex = Math.max(task.nextIndex, at + 1);
  return item;
}

/** Whether a text ends in the first half of a surrogate pair. */
export function endsInHalf(text: string): boolean {
  const unit = text.charCodeAt(text.length - 1);
  return unit >= 0xd800 && unit <= 0xdbff;
}
