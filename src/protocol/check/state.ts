import type { SourceRef } from "../source.ts";
import type { Annotation, TaskMode, TaskStatus } from "../task.ts";
import type { Problem, Rule } from "./rule.ts";

/** How much a stream promises. */
export interface CheckOptions {
  /** A producer of the first form: no numbers, no lifecycle, no sources, no statuses, numbers as block ids. */
  readonly legacy?: boolean;
  /** A stream with a lens: tasks, items and numbers are left out on purpose. */
  readonly filtered?: boolean;
  /** A stream that has not ended: what is still open at its end is no problem. */
  readonly partial?: boolean;
}

/** Everything that the rules remember of a stream. */
export interface Check {
  readonly options: CheckOptions;
  readonly problems: Problem[];
  /** The place of the event that is being looked at. */
  index: number;
  /** Whether things may be named that the stream has not shown: under a lens, or after a snapshot. */
  lenient: boolean;
  lastSequence: number;
  rootId: string | undefined;
  /** Whether the last control frame was `stream.closed`. */
  closed: boolean;
  readonly tasks: Map<string, TaskState>;
  /** What parents have said of their children, by the child's id. */
  readonly children: Map<string, ChildState>;
  readonly approvals: Map<string, ApprovalState>;
  /** The call ids of all tool calls so far. */
  readonly callIds: Set<string>;
  /** The first tool result of each call id, for producers that send no links. */
  readonly results: Map<string, { readonly task: TaskState; readonly item: ItemState }>;
}

/** What the rules remember of a task. */
export interface TaskState {
  readonly id: string;
  /** The place of its latest event. */
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
  /** The place of the event that named the parent. */
  linkedAt: number;
  mode: TaskMode | undefined;
  /** Whether I14 was reported for it: once is enough. */
  outsideReported: boolean;
  /** The `output_index` that the next item must have, or may not be below. */
  nextIndex: number;
  readonly itemAt: Map<number, ItemState>;
  readonly itemById: Map<string, ItemState>;
  totalTokens: number;
}

/** What a parent has said of a child. */
export interface ChildState {
  readonly parentId: string;
  readonly itemId: string;
  readonly index: number;
  mode: TaskMode;
  finished: boolean;
}

/** Who asked, and whether it was answered. */
export interface ApprovalState {
  readonly taskId: string;
  resolved: boolean;
}

/** What the rules remember of an item. */
export interface ItemState {
  readonly id: string;
  readonly type: string;
  readonly callId: string | undefined;
  readonly name: string | undefined;
  /** The place of the event that opened it. */
  readonly openedAt: number;
  state: "open" | "done" | "discarded";
  childId: string | undefined;
  readonly blocks: PartState[];
  readonly summary: PartState[];
  readonly content: PartState[];
  /** A tool call's arguments: at most one entry. */
  readonly arguments: PartState[];
}

/** What the rules remember of a block, a summary's paragraph, a raw text or a call's arguments. */
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

/** Writes a problem down, at the event that is being looked at unless another place is given. */
export function report(check: Check, rule: Rule, message: string, index = check.index): void {
  check.problems.push({ index, rule, message });
}

/** A value for a message: short, whatever it is. */
export function show(value: unknown): string {
  if (typeof value === "string") {
    return JSON.stringify(value.length > 48 ? `${value.slice(0, 47)}…` : value);
  }
  if (value === null || typeof value !== "object") return String(value);
  return Array.isArray(value) ? "a list" : "an object";
}

/** The memory of a task, made when its first event or snapshot arrives. */
export function taskState(check: Check, id: string): TaskState {
  const known = check.tasks.get(id);
  if (known !== undefined) return known;
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

/** A new item in its task's memory. */
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

/** A new part of an item. */
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
