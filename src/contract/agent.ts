import type { ErrorShape } from "../base/error.ts";
import type { Awaitable } from "../base/time.ts";
import type {
  Cost,
  Decision,
  GenerateReason,
  Progress,
  Source,
  TaskEvent,
  TaskMode,
  TerminalStatus,
  Usage,
} from "../protocol/index.ts";
import type { Hook } from "./hook.ts";
import type { Block, Message, Reply, TaskRef, ToolResultState } from "./message.ts";

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
/** The verdict of a Standard Schema on a value. */
export type StandardResult<O> =
  | { readonly value: O; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };
/** One problem and where it is. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
/** The type that a schema's validation takes. */
export type InputOf<S> = S extends StandardSchema<infer I, infer _O> ? I : undefined;
/** The type that a schema's validation yields. */
export type OutputOf<S> = S extends StandardSchema<infer _I, infer O> ? O : undefined;

/** The limits of a task and all its descendants together. */
export interface Budget {
  readonly tokens?: number;
  /** How many tasks may be started, the task itself included. */
  readonly agents?: number;
  readonly cost?: number;
  readonly wallMs?: number;
  readonly iterations?: number;
}

/** Values for tools, found by type or by key, for example in a database. */
export interface ContextLookup {
  get<T>(type: Class<T>): Awaitable<T | undefined>;
  get<T>(key: string, type?: Class<T>): Awaitable<T | undefined>;
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
  /** The JSON Schema of the answer to a question, which is then its JSON as text. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
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
/** The input of `call`, `stream` and `run`. */
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
  /** The id of the task to start. If the user has this task already, the call follows it and starts none. */
  readonly taskId?: string;
  readonly userId?: string;
  readonly signal?: AbortSignal;
  readonly output?: S;
  readonly until?: "root" | "tree";
  readonly onBusy?: "queue" | "fail";
  readonly onSuspended?: "fail" | "deny";
  /** Values for tools. They cannot cross processes: such a call waits until this process owns the session. */
  readonly context?: ContextLookup | Readonly<Record<string, unknown>>;
  /** Hooks of this call, after those of the agent. Like `context`, they cannot cross processes. */
  readonly hooks?: readonly Hook[];
  readonly budget?: Budget;
  /** The model of the task, one that the agent allows with `models`; its name is `provider:id`. */
  readonly model?: string;
  /** Task runners take up tasks with a higher priority first; defaults to 0. */
  readonly priority?: -1 | 0 | 1;
  /** Tools that the caller runs: a call of one suspends the task until its result is passed as an answer. */
  readonly outsideTools?: readonly OutsideTool[];
  /** Where the call comes from, if another server makes it. */
  readonly origin?: Origin;
  /** Plain data that `task.created` carries to readers; at most 16 KiB. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Called every second while the task of this call does not move. */
  readonly onWait?: (reason: WaitReason) => void;
}

/** A tool that the caller of a run executes itself. */
export interface OutsideTool {
  readonly name: string;
  readonly description?: string;
  /** The JSON Schema of the input; absent: any object. */
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** The task on another server that a root task works for. */
export interface Origin {
  /** The W3C trace context of the caller. */
  readonly traceparent?: string;
  /** The servers above this one. */
  readonly via?: Via;
  /** The hash of the request that started the task with an idempotency key. */
  readonly bodyHash?: string;
}

/** The servers that wait for a task, and how deep it is below the first of them. */
export interface Via {
  /** The random ids of their stores, the first first. */
  readonly stores: readonly string[];
  /** The depth of the task below the root on the first server. */
  readonly depth: number;
}

/** Why a call waits. */
export interface WaitReason {
  /**
   * `busy`: the session runs another task. `owner_silent`: the process that owns the session does not renew its lease,
   * which expires in `leftMs`. `unknown_agent`: no process that runs has the agent of the task. `unknown_version`: the
   * task stays on a version of its agent. `unknown_place`: the local files of the task are elsewhere. `user_limit`: as many
   * sessions of the user run as task runners allow.
   */
  readonly reason:
    | "busy"
    | "owner_silent"
    | "unknown_agent"
    | "unknown_version"
    | "unknown_place"
    | "user_limit";
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

/** Where to add messages without a model call. */
export interface ObserveOptions
  extends Pick<RunOptions, "userId" | "signal" | "onBusy" | "onWait"> {
  readonly sessionId: string;
}

/** Options of `stream()`. */
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
  /** Adds messages to a session without a model call, after the tasks that were there before. */
  observe?(
    messages: string | InputMessage | readonly InputMessage[],
    options: ObserveOptions,
  ): Promise<void>;
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

/** Per message, in process: what `stream` yields. `type` and `last` tell the fields apart. */
export type AgentEvent =
  | ReasoningEvent
  | ToolCallEvent
  | ToolResultEvent
  | ProgressEvent
  | ChildEvent
  | RetryEvent
  | HintEvent
  | ApprovalEvent
  | AgentResultEvent;

interface AgentEventBase {
  /** True on the event that carries the whole message. */
  readonly last: boolean;
  /**
   * The chunks of this message (`message.id`) do not count: the model is called again, the tool is tried again, or a hook
   * has replaced the message. `text` is empty; the chunks and messages that count follow.
   */
  readonly retracted?: true;
  /** The text, without thinking. */
  readonly text: string;
  readonly message: Message & { readonly text: string };
  readonly source?: Source;
}
interface CallEventBase extends AgentEventBase {
  /** The name of the tool. */
  readonly name: string;
  readonly callId: string;
}

/** Model output: chunks, then the whole message with its tool calls; `summary` at `maxIters`. */
export interface ReasoningEvent extends AgentEventBase {
  readonly type: "reasoning" | "summary";
  readonly thinking: string;
}
/** The model calls a tool: when the call starts, and when its input is complete. */
export type ToolCallEvent = CallEventBase & { readonly type: "tool_call" } & (
    | { readonly last: false; readonly input?: undefined }
    | { readonly last: true; readonly input: unknown }
  );
/** Tool output: chunks, then the result as people see it. */
export type ToolResultEvent = CallEventBase & { readonly type: "tool_result" } & (
    | { readonly last: false; readonly state: "running" }
    | { readonly last: true; readonly state: ToolResultState }
  );
/** A running tool reports progress. */
export interface ProgressEvent extends CallEventBase {
  readonly type: "progress";
  readonly last: false;
  readonly progress: Progress;
}
/** A call has started a child, or stops waiting for it: the child continues in the background. */
export interface ChildEvent extends AgentEventBase {
  readonly type: "child";
  readonly last: true;
  readonly phase: "started" | "promoted";
  readonly mode: TaskMode;
  readonly agentId: string;
  /** The task of the child, which is also the id of the call. */
  readonly taskId: string;
}
/** A model call or a tool has failed and is tried again. */
export interface RetryEvent extends AgentEventBase, Retry {
  readonly type: "retry";
  readonly last: true;
}
/** A message was added for the model during the run. */
export interface HintEvent extends AgentEventBase {
  readonly type: "hint";
  readonly last: true;
}
/** A person is asked. */
export interface ApprovalEvent extends AgentEventBase {
  readonly type: "approval";
  readonly last: true;
  readonly approval: Approval;
}
/** An agent has ended or is suspended. */
export type AgentResultEvent = AgentEventBase & {
  readonly type: "agent_result";
  readonly last: true;
  readonly generateReason: GenerateReason;
  readonly approvals: readonly Approval[];
  /** The usage of the whole task, without its descendants. */
  readonly usage: Usage;
  /** The usage of the task and of all its descendants. */
  readonly totalUsage: Usage;
  /** The cost of `totalUsage`; absent without `price`. */
  readonly cost?: Cost;
} & (
    | { readonly status: "failed"; readonly error: ErrorShape }
    | {
        readonly status: Exclude<TerminalStatus, "failed"> | "suspended";
        readonly error?: undefined;
      }
  );

/** A failed attempt that is followed by another one. */
export interface Retry {
  /** The tool or the model. */
  readonly name: string;
  /** The call of a tool; absent for a model. */
  readonly callId?: string;
  /** The number of the attempt that failed, from 1. */
  readonly attempt: number;
  readonly delayMs: number;
  readonly error: Pick<ErrorShape, "code" | "message">;
  /** The fallback model that is called next. */
  readonly fallback?: string;
}
