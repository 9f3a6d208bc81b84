import type { Task, TaskEvent } from "../protocol/index.ts";
import type { Agent, Answer, Budget, Via } from "./agent.ts";
import type { Message } from "./message.ts";

/** A task on another server that is the child of a task here. */
export interface RemoteTask {
  /** The id of the child here, and of the remote root task in the events of the link. */
  readonly taskId: string;
  /** The id that the server knows the task by: the same id, unless the protocol does not let the caller choose. */
  readonly remoteId: string;
  /** The session of the child: the tasks of one session share their memory on the server. */
  readonly sessionId: string;
}

/** The start of a task on another server. */
export interface RemoteStart {
  readonly taskId: string;
  readonly sessionId: string;
  readonly messages: readonly Message[];
  /** True: another process may have started the task, and it is not known whether it has. */
  readonly mayHaveStarted: boolean;
  /** What is left of the limits of the task and of all tasks above it; `wallMs` is its deadline. */
  readonly budget?: Budget;
  /** The JSON Schema of the result. */
  readonly outputSchema?: object;
  /** The W3C trace context of the span that the remote task belongs to. */
  readonly traceparent?: string;
  /** The servers that wait for the task: a server whose store is one of theirs refuses the start. */
  readonly via: Via;
}

/** Where to read events, and how to tell what was read. */
export interface RemoteReading {
  /** The number of the last event that was read; -1 for none. */
  readonly after: number;
  /** The task with all events that were read so far, for protocols that do not send events again. */
  readonly known: Task;
  readonly signal: AbortSignal;
  /** Called when a connection is open, with the number of the last event that the server has then. */
  readonly onOpened: (last: number) => void;
}

/** An answer for the remote task or one of its descendants. */
export type RemoteAnswer = Omit<Answer, "type" | "rootTaskId">;

/** How much a server may cost its caller. */
export interface RemoteLimits {
  /** How long the server may be out of reach before the child fails, in milliseconds; defaults to 600 000. */
  readonly lostAfterMs?: number;
  /** The most bytes of events that a child and its descendants may send; defaults to 64 MiB. */
  readonly maxBytes?: number;
  /** The most tasks that a child may have below it; defaults to 256. */
  readonly maxTasks?: number;
}

/**
 * One agent on another server, in the words of this package: each protocol that such a server may speak has one
 * implementation. A link keeps nothing about its tasks: after a crash another process continues with a new link.
 *
 * Each method rejects with a `RivuletError`. With `retryable: true` the caller repeats the call, and `events` from the
 * last event that it read; any other error fails the child.
 */
export interface RemoteLink {
  /** The address that records and lists show: no credentials, no query. Absent for an agent in this process. */
  readonly url?: string;
  readonly limits: RemoteLimits;
  /** The limits of each task that the declaration of the agent sets. */
  readonly budget?: Budget;
  /** Whether its server ends a task that has used up the budget of its start. */
  readonly enforcesBudget?: boolean;
  /**
   * Starts a task and resolves to its `remoteId`. The same `taskId` is the same start: a repeated call starts nothing.
   */
  start(request: RemoteStart, signal: AbortSignal): Promise<string>;
  /**
   * The events of the task and its descendants, each once, in the order of their `sequence_number`, which grows with
   * every event and is the same for every reader. `task_seq` begins with 0 and has no gaps in a task; the first two
   * events of the task are `task.created` and `task.in_progress`. Events of the task itself have no source; those of a
   * descendant have one, and its `task.created` names its parent. Ends when the server says that no task moves: each has
   * ended or waits for an answer. Rejects when the connection ends earlier.
   */
  events(task: RemoteTask, reading: RemoteReading): AsyncIterable<TaskEvent>;
  /** Answers an approval. Rejects with `already_answered` or `not_found` when the approval no longer waits. */
  answer(task: RemoteTask, answer: RemoteAnswer, signal: AbortSignal): Promise<void>;
  /** Adds a message for the model of the task `taskId`, the remote task or a descendant. */
  steer(task: RemoteTask, taskId: string, message: Message, signal: AbortSignal): Promise<void>;
  /** Cancels the task `taskId`, the remote task or a descendant, with all tasks below it. */
  cancel(task: RemoteTask, taskId: string, reason: string, signal: AbortSignal): Promise<void>;
  /**
   * The bytes that events name as `task://<taskId>/blobs/<name>`; undefined if the server does not have them or they are
   * more than `maxBytes`, or than a link reads. Absent for protocols without such names.
   */
  blob?(
    taskId: string,
    name: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined>;
}

/** The property that holds the link of an agent on another server; `Symbol.for`, because entry points may be bundled apart. */
export const remoteLink: unique symbol = Symbol.for("rivulet.remoteLink");

/** The link of an agent on another server; undefined for any other agent. */
export function linkBehind(agent: Agent): RemoteLink | undefined {
  return (agent as { readonly [remoteLink]?: RemoteLink })[remoteLink];
}
