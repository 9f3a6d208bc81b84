import type { SourceRef } from "../source.ts";
import type { Annotation, TaskMode, TaskStatus } from "../task.ts";
import type { Problem, Rule } from "./rule.ts";

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
export interface Check {
  readonly options: CheckOptions;
  readonly problems: Problem[];
  /** The index of the current event. */
  index: number;
  /** Whether events may name tasks and items that the stream does not have: if it is filtered, or after a snapshot. */
  lenient: boolean;
  lastSequence: number;
  rootId: string | undefined;
  /** Whether the last control frame was `stream.closed`. */
  closed: boolean;
  readonly tasks: Map<string, TaskState>;
  /** The children that parents have named, by id. */
  readonly children: Map<string, ChildState>;
  readonly approvals: Map<string, ApprovalState>;
  /** The call ids of all tool calls so far. */
  readonly callIds: Set<string>;
  /** The first tool result of each call id, for producers that send no links. */
  readonly results: Map<string, { readonly task: TaskState; readonly item: ItemState }>;
}

/** The state of a task. */
export interface TaskState {
  readonly id: string;
  /** The index of its last event. */
  lastIndex: number;
  status: TaskStatus | undefined;
  ended: boolean;
  lastSeq: number;
  /** Type and sequence number of every `task_seq` so far. */
  readonly seen: Map<number, { readonly type: string; readonly sequence: unknown }>;
  source: SourceRef | undefined;
  sessionId: string | undefined;
  parentId: string | undefined;
  parentItemId: string | undefined;
  /** The index of the event that named the parent. */
  linkedAt: number;
  mode: TaskMode | undefined;
  /** Whether I14 was reported for it. */
  outsideReported: boolean;
  /** The `output_index` of the next item; on a filtered stream the lowest one. */
  nextIndex: number;
  readonly itemAt: Map<number, ItemState>;
  readonly itemById: Map<string, ItemState>;
  totalTokens: number;
}

/** The link from a parent to a child. */
export interface ChildState {
  readonly parentId: string;
  readonly itemId: string;
  readonly index: number;
  mode: TaskMode;
  finished: boolean;
}

/** The state of an approval. */
export interface ApprovalState {
  readonly taskId: string;
  resolved: boolean;
}

/** The state of an item. */
export interface ItemState {
  readonly id: string;
  readonly type: string;
  readonly callId: string | undefined;
  readonly name: string | undefined;
  /** The index of the event that opened it. */
  readonly openedAt: number;
  state: "open" | "done" | "discarded";
  childId: string | undefined;
  readonly blocks: PartState[];
  readonly summary: PartState[];
  readonly content: PartState[];
  /** A tool call's arguments: at most one entry. */
  readonly arguments: PartState[];
}

/** The state of a block, a paragraph of a summary, a raw text or the arguments of a call. */
export interface PartState {
  readonly kind: string;
  open: boolean;
  /** The text so far; for an image, its url. */
  text: string;
  deltas: number;
  /** Whether the text so far ends in the first half of a surrogate pair. */
  endsInHalf: boolean;
  lastPartial: number;
  referenceId: number | undefined;
  annotations: { readonly annotation: Annotation; readonly index: number }[];
}

/** Reports a problem, by default at the current event. */
export function report(check: Check, rule: Rule, message: string, index = check.index): void {
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

/** The state of a task; created with its first event or snapshot. */
export function taskState(check: Check, id: string): TaskState {
  const existing = check.tasks.get(id);
  if (existing !== undefined) return existing;
  const task: TaskState = {
    id,
    lastIndex: check.index,
    status: undefined,
    ended: false,
    lastSeq: -1,
    seen: new Map(),
    source: undefined,
    sessionId: undefined,
    parentId: undefined,
    parentItemId: undefined,
    linkedAt: check.index,
    mode: undefined,
    outsideReported: false,
    nextIndex: 0,
    itemAt: new Map(),
    itemById: new Map(),
    totalTokens: 0,
  };
  check.tasks.set(id, task);
  return task;
}

/** Adds an item to a task. */
export function addItem(
  check: Check,
  task: TaskState,
  at: number,
  of: Pick<ItemState, "id" | "type" | "callId" | "name">,
): ItemState {
  const item: ItemState = {
    ...of,
    openedAt: check.index,
    state: "open",
    childId: undefined,
    blocks: [],
    summary: [],
    content: [],
    arguments: [],
  };
  task.itemAt.set(at, item);
  task.itemById.set(item.id, item);
  task.nextIndex = Math.max(task.nextIndex, at + 1);
  return item;
}

/** Creates a part of an item. */
export function newPart(kind: string, open: boolean, text: string): PartState {
  return {
    kind,
    open,
    text,
    deltas: 0,
    endsInHalf: endsInHalf(text),
    lastPartial: -1,
    referenceId: undefined,
    annotations: [],
  };
}

/** Whether a text ends in the first half of a surrogate pair. */
export function endsInHalf(text: string): boolean {
  const unit = text.charCodeAt(text.length - 1);
  return unit >= 0xd800 && unit <= 0xdbff;
}
