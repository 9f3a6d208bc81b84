import type { Budget } from "./agent.ts";
import type { ErrorShape } from "./error.ts";
import type { TaskEvent, TaskSnapshot } from "./event.ts";
import type { GenerateReason, Message } from "./message.ts";
import type { TaskStatus, Usage } from "./task.ts";

/** The right to write one conversation, until it expires or is taken over. */
export interface Lease {
  readonly sessionId: string;
  readonly owner: string;
  /** Grows with every acquisition; a commit with an older fence is refused. */
  readonly fence: number;
  readonly expiresAt: number;
}

/** Where logs, tasks, sessions and files live. Two ways to write: the owner commits, anyone posts. */
export interface Store {
  /** One owner per conversation (root session); undefined while another one's lease is live. */
  acquire(sessionId: string, owner: string, ttlMs: number): Promise<Lease | undefined>;
  /** Returns the leases that still hold, prolonged. */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]>;
  release(lease: Lease): Promise<void>;
  /** Conversations with work left and no live owner, by the store's own clock. */
  expired(limit: number): Promise<readonly string[]>;
  /** Atomic, and durable when it resolves; rejects with code `fenced` or `conflict`. */
  commit(commit: Commit): Promise<void>;
  /** Idempotent by id; returns the row that won. */
  post(post: Post): Promise<Post>;
  /** Inbox rows that are not yet taken. */
  posts(query: { sessionId?: string; rootTaskId?: string }): Promise<readonly Post[]>;
  /**
   * At most `limit` events above number `after`, and fewer only when the log has no more; rejects with `cursor_expired`
   * when some of them were trimmed.
   */
  read(log: string, after: number, limit: number): Promise<readonly TaskEvent[]>;
  /** The last number of a log; -1 when it is empty. */
  last(log: string): Promise<number>;
  /** Forgets the events that the snapshot stands for from then on; the numbers of the others stay. */
  trim(log: string, snapshot: LogSnapshot): Promise<void>;
  /** What stands for the events that were trimmed; undefined while the log is whole. */
  snapshot(log: string): Promise<LogSnapshot | undefined>;
  /** The messages of a session from index `from` on, all of them or the first `limit`. */
  session(id: string, from?: number, limit?: number): Promise<readonly Message[]>;
  sessions(query: SessionQuery): Promise<readonly SessionInfo[]>;
  /**
   * Messages of listed sessions that have all the words, the best first. A word of three letters or more also finds
   * longer ones that begin with it. What is committed is found from then on. A store may leave out old matches when
   * there are hundreds.
   */
  search(query: SearchQuery): Promise<readonly SearchMatch[]>;
  /**
   * Forgets a conversation: the transcripts, records, inbox rows and logs of its root session and of all descendants.
   * False when there is none; rejects with `conflict` while it has a live owner, and for the session of a child.
   */
  deleteSession(id: string): Promise<boolean>;
  task(id: string): Promise<TaskRecord | undefined>;
  tasks(query: TaskQuery): Promise<readonly TaskRecord[]>;
  /** A hint only: reread after it. Returns the way to stop watching. */
  watch(key: WatchKey, wake: () => void): () => void;
  readonly files: Files;
  /** Present when what the store holds takes memory and is lost with its process. */
  readonly memory?: StoreMemory;
  close(): Promise<void>;
}

/** How much memory a log takes. Whoever writes it lets go of its beginning before it is too much. */
export interface StoreMemory {
  /** What the events of one log may come to, in bytes. */
  readonly maxLogBytes: number;
  /** What they come to now, about. */
  logBytes(log: string): number;
}

/** What to watch for changes. */
export type WatchKey =
  | { readonly log: string }
  | { readonly session: string }
  | { readonly task: string }
  /** What is posted to a session, and to a root session's whole conversation. */
  | { readonly inbox: string };

/** Which sessions to list, newest first. Those of children are left out, unless one is named. */
export interface SessionQuery {
  readonly userId?: string;
  /** Only this one. */
  readonly sessionId?: string;
  readonly limit: number;
  readonly before?: string;
}

/** What to look for in transcripts. */
export interface SearchQuery {
  readonly text: string;
  /** Only in what this user began; without it, in everybody's sessions. */
  readonly userId?: string;
  readonly limit: number;
}

/** A message that a search found. */
export interface SearchMatch {
  readonly sessionId: string;
  /** Its place in the session. */
  readonly index: number;
  readonly role: Message["role"];
  /** Some of its text, around the first word that was looked for. */
  readonly excerpt: string;
}

/** Which task records to list. */
export interface TaskQuery {
  readonly sessionId?: string;
  readonly parentSessionId?: string;
  readonly rootTaskId?: string;
  /** A root session: the tasks of all its trees. */
  readonly conversation?: string;
  readonly status?: readonly TaskStatus[];
  readonly limit?: number;
}

/** One step of a conversation, written whole or not at all. */
export interface Commit {
  readonly lease: Lease;
  readonly log: string;
  /** Numbered by the store under the lease. */
  readonly events?: readonly TaskEvent[];
  /** Appending at index `at` is the compare-and-set. */
  readonly appends?: readonly SessionAppend[];
  readonly tasks?: readonly TaskRecord[];
  readonly posts?: readonly Post[];
  /** Inbox rows that this commit moves into the transcript. */
  readonly taken?: readonly string[];
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
  readonly message?: Message;
}

/** The tasks of a log as they stood after its event number `through`. */
export interface LogSnapshot {
  readonly through: number;
  readonly tasks: readonly TaskSnapshot[];
}

/** What a store keeps of a task besides its log and its transcript. */
export interface TaskRecord {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly parentTaskId?: string;
  readonly parentItemId?: string;
  readonly agentId: string;
  /** The name that the agent's messages carry in the transcript. */
  readonly agentName: string;
  readonly agentKey: string;
  readonly label?: string;
  readonly sessionId: string;
  readonly parentSessionId?: string;
  readonly userId?: string;
  readonly depth: number;
  readonly path: string;
  readonly createdAt: number;
  readonly mode: "sync" | "background";
  readonly status: TaskStatus;
  /** How many output indexes the transcript accounts for. */
  readonly committedOutput: number;
  readonly outputSchema?: object;
  /** What its caller lets it use up, over what its agent may. */
  readonly budget?: Budget;
  /** How long it has worked, in milliseconds; the time that it waited does not count. */
  readonly workedMs?: number;
  /** What it is asked, until it begins and its transcript says so. */
  readonly input?: readonly Message[];
  readonly result?: Message;
  readonly generateReason?: GenerateReason;
  readonly usage?: Usage;
  readonly structured?: unknown;
  readonly error?: ErrorShape;
  readonly remote?: { readonly url: string; readonly taskId: string; readonly cursor: number };
}

/** A session in a list. */
export interface SessionInfo {
  readonly sessionId: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly title?: string;
  readonly messages: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Versioned blobs. */
export interface Files {
  get(path: string): Promise<StoredFile | undefined>;
  /** With `ifVersion` the write happens only on that version (0: only if absent), else it rejects with `conflict`. */
  put(path: string, data: Uint8Array, options?: { ifVersion?: number }): Promise<number>;
  delete(path: string): Promise<boolean>;
  list(prefix: string, options?: { limit?: number; after?: string }): Promise<readonly FileInfo[]>;
}
/** A file's place, size and version. */
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
