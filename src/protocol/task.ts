import type { ErrorShape } from "../base/error.ts";
import type { TaskEvent } from "./event.ts";
import type * as grammar from "./grammar/index.ts";
import type { TypeOf } from "./shape.ts";
import type { SourceRef } from "./source.ts";

// The types of what is on the wire come from the grammar, which describes their fields.

type Word<Name extends keyof typeof grammar.words> = (typeof grammar.words)[Name][number];

/** The final statuses of a task. */
export type TerminalStatus = Word<"end">;
/** The status of a task. */
export type TaskStatus = Word<"task">;
/** The status of an item. */
export type ItemStatus = Word<"status">;
/** Whether the parent waits for a child. */
export type TaskMode = Word<"mode">;

/** Why a task ended without finishing. */
export type IncompleteReason = Word<"incomplete_details">;

/** A decision about an approval; a timeout makes it `expire`, a cancel `cancel`. */
export type Decision = Word<"decision">;

/** Why a run returned its reply. */
export type GenerateReason = Word<"generate_reason">;

/** The tokens that a task has used so far, without its children. */
export interface Usage extends TypeOf<typeof grammar.usage> {}
/** One model's share of a usage. */
export interface ModelUsage extends TypeOf<typeof grammar.modelUsage> {}
/** An amount of money; a decimal string avoids rounding. */
export interface Cost extends TypeOf<typeof grammar.cost> {}
/** The progress of a running tool; the field names are those of MCP. */
export interface Progress extends TypeOf<typeof grammar.progress> {}

/** A piece of an item that people see. Blocks of unknown types are kept as they are. */
export type WireBlock =
  | WireTextBlock
  | WireImageBlock
  | WireFileBlock
  | WireTaskBlock
  | OmittedBlock;
/** Text with its citations. */
export interface WireTextBlock extends TypeOf<typeof grammar.textBlock> {}
/** An image; an empty url means that it has not arrived yet. */
export interface WireImageBlock extends TypeOf<typeof grammar.imageBlock> {}
/** A file or a recording, by reference. */
export interface WireFileBlock extends TypeOf<typeof grammar.fileBlock> {}
/** The position of a child's output in a list of blocks. */
export interface WireTaskBlock extends TypeOf<typeof grammar.taskBlock> {}
/** A placeholder for a block that a filtered stream left out. */
export interface OmittedBlock extends TypeOf<typeof grammar.omittedBlock> {}

/** A citation: `text.slice(start_index, end_index)` of its block is the marker (UTF-16 code units). */
export interface Annotation extends TypeOf<typeof grammar.citation> {}
/** One block of one item of one task. */
export interface BlockAddress extends TypeOf<typeof grammar.blockAddress> {}

/** An entry of a task's output. */
export type Item =
  | ReasoningItem
  | ToolCallItem
  | ToolResultItem
  | MessageItem
  | DiscardedItem
  | OmittedItem;
/** A source that a provider names: a page or a document. */
export interface Reference extends TypeOf<typeof grammar.reference> {}
/** A note for the model that is not its input: delivered background work, or a message that steers a running task. */
export interface Hint extends TypeOf<typeof grammar.hint> {}
/** The reasoning of the model: a summary, and the raw text on request. */
export interface ReasoningItem extends TypeOf<typeof grammar.reasoningItem> {}
/** One paragraph of a reasoning's summary. */
export interface SummaryEntry extends TypeOf<typeof grammar.summaryEntry> {}
/** One piece of raw reasoning. */
export interface ReasoningText extends TypeOf<typeof grammar.reasoningText> {}
/** A tool call; `arguments` is JSON text, which may not parse before it is complete. */
export interface ToolCallItem extends TypeOf<typeof grammar.toolCallItem> {}
/** The result of a tool call; `child_task_id` links a child to it. */
export interface ToolResultItem extends TypeOf<typeof grammar.toolResultItem> {}
/** A message of the agent. */
export interface MessageItem extends TypeOf<typeof grammar.messageItem> {}
/** A placeholder for a discarded item. */
export interface DiscardedItem extends TypeOf<typeof grammar.discardedItem> {}
/** A placeholder for an item that a filtered stream left out. */
export interface OmittedItem extends TypeOf<typeof grammar.omittedItem> {}
/** Why an item was discarded; `edited`: a hook replaced it; `tool_retry`: its tool runs again. */
export type DiscardReason = Word<"discarded">;

/** The item of `task.output_item.done`: its identity, its status, and the fields that replace assembled values. */
export type ItemChange = TypeOf<typeof grammar.itemChange>;

/** A task on the wire; lifecycle events carry the fields that changed. */
export interface TaskObject extends TypeOf<typeof grammar.taskObject> {}

/** A task with its complete state, from which a reader can continue. */
export interface SnapshotTask extends TypeOf<typeof grammar.snapshotTask> {}

/** What a person or an outside tool is asked. */
export interface ApprovalQuestion extends TypeOf<typeof grammar.approvalRequest> {}
/** An approval in the tree; it is pending until it has a decision. */
export interface ApprovalState extends TypeOf<typeof grammar.approvalState> {}
/** The kind of an approval; `stop`: a hook stopped the task before the call, or before it continues. */
export type ApprovalKind = Word<"approval">;

/** A task in the tree; items and blocks keep their shape on the wire. */
export interface Task {
  readonly id: string;
  /** `unknown`: another event named this task, and none of its own events has arrived. */
  readonly status: TaskStatus | "unknown";
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly source?: SourceRef;
  readonly mode?: TaskMode;
  readonly remote?: boolean;
  readonly callId?: string;
  readonly parentTaskId?: string;
  readonly parentItemId?: string;
  /** The index of the parent's item that holds this task; children are ordered by it. */
  readonly parentOutputIndex?: number;
  readonly output: readonly Item[];
  readonly children: readonly string[];
  readonly approvals: readonly ApprovalState[];
  readonly cancelling?: boolean;
  readonly suspension?: Suspension;
  readonly usage?: Usage;
  readonly subtreeUsage?: Usage;
  readonly cost?: Cost;
  /** The shares of the models in `usage`. */
  readonly byModel?: readonly ModelUsage[];
  readonly error?: ErrorShape;
  readonly reason?: string;
  readonly incompleteReason?: IncompleteReason;
  readonly generateReason?: GenerateReason;
  readonly structured?: unknown;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly createdAt?: number;
  readonly completedAt?: number;
  /** The hints of the task, in order. */
  readonly hints?: readonly Hint[];
  /** The last value of each `task.custom` name. */
  readonly state?: Readonly<Record<string, unknown>>;
  /** The highest `task_seq` before which no event is missing; -1 before the first event. */
  readonly appliedSeq: number;
  /** Events that wait for a missing event, in order. */
  readonly parked?: readonly TaskEvent[];
}
/** Why a task is suspended. */
export interface Suspension extends TypeOf<typeof grammar.suspension> {}

/** The state of all tasks of a log, as one JSON document. */
export interface Tree {
  /** The task without a parent; undefined before the first event. */
  readonly rootId?: string;
  readonly tasks: Readonly<Record<string, Task>>;
  /** Reconnect after this number; no event up to it is missing. */
  readonly safeCursor: number;
  /** Ranges of numbers received beyond `safeCursor`. */
  readonly ahead: readonly (readonly [from: number, to: number])[];
  /** The number of the snapshots so far; becomes the cursor with the last snapshot or the next event. */
  readonly snapshotCursor?: number;
  /** The gaps at the moment. */
  readonly gaps: readonly Gap[];
  /** The number of events of unknown types. */
  readonly unknown: number;
  /** The number of events that broke a rule and changed nothing. */
  readonly ignored: number;
}
/** The events of a task between `after` and `before` are missing. */
export interface Gap {
  readonly taskId: string;
  readonly after: number;
  readonly before: number;
}

/** Whether a task with this status has ended. */
export function isTerminal(status: TaskStatus | "unknown"): status is TerminalStatus {
  return (
    status === "completed" ||
    status === "failed" ||
    status === "cancelled" ||
    status === "incomplete"
  );
}
