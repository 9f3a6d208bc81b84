import { readInput, readText } from "../base/argument.ts";
import { createIds } from "../base/id.ts";
import type { Cost, Decision, GenerateReason, Usage } from "../protocol/index.ts";
import type { Approval } from "./agent.ts";

/** The data of a media block, or its url. */
export type MediaSource =
  | { readonly data: string; readonly mimeType: string }
  | { readonly url: string; readonly mimeType?: string };

/** A piece of a message. The last three are control blocks, which the model does not see. */
export type Block =
  | TextBlock
  | ThinkingBlock
  | HintBlock
  | MediaBlock
  | ToolUseBlock
  | ToolResultBlock
  | SuspensionBlock
  | AnswerBlock
  | CompactionBlock;

/** Text. `tags` marks text that the harness added around a citable result. */
export interface TextBlock {
  readonly type: "text";
  readonly text: string;
  readonly tags?: readonly string[];
  /** An opaque value that the provider expects back. */
  readonly signature?: string;
}
/** The reasoning of the model, with the provider's signature if there is one. */
export interface ThinkingBlock {
  readonly type: "thinking";
  readonly text: string;
  readonly signature?: string;
}
/** A note from the harness to the model: finished background work, steering. */
export interface HintBlock {
  readonly type: "hint";
  readonly text: string;
  readonly metadata?: { readonly taskId?: string; readonly [key: string]: unknown };
}
/** An image, audio, video or file. */
export interface MediaBlock {
  readonly type: "image" | "audio" | "video" | "file";
  readonly source: MediaSource;
}
/** A tool call of the model; `id` is the call id of the harness. */
export interface ToolUseBlock {
  readonly type: "tool_use";
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** The arguments as text, if they did not parse. */
  readonly raw?: string;
  readonly providerCallId?: string;
  /** An opaque value that the provider expects back. */
  readonly signature?: string;
}
/** How a tool call ended. */
export type ToolResultState = "success" | "error" | "denied" | "interrupted";
/** The result of a tool call for the model. */
export interface ToolResultBlock {
  readonly type: "tool_result";
  readonly id: string;
  readonly name: string;
  readonly output: readonly Block[];
  readonly state: ToolResultState;
  readonly metadata?: Readonly<Record<string, unknown>>;
}
/** A call waits for an approval or an external result. */
export interface SuspensionBlock {
  readonly type: "suspension";
  readonly callId: string;
  readonly kind: "approval" | "external" | "question" | "stop";
  readonly approvalId: string;
  readonly reason?: string;
  readonly expiresAt?: number;
  /** The input of the call, if it differs from what the model sent. */
  readonly input?: unknown;
  /** The call that runs, if a hook or an answer changed it. */
  readonly edited?: { readonly name: string; readonly input: unknown };
  /** The JSON Schema of the answer. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** Plain data with which the tool continues: the answer is then no result, and the tool runs again. */
  readonly resume?: unknown;
}
/** The answer to a suspension. */
export interface AnswerBlock {
  readonly type: "answer";
  readonly approvalId: string;
  readonly callId: string;
  readonly decision: Decision;
  readonly input?: unknown;
  readonly output?: readonly Block[];
  /** How the external call ended; defaults to `success`. */
  readonly state?: ToolResultState;
  readonly reason?: string;
  readonly by?: string;
  readonly always?: boolean;
}
/** From here on the model sees `summary` instead of the messages before index `keepFrom`. */
export interface CompactionBlock {
  readonly type: "compaction";
  /** Empty when the compaction only pruned results. */
  readonly summary: string;
  readonly keepFrom: number;
  /** Texts that replace the results of earlier calls, by call id. */
  readonly pruned?: Readonly<Record<string, string>>;
  /** The size of the prompt before and after, in tokens. */
  readonly tokens?: { readonly before: number; readonly after: number };
  /** A size in tokens below the one that the provider has refused. */
  readonly limit?: number;
}

/** A message: plain JSON, never changed once it is in a session. */
export interface Message {
  readonly id: string;
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly name?: string;
  readonly content: readonly Block[];
  readonly metadata?: MessageMetadata;
  readonly usage?: Usage;
}
/** `iteration` counts the model calls of a task from 1; `input` marks messages of the caller. */
export interface MessageMetadata {
  readonly taskId?: string;
  readonly iteration?: number;
  readonly input?: true;
  readonly [key: string]: unknown;
}

/** Names a task, its root and its session. */
export interface TaskRef {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly sessionId: string;
}

/** The result of a run: its last message and how it ended. `structured` is present only with `structured_output`. */
export type Reply<O = undefined> = ReplyMessage &
  (
    | { readonly generateReason: "structured_output"; readonly structured: O }
    | {
        readonly generateReason: Exclude<GenerateReason, "structured_output">;
        readonly structured?: undefined;
      }
  );
/** The part of a reply that does not depend on how the run ended. */
export interface ReplyMessage extends Message {
  /** The text blocks, joined without a separator; no thinking. */
  readonly text: string;
  readonly approvals: readonly Approval[];
  readonly task: TaskRef;
  /** The usage of the whole task, without its descendants. */
  readonly usage: Usage;
  /** The usage of the task and of all its descendants. */
  readonly totalUsage: Usage;
  /** The cost of `totalUsage`; absent without `price`. */
  readonly cost?: Cost;
}

/** How a run ended and what it has used, for its reply. */
export interface ReplyFacts extends Pick<ReplyMessage, "approvals" | "task" | "usage"> {
  readonly total: { readonly usage: Usage; readonly cost?: Cost };
  readonly generateReason: GenerateReason;
  readonly structured?: unknown;
}

/** The reply of a run with this last message. */
export function replyWith(message: Message, facts: ReplyFacts): Reply<unknown> {
  const { total, generateReason, structured, ...rest } = facts;
  const { usage: totalUsage, cost } = total;
  const text = textOf(message.content);
  const reply = { ...message, text, ...rest, totalUsage, ...(cost && { cost }) };
  return generateReason === "structured_output"
    ? { ...reply, generateReason, structured }
    : { ...reply, generateReason };
}

const ids = createIds();

/** Creates a message of the user. */
export function userMessage(content: string | readonly Block[]): Message {
  return { id: ids.next("msg"), role: "user", content: asBlocks(content) };
}

/** Creates a message of an assistant; `name` is the name of the assistant. */
export function assistantMessage(content: string | readonly Block[], name?: string): Message {
  const message = { id: ids.next("msg"), role: "assistant", content: asBlocks(content) } as const;
  return name === undefined ? message : { ...message, name: readText("name", name) };
}

/** Converts a string to blocks; blocks are returned as they are. */
export function asBlocks(content: string | readonly Block[]): readonly Block[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  const fits = () => areBlocks(content) && content;
  return readInput("content", "a string or an array of blocks", content, fits);
}

/** The text of a list of blocks, as `Reply.text` defines it. */
export function textOf(content: readonly Block[]): string {
  return readInput("content", "an array of blocks", content, () => {
    if (!Array.isArray(content)) return false;
    let text = "";
    for (const block of content as readonly Block[]) {
      if (!isBlock(block)) return false;
      if (block.type === "text") text += block.text;
    }
    return text;
  });
}

/** Whether a value is a list of blocks. */
export function areBlocks(value: unknown): value is readonly Block[] {
  return Array.isArray(value) && value.every(isBlock);
}

function isBlock(value: unknown): boolean {
  const { type, text } = (value ?? {}) as { readonly type?: unknown; readonly text?: unknown };
  return typeof type === "string" && (type !== "text" || typeof text === "string");
}
