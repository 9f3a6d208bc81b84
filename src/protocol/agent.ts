import type { TaskEvent } from "./event.ts";
import type {
  Block,
  Decision,
  GenerateReason,
  Message,
  Reply,
  TaskRef,
  ToolResultState,
} from "./message.ts";
import type { Source } from "./source.ts";
import type { TerminalStatus } from "./task.ts";

/** A value, or a promise of it. */
export type Awaitable<T> = T | PromiseLike<T>;
/** A constructor, as a key for values of its type. */
export type Class<T> = abstract new (...args: never[]) => T;

/** Any validator that follows Standard Schema 1 (zod, valibot, arktype, …). */
export interface StandardSchema<I = unknown, O = I> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Awaitable<StandardResult<O>>;
    readonly types?: { readonly input: I; readonly output: O } | undefined;
  };
}
/** What a Standard Schema says of a value. */
export type StandardResult<O> =
  | { readonly value: O; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };
/** One problem and where it is. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
/** The type that a schema's validation yields. */
export type OutputOf<S> = S extends StandardSchema<infer _I, infer O> ? O : undefined;

/** What a whole subtree may use up. */
export interface Budget {
  readonly tokens?: number;
  readonly cost?: number;
  readonly wallMs?: number;
  readonly iterations?: number;
}

/** Values for tools, found by type or by key. */
export interface ContextLookup {
  get<T>(type: Class<T>): T | undefined;
  get<T>(key: string, type?: Class<T>): T | undefined;
}

/** Plain data: what `call` takes, and the body of `POST /v1/tasks/{task_id}/approvals/{approval_id}`. */
export interface Answer {
  readonly type: "answer";
  readonly approvalId: string;
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly decision: Decision;
  readonly input?: unknown;
  readonly output?: readonly Block[];
  /** How the outside call ended; `success` when it says nothing. */
  readonly state?: ToolResultState;
  readonly reason?: string;
  readonly always?: boolean;
}

/** Something in the tree waits for a person or an outside result. */
export interface Approval {
  readonly id: string;
  /** `stop`: a hook stopped the task before this call, or before it continues. */
  readonly kind: "tool_call" | "external" | "question" | "stop";
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly path?: string;
  /** The call that waits; its id and name are empty when a stop concerns no call. */
  readonly call: { readonly id: string; readonly name: string; readonly input: unknown };
  readonly message?: string;
  readonly expiresAt?: number;
  approve(options?: { always?: boolean }): Answer;
  deny(reason?: string): Answer;
  edit(input: unknown): Answer;
  answer(output: string | readonly Block[]): Answer;
}

/** A message from outside; its content may be a text, and its id may be missing. */
export interface InputMessage extends Pick<Message, "role" | "name" | "metadata"> {
  readonly id?: string;
  readonly content: string | readonly Block[];
}
/** What `call`, `stream` and `run` take. */
export type Input =
  | string
  | InputMessage
  | readonly InputMessage[]
  | Answer
  | readonly Answer[]
  | undefined;

/** Where and how to run. */
export interface RunOptions<S extends StandardSchema | undefined = undefined> {
  readonly sessionId?: string;
  readonly userId?: string;
  readonly signal?: AbortSignal;
  readonly output?: S;
  readonly until?: "root" | "tree";
  readonly onBusy?: "queue" | "fail";
  readonly onSuspended?: "fail" | "deny";
  /** Values for tools. They cannot cross processes: such a call waits until this process owns the session. */
  readonly context?: ContextLookup | Readonly<Record<string, unknown>>;
  readonly budget?: Budget;
  /** Called every second while the task of this call does not move. */
  readonly onWait?: (reason: WaitReason) => void;
}

/** Why a call waits. */
export interface WaitReason {
  /**
   * `busy`: the session runs another task. `owner_silent`: the process that owns the session does not renew its lease,
   * which expires in `leftMs`. `unknown_agent`: no process that runs has the agent of the task.
   */
  readonly reason: "busy" | "owner_silent" | "unknown_agent";
  readonly leftMs?: number;
}

/** The task to attach to: one task, or the newest root task of a session. */
export type AttachTarget =
  | { readonly sessionId: string; readonly taskId?: undefined }
  | { readonly taskId: string; readonly sessionId?: undefined };

/** How to attach. */
export interface AttachOptions {
  readonly userId?: string;
  /** The number of the last event that the reader has; defaults to -1, the beginning of the log. */
  readonly after?: number;
  readonly until?: "root" | "tree";
}

/** What to see of a run as agent events. */
export interface StreamOptions<S extends StandardSchema | undefined = undefined>
  extends RunOptions<S> {
  readonly types?: readonly AgentEvent["type"][];
  /** True (default): each chunk is a delta; false: each chunk is the text of its message so far. */
  readonly incremental?: boolean;
  /** False: only `last` events. */
  readonly chunks?: boolean;
}

/** Anything that can be run: local, remote or scripted. */
export interface Agent {
  readonly name: string;
  readonly description?: string;
  run<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options?: RunOptions<S>,
  ): Run<OutputOf<S>>;
  stream<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options?: StreamOptions<S>,
  ): AsyncIterable<AgentEvent>;
  call<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options?: RunOptions<S>,
  ): Promise<Reply<OutputOf<S>>>;
  approvals(query: { sessionId: string; userId?: string }): Promise<readonly Approval[]>;
  /** Follows work that exists already and starts none. */
  attach?(target: AttachTarget, options?: AttachOptions): Run<unknown>;
}

/** A cursor on a log, not the owner of the work: leaving the iteration never cancels the task. */
export interface Run<O = undefined> extends AsyncIterable<TaskEvent> {
  /** A promise, because a resume or a remote agent does not know it at once. */
  readonly task: Promise<TaskRef>;
  events(options?: { after?: number; until?: "root" | "tree" }): AsyncIterable<TaskEvent>;
  result(): Promise<Reply<O>>;
  cancel(reason?: string): Promise<void>;
  steer(message: string | Message): Promise<void>;
  /** Resolves when no task of the tree runs: each has ended or waits for an answer. */
  settled(): Promise<void>;
}

/** Per message, in process: what `stream` yields. */
export type AgentEvent = AgentEventBase &
  (
    | { readonly type: "reasoning" | "tool_result" | "hint" | "summary" }
    | { readonly type: "approval"; readonly approval: Approval }
    | {
        readonly type: "agent_result";
        readonly status: TerminalStatus | "suspended";
        readonly generateReason: GenerateReason;
        readonly approvals: readonly Approval[];
      }
  );
interface AgentEventBase {
  readonly last: boolean;
  /**
   * What the chunks of this message (`message.id`) have said is taken back: the model is asked again, the tool is tried
   * again, or a hook has put other words in its place. `text` is empty; what counts follows.
   */
  readonly retracted?: true;
  readonly text: string;
  readonly message: Message & { readonly text: string };
  readonly source?: Source;
}
