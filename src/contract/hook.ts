import type { Awaitable } from "../base/time.ts";
import type { Progress, Source, Usage } from "../protocol/index.ts";
import type { Budget } from "./agent.ts";
import type {
  Block,
  CompactionBlock,
  HintBlock,
  Message,
  Reply,
  TaskRef,
  ToolResultState,
} from "./message.ts";

/** A function that a model can call, created with `tool`; `Input` is what its schema takes. */
export interface Tool<Input = unknown> {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the input. */
  readonly inputSchema: object;
  /** Present when the tool changes nothing outside the conversation. */
  readonly readOnly?: true;
  /** Never set: only the compiler reads it. */
  readonly "~types"?: { readonly input: Input } | undefined;
}

/** A tool call as hooks see it. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** Present when the tool changes nothing; hooks cannot set it. */
  readonly readOnly?: true;
}

/** The result of a tool call as hooks see it. */
export interface ToolResult {
  readonly state: ToolResultState;
  readonly output: readonly Block[];
  /** True on an edited result: only the model sees the edit, and people see the original. */
  readonly keepsDisplay?: boolean;
}

/** A piece of a model's reply as it streams; `retracted`: the pieces so far do not count. */
export type ReasoningChunk =
  | { readonly type: "text" | "thinking"; readonly text: string }
  | { readonly type: "retracted" };

/** A piece of a tool's output as it streams; `retracted`: the tool is tried again, the pieces so far do not count. */
export type ToolChunk =
  | string
  | Block
  | ({ readonly type: "progress" } & Progress)
  | { readonly type: "retracted" };

/** One model call: its messages, system prompt, tools and options. */
export interface ModelCall {
  messages: Message[];
  systemPrompt: string;
  tools: Tool[];
  options: Record<string, unknown>;
}

/** The task in which a hook is called; `state` lasts for one run. */
export interface HookContext {
  readonly agent: string;
  readonly agentId: string;
  readonly task: TaskRef;
  readonly userId?: string;
  readonly source?: Source;
  readonly messages: readonly Message[];
  readonly state: Map<string, unknown>;
  /** The rest of the limits of the task and of the tasks above it; undefined without limits. */
  budgetLeft(): Budget | undefined;
}

/** A model call that is about to be made. */
export interface UpcomingTurn {
  /** `turn`: before a call; `overflow`: the provider refused the length of the prompt; `asked`: `agent.compact()`, no call. */
  readonly reason: "turn" | "overflow" | "asked";
  /** The index of the first of the context's messages in the session. */
  readonly offset: number;
  readonly signal: AbortSignal;
}

/** What a hook adds to the transcript before a model call, in one commit. */
export interface TurnAddition {
  /** Shortens what the model sees; the messages stay in the session. */
  readonly compaction?: Omit<CompactionBlock, "type">;
  /** Notes for the model, after all messages. */
  readonly hints?: readonly HintBlock[];
  /** Values of `task.custom` events, by name. */
  readonly events?: Readonly<Record<string, unknown>>;
  /** The usage of a model call that the hook has made. */
  readonly usage?: Usage;
  /** The model of that call, as `provider/id`. */
  readonly model?: string;
}

/** Functions called at named points of a run; their return values steer it. */
export interface Hook {
  readonly name: string;
  /** Lower runs first; defaults to 100, and ties keep the order of registration. */
  readonly priority?: number;
  /** Tools that come with this hook. */
  readonly tools?: readonly Tool[];
  /** May return other input; a call that resumes a task has none. */
  preCall?(context: HookContext, input: readonly Message[]): Awaitable<readonly Message[] | void>;
  /** Before `preReasoning`; may add to the transcript. */
  preTurn?(context: HookContext, turn: UpcomingTurn): Awaitable<TurnAddition | void>;
  preReasoning?(context: HookContext, call: ModelCall): Awaitable<ModelCall | void>;
  /** Is not awaited, and its errors are ignored. */
  reasoningChunk?(context: HookContext, chunk: ReasoningChunk): void;
  postReasoning?(context: HookContext, message: Message): Awaitable<ReasoningVerdict | void>;
  preActing?(context: HookContext, call: ToolCall): Awaitable<ActingVerdict | void>;
  /** Is not awaited, and its errors are ignored. */
  actingChunk?(context: HookContext, call: ToolCall, chunk: ToolChunk): void;
  postActing?(
    context: HookContext,
    call: ToolCall,
    result: ToolResult,
  ): Awaitable<ToolResult | { readonly stop: true } | void>;
  preSummary?(context: HookContext, call: ModelCall): Awaitable<ModelCall | void>;
  postSummary?(context: HookContext, message: Message): Awaitable<Message | void>;
  /** May return a message with other content; the reply keeps its id. */
  postCall?(context: HookContext, reply: Reply<unknown>): Awaitable<Message | void>;
  onError?(context: HookContext, error: Error): Awaitable<void>;
}
/** After a model's reply: an edited message, a stop, or messages for another reasoning step. */
export type ReasoningVerdict =
  | Message
  | { readonly stop: true }
  /** At most `maxIters` such steps may exceed `maxIters`. */
  | { readonly gotoReasoning: readonly Message[] }
  | undefined;
/** Before a tool runs: an edited call, or a result that replaces it. */
export type ActingVerdict =
  | ToolCall
  | { readonly result: string | readonly Block[]; readonly state?: ToolResultState }
  | undefined;
