import type { ErrorShape } from "../base/error.ts";
import type {
  Cost,
  GenerateReason,
  ModelUsage,
  TaskEvent,
  TaskSnapshot,
  TaskStatus,
  Usage,
} from "../protocol/index.ts";
import type { Budget, Origin, OutsideTool } from "./agent.ts";
import type { Message } from "./message.ts";

/** The right to write one conversation, until it expires or another process takes over. */
export interface Lease {
  readonly sessionId: string;
  readonly owner: string;
  /** Grows with every acquisition; the store rejects a commit with an older fence. */
  readonly fence: number;
  readonly expiresAt: number;
  /**
   * How many owners in a row lost the conversation: their leases ended without a release, and no commit since then was
   * progress. A commit is progress if it raises a task's `committedOutput` or brings a task to rest.
   */
  readonly losses: number;
}

/**
 * Holds logs, tasks, sessions and files. The owner of a conversation commits; any process posts and enqueues. Damaged
 * data rejects with `store_corrupt`, and lists across conversations leave it out.
 */
export interface Store {
  /**
   * Makes `owner` the only writer of a conversation (root session); undefined while a lease on it is live, or if its
   * `losses` would be more than `maxLosses`. A lease of a process with another clock is live until this process has seen
   * it unchanged for its time to live.
   */
  acquire(
    sessionId: string,
    owner: string,
    ttlMs: number,
    maxLosses?: number,
  ): Promise<Lease | undefined>;
  /** Extends leases; returns those that still hold, with their current `losses`. */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]>;
  /** Ends a lease; wakes the watchers of the conversation's session and inbox. */
  release(lease: Lease): Promise<void>;
  /**
   * Ends a lease before it returns, because an exiting process awaits nothing. With `isLost` it adds 1 to `losses`, as if
   * the lease had expired. Absent if the store cannot write synchronously.
   */
  releaseNow?(lease: Lease, isLost: boolean): void;
  /** The live lease on a conversation (root session), by the store's clock; reads only. */
  owner(sessionId: string): Promise<{ readonly leftMs: number } | undefined>;
  /**
   * Conversations without a live owner in which a scheduler that has their agents would start something, those without
   * an owner for the longest time first. Each has a queued or in_progress task; or an untaken answer or cancel for a
   * task that is suspended or has ended; or an untaken `input` without `taskId` for a root session without unfinished
   * tasks. A conversation that lost its owner again is listed later, by the lease's time for each earlier loss.
   */
  expired(limit: number): Promise<readonly string[]>;
  /**
   * Acquires at most `limit` of the conversations that `expired` would list and that the process can run, those of a
   * higher priority first; no two processes get the same one. Absent: list and acquire them.
   */
  claim?(owner: string, ttlMs: number, limit: number, claim: Claim): Promise<readonly Lease[]>;
  /** Notes a process that works on the store, which counts as live for `ttlMs` from now on; 0: it leaves. */
  heartbeat?(node: NodeInfo, ttlMs: number): Promise<void>;
  /** The processes noted within the last hour, those that started last first. */
  nodes?(): Promise<readonly NodeState[]>;
  /**
   * Writes all of the commit or nothing; the result is durable when the promise resolves. Rejects with `fenced` when
   * the lease no longer holds, `agent_busy` when an earlier task precedes `begins`, `not_found` when the session of
   * `begins` belongs to another user, or `conflict` when the store differs from what the commit expects.
   *
   * The same transaction may include `following`, in order: each commit is written completely or not at all, and none
   * after the first that is refused. Returns the number of commits that were written, at least 1. A store may write
   * fewer than it could, so pass the rest again: a refused commit rejects when it comes first.
   */
  commit(commit: Commit, following?: readonly Commit[]): Promise<number>;
  /**
   * Adds a queued root task; needs no lease. The first record of an id wins: returns the stored record, even if that
   * task has ended. Wakes the watchers of the task, its session and its inbox. Rejects with `not_found` when the session
   * or the task belongs to another user. With `ifIdle` it rejects with `agent_busy` when the session has a queued or
   * in_progress task, and with `session_suspended` when it has a suspended one.
   */
  enqueue(record: TaskRecord, options?: { readonly ifIdle?: boolean }): Promise<TaskRecord>;
  /** Adds inbox rows, all or none. The first row of an id wins: returns the stored rows in the given order. */
  post(rows: readonly Post[]): Promise<readonly Post[]>;
  /** Untaken inbox rows in insertion order. */
  posts(query: PostQuery): Promise<readonly Post[]>;
  /**
   * At most `limit` events with a number above `after`; fewer only at the end of the log, or when they reach `maxBytes`,
   * about which a store may be wrong by 128 KiB and the last event. Rejects with `cursor_expired` when some of them were
   * trimmed.
   */
  read(log: string, after: number, limit: number, maxBytes?: number): Promise<readonly TaskEvent[]>;
  /** The last number of a log; -1 when it is empty. */
  last(log: string): Promise<number>;
  /** Deletes the events up to `snapshot.through` and keeps the snapshot instead; later events keep their numbers. */
  trim(log: string, snapshot: LogSnapshot): Promise<void>;
  /** The snapshot that replaces the trimmed events; undefined while the log is complete. */
  snapshot(log: string): Promise<LogSnapshot | undefined>;
  /** The messages of a session from index `from` on, at most `limit`. */
  session(id: string, from?: number, limit?: number): Promise<readonly Message[]>;
  sessions(query: SessionQuery): Promise<readonly SessionInfo[]>;
  /**
   * Messages of listed sessions that contain all the words, best match first. A word of three letters or more also
   * matches longer words that begin with it. Committed messages are found immediately. A store may leave out old
   * matches when there are hundreds.
   */
  search(query: SearchQuery): Promise<readonly SearchMatch[]>;
  /**
   * Deletes a conversation: the transcripts, records, inbox rows, logs and blobs (files below `blobs/<task id>/`) of its
   * root session and all descendants.
   * Returns false when it does not exist; rejects with `conflict` while it has a live owner, and for a child's session.
   */
  deleteSession(id: string): Promise<boolean>;
  task(id: string): Promise<TaskRecord | undefined>;
  /** Records in insertion order; an update keeps a record's place. */
  tasks(query: TaskQuery): Promise<readonly TaskRecord[]>;
  /**
   * Calls `wake` after a change. A watcher of a log gets the events that this process has committed since its last wake,
   * if nothing else has changed; without them, the change must be read. Returns a function that stops watching.
   */
  watch(key: WatchKey, wake: (committed?: CommittedEvents) => void): () => void;
  readonly files: Files;
  /** How long events wait; without it 20 ms, in memory the next turn of the event loop, and none are merged. */
  readonly flushMs?: FlushMs;
  /** Present when the store keeps its data in the memory of its process. */
  readonly memory?: StoreMemory;
  /** True when processes on several machines share the store, so that local files are not those of every process. */
  readonly isShared?: true;
  close(): Promise<void>;
}

/** The conversations that a process can run. A conversation without a version or a place fits every process. */
export interface Claim {
  /** The agents; one without a version runs the conversations that name none. */
  readonly agents: readonly { readonly agentId: string; readonly version?: string }[];
  /** The places of local files that the process has. */
  readonly places?: readonly string[];
  /** Leaves out conversations that would have more `losses`. */
  readonly maxLosses?: number;
  /** Leaves out conversations of users who have this many conversations with a live owner. */
  readonly maxPerUser?: number;
}

/** A process that works on a store, and what it can run. */
export interface NodeInfo {
  /** The owner of its leases. */
  readonly nodeId: string;
  /** The machine and the process, for people. */
  readonly name: string;
  readonly startedAt: number;
  /** The agents that it runs. */
  readonly agents: readonly { readonly agentId: string; readonly version?: string }[];
  /** The places of local files that it has. */
  readonly places: readonly string[];
  /** It takes up no session of a user of whom this many run. */
  readonly maxPerUser?: number;
  /** The conversations (root sessions) that it owns; of many, some. */
  readonly conversations: readonly string[];
}

/** A process as a store knows it. */
export interface NodeState extends NodeInfo {
  /** Whether it has neither left nor been silent for longer than it said. */
  readonly isLive: boolean;
  /** The time since its last heartbeat. */
  readonly silentMs: number;
}

/** Successive events of a log that this process has committed, which must not be changed. */
export interface CommittedEvents {
  /** The number of the event before the first; without events, the last number of the log. */
  readonly after: number;
  readonly events: readonly TaskEvent[];
}

/**
 * How long the events of a log wait to be written together, in milliseconds. Deltas of one block that wait become one;
 * 0: the next turn of the event loop, and none are merged. `"adaptive"`: at most 50, the less the process has to do.
 */
export type FlushMs = number | "adaptive";

/** How much memory a log takes; its writer trims it before it exceeds the limit. */
export interface StoreMemory {
  /** The largest size of the events of one log, in bytes. */
  readonly maxLogBytes: number;
  /** The approximate size of a log's events, in bytes. */
  logBytes(log: string): number;
}

/** The target of a watch: a log, a session, a task or an inbox. */
export type WatchKey =
  | { readonly log: string }
  | { readonly session: string }
  | { readonly task: string }
  /** Rows and tasks for a session; for a root session, those of its whole conversation; `*`: those of all sessions. */
  | { readonly inbox: string };

/** Which sessions to list, newest first; a child's session only by its `sessionId`. */
export interface SessionQuery {
  /** Only the sessions of this user; null: only those without a user; without it, all sessions. */
  readonly userId?: string | null;
  readonly sessionId?: string;
  readonly limit: number;
  readonly before?: string;
}

/** A search in transcripts. */
export interface SearchQuery {
  readonly text: string;
  /** Only the sessions of this user; null: only those without a user; without it, all sessions. */
  readonly userId?: string | null;
  readonly limit: number;
}

/** A message that a search found. */
export interface SearchMatch {
  readonly sessionId: string;
  /** The index of the message in its session. */
  readonly index: number;
  readonly role: Message["role"];
  /** A part of its text, around the first matching word. */
  readonly excerpt: string;
}

/** Which inbox rows to list; a row must match every given field. */
export interface PostQuery {
  /** A root session: the rows of it and of all descendant sessions. */
  readonly conversation?: string;
  readonly sessionId?: string;
  readonly rootTaskId?: string;
}

/** Which task records to list. */
export interface TaskQuery {
  readonly sessionId?: string;
  readonly parentSessionId?: string;
  readonly rootTaskId?: string;
  /** A root session: the tasks of it and of all descendant sessions. */
  readonly conversation?: string;
  readonly status?: readonly TaskStatus[];
  /**
   * Only tasks in whose session an approval expires by this time: the messages have a suspension with `expiresAt` and no
   * answer to it. The end of a task ends the wait for all approvals of its session.
   */
  readonly dueBy?: number;
  readonly limit?: number;
  /** True: the newest records, the newest first. */
  readonly newestFirst?: boolean;
}

/** One step of a conversation, written completely or not at all. */
export interface Commit {
  readonly lease: Lease;
  readonly log: string;
  /** The store numbers them, in place, and may hand them to watchers: the caller must not change them any more. */
  readonly events?: readonly TaskEvent[];
  /** Each must start at the session's current length. */
  readonly appends?: readonly SessionAppend[];
  readonly tasks?: readonly TaskRecord[];
  readonly posts?: readonly Post[];
  /** Inbox rows that this commit moves into the transcript. */
  readonly taken?: readonly string[];
  /**
   * The id of a task that this commit starts. The commit is rejected with `agent_busy` when the task's session has an
   * earlier task, by insertion order, that is queued, in_progress or suspended once the commit is written.
   */
  readonly begins?: string;
}

/** Messages to add to a session that is `at` messages long. */
export interface SessionAppend {
  readonly sessionId: string;
  readonly at: number;
  readonly messages: readonly Message[];
}

/** A row of a conversation's inbox. */
export interface Post {
  readonly id: string;
  readonly kind: "answer" | "hint" | "input" | "cancel";
  readonly sessionId: string;
  readonly rootTaskId?: string;
  /** The task that the row is for; without it, an answer or a cancel is for `message.metadata.taskId`. */
  readonly taskId?: string;
  /** A cancel that applies only while the task is queued. */
  readonly ifQueued?: true;
  readonly message?: Message;
}

/** The tasks of a log after its event number `through`. */
export interface LogSnapshot {
  readonly through: number;
  readonly tasks: readonly TaskSnapshot[];
}

/** The record of a task, besides its log and its transcript. */
export interface TaskRecord {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly parentTaskId?: string;
  readonly parentItemId?: string;
  readonly agentId: string;
  /** The agent's name in the transcript. */
  readonly agentName: string;
  readonly agentKey: string;
  /** The version of a root's agent; only a process with this version runs it. Absent or "": any that has the agent. */
  readonly agentVersion?: string;
  /** The place of a root's local files; only a process that has the place runs it. Absent or "": any process. */
  readonly place?: string;
  /** Roots with a higher priority are claimed first; absent: 0. */
  readonly priority?: -1 | 0 | 1;
  readonly label?: string;
  readonly sessionId: string;
  readonly parentSessionId?: string;
  readonly userId?: string;
  readonly depth: number;
  readonly path: string;
  readonly createdAt: number;
  readonly mode: "sync" | "background";
  readonly status: TaskStatus;
  /** How many output items the transcript includes. */
  readonly committedOutput: number;
  readonly outputSchema?: object;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Where a root comes from, if another server has started it. */
  readonly origin?: Origin;
  /** How many children of the parent session may be at work when the task begins; it waits for a place. */
  readonly maxParallel?: number;
  /** The caller's limits, in addition to those of the agent. */
  readonly budget?: Budget;
  /** The name of the model that was chosen for the task; absent: the agent's own. */
  readonly model?: string;
  /** The tools that the caller of the task executes. */
  readonly outsideTools?: readonly OutsideTool[];
  /** How long the task has worked, in milliseconds; waiting does not count. */
  readonly workedMs?: number;
  /**
   * The number of the task's next event when a process handed it over between two steps. As long as its log has no later
   * event, none of its open calls has begun.
   */
  readonly handedOverAt?: number;
  /** The messages that start the task, until it begins and they are in the transcript. */
  readonly input?: readonly Message[];
  /** True: the task only adds its input to the session. */
  readonly observes?: true;
  /** True: the task only compacts the session. */
  readonly compacts?: true;
  /** The last message of a task that rests. */
  readonly result?: Message;
  readonly generateReason?: GenerateReason;
  readonly usage?: Usage;
  readonly cost?: Cost;
  /** The shares of the models in `usage`. */
  readonly byModel?: readonly ModelUsage[];
  /** The tool whose call started the task. */
  readonly tool?: string;
  /** The usage and the cost of the task and all its descendants when it came to rest. */
  readonly total?: { readonly usage: Usage; readonly cost?: Cost };
  readonly structured?: unknown;
  readonly error?: ErrorShape;
  /**
   * The place of a task that another agent runs: its server, if it is not in this process, the id of the child there that
   * the task belongs to, and the last event that is stored.
   */
  readonly remote?: { readonly url?: string; readonly taskId: string; readonly cursor: number };
}

/** A session in a list. */
export interface SessionInfo {
  readonly sessionId: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly title?: string;
  readonly messages: number;
  /** The index of the first message that a model needs since the last compaction; absent if it needs all. */
  readonly visibleFrom?: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}
/** A session in a list. */
export interface ListedSession extends SessionInfo {
  /** The status of its newest task. */
  readonly status?: TaskStatus;
  /** The name that its user gave it on a server. */
  readonly name?: string;
  /** The session that it is a fork of, and the root task after which it continues. */
  readonly forkedFrom?: { readonly sessionId: string; readonly taskId: string };
}

/** Files with versions. */
export interface Files {
  get(path: string): Promise<StoredFile | undefined>;
  /** Returns the new version; rejects with `conflict` unless the file has version `ifVersion` (0: no file). */
  put(path: string, data: Uint8Array, options?: { ifVersion?: number }): Promise<number>;
  delete(path: string): Promise<boolean>;
  list(prefix: string, options?: { limit?: number; after?: string }): Promise<readonly FileInfo[]>;
}
/** A file's path, size and version. */
export interface FileInfo {
  readonly path: string;
  readonly size: number;
  readonly version: number;
  readonly modifiedAt: number;
}
/** A file with its bytes. */
export interface StoredFile extends FileInfo {
  readonly data: Uint8Array;
}
