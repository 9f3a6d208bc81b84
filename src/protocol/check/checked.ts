import type { ChildStarted, LogEvent } from "../event.ts";
import { type Draft, draftOf, editTask, type TaskNode } from "../fold/draft.ts";
import { foldFitting } from "../fold/fold.ts";
import { at } from "../fold/pages.ts";
import { emptyTree } from "../reduce.ts";
import type { Annotation, TaskMode, TaskObject } from "../task.ts";
import { isTerminal } from "../task.ts";
import type { CheckRule, Problem } from "./problem.ts";

/** Options for `checkStream`. */
export interface CheckOptions {
  /** The first form of the protocol: no numbers, lifecycle, sources or statuses; numbers as ids of blocks. */
  readonly legacy?: boolean;
  /** A filtered stream, which leaves out tasks, items and numbers. */
  readonly filtered?: boolean;
  /** A stream that has not ended: tasks and items may be open at its end. */
  readonly partial?: boolean;
}

/** A frame whose type is a string. */
export type Frame = Readonly<Record<string, unknown>> & { readonly type: string };

/** A block of any type. */
export interface AnyBlock {
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
export interface AnyItem {
  readonly type: string;
  readonly id: string;
  readonly status?: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly arguments_status?: string;
  readonly block_list?: readonly AnyBlock[];
  readonly summary?: readonly AnyBlock[];
  readonly content?: readonly AnyBlock[];
  readonly child_task_id?: string;
  readonly error?: unknown;
  readonly progress?: unknown;
  readonly encrypted_content?: string;
  readonly provider_call_id?: string;
  readonly purpose?: string;
}

/** A check: the fold of the events so far, and what the rules need besides. */
export type Check = ReturnType<typeof newCheck>;

/** The check before the first frame. */
export function newCheck(options: CheckOptions) {
  const draft: Draft = draftOf(emptyTree());
  draft.owned = undefined;
  return {
    options,
    problems: [] as Problem[],
    /** The index of the current event. */
    index: -1,
    /** The fold, in place: an open item or part is the same object until it closes. */
    draft,
    /** An index may skip in any stream, so that one mistake is reported once. */
    foldOptions: { legacy: options.legacy ?? false, filtered: true },
    /** The tasks with events or a snapshot. */
    tasks: new Map<string, CheckedTask>(),
    /** The children that parents have named, by id. */
    children: new Map<string, ChildLink>(),
    approvals: new Map<string, { readonly taskId: string; resolved: boolean }>(),
    /** The sessions of all tasks and the call ids of all tool calls so far. */
    sessionIds: new Set<string>(),
    callIds: new Set<string>(),
    /** The parts and calls with deltas; true if the last one ended in the first half of a surrogate pair. */
    streamed: new WeakMap<object, boolean>(),
    /** The index of the event that opened an item or added an annotation. */
    sentAt: new WeakMap<object, number>(),
    /** The child that an item holds. */
    held: new WeakMap<object, string>(),
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
    /** Whether the last control frame was `stream.closed`. */
    closed: false,
  };
}

/** The facts about a task that the rules need besides its fold. */
export interface CheckedTask {
  readonly id: string;
  readonly node: TaskNode;
  /** The event of every `task_seq` so far. */
  readonly seen: Map<number, Frame>;
  /** The index of its last event, and of the event that named the parent. */
  lastIndex: number;
  linkedAt: number;
  /** The task as `task.created` or a snapshot describes it. */
  sent: Partial<TaskObject>;
  /** The session that its children name as their parent's. */
  childSessionId: string | undefined;
  mode: TaskMode | undefined;
  /** Whether the fold lacks events of it. */
  hasGap: boolean;
  /** Whether I14 was reported for it. */
  outsideReported: boolean;
  /** The output indexes of the items by id, and of the calls and results that were not discarded by call id. */
  itemAt: Map<string, number>;
  calls: Map<string, number>;
  results: Map<string, number>;
}

/** A child as its parent describes it. */
export interface ChildLink {
  readonly parentId: string;
  readonly itemId: string;
  readonly index: number;
  readonly agent?: ChildStarted["agent"];
  mode: TaskMode;
  finished: boolean;
}

/** Reports a problem, by default at the current event. */
export function report(check: Check, rule: CheckRule, message: string, index = check.index): void {
  check.problems.push({ index, rule, message });
}

/** The task with this id; created with its first event or snapshot. */
export function checkedTask(check: Check, id: string): CheckedTask {
  return check.tasks.get(id) ?? addTask(check, id);
}

/** Adds a task, or replaces it by one without events. */
export function addTask(check: Check, id: string): CheckedTask {
  const node = editTask(check.draft, id);
  // The parent may have told the end of a child before its first event.
  if (node.appliedSeq < 0) node.status = "unknown";
  const task: CheckedTask = {
    id,
    node,
    seen: check.tasks.get(id)?.seen ?? new Map(),
    lastIndex: check.index,
    linkedAt: check.index,
    sent: {},
    childSessionId: undefined,
    mode: undefined,
    hasGap: false,
    outsideReported: false,
    itemAt: new Map(),
    calls: new Map(),
    results: new Map(),
  };
  check.tasks.set(id, task);
  return task;
}

/** Folds an event that the rules have let pass. */
export function foldInto({ draft, foldOptions }: Check, event: LogEvent): void {
  foldFitting(draft, event, foldOptions);
}

/** Whether a task has had its last event. */
export function hasEnded({ node }: CheckedTask): boolean {
  return isTerminal(node.status);
}

/** The item at an output index. */
export function itemAt({ node }: CheckedTask, index: number | undefined): AnyItem | undefined {
  const item = index === undefined ? undefined : at(node.output, index);
  return item?.type === "omitted" ? undefined : (item as AnyItem | undefined);
}

/** The item with an id. */
export function itemOf(task: CheckedTask, id: string | undefined): AnyItem | undefined {
  return itemAt(task, task.itemAt.get(id ?? ""));
}
