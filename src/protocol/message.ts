import type { Approval } from "./agent.ts";
import { createIds } from "./id.ts";
import type { Usage } from "./task.ts";

/** Where the bytes of a media block are. */
export type MediaSource =
  | { readonly data: string; readonly mimeType: string }
  | { readonly url: string; readonly mimeType?: string };

/** A piece of a message. The last three are control blocks: kept in the transcript, never shown to the model. */
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

/** What was said. `tags` marks text that the harness added around a citable result. */
export interface TextBlock {
  readonly type: "text";
  readonly text: string;
  readonly tags?: readonly string[];
  /** What the provider wants back with it, opaque. */
  readonly signature?: string;
}
/** What the model thought before it spoke, with the provider's signature where it gives one. */
export interface ThinkingBlock {
  readonly type: "thinking";
  readonly text: string;
  readonly signature?: string;
}
/** Something put before the model by the harness: finished background work, steering. */
export interface HintBlock {
  readonly type: "hint";
  readonly text: string;
  readonly metadata?: { readonly taskId?: string; readonly [key: string]: unknown };
}
/** An image, sound, film or file. */
export interface MediaBlock {
  readonly type: "image" | "audio" | "video" | "file";
  readonly source: MediaSource;
}
/** The model asks for a tool; `id` is the harness's call id. */
export interface ToolUseBlock {
  readonly type: "tool_use";
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** The model's arguments as text, when they did not parse. */
  readonly raw?: string;
  readonly providerCallId?: string;
  /** What the provider wants back with it, opaque. */
  readonly signature?: string;
}
/** How a tool call ended. */
export type ToolResultState = "success" | "error" | "denied" | "interrupted";
/** What a tool call came to, in the model's view. */
export interface ToolResultBlock {
  readonly type: "tool_result";
  readonly id: string;
  readonly name: string;
  readonly output: readonly Block[];
  readonly state: ToolResultState;
  readonly metadata?: Readonly<Record<string, unknown>>;
}
/** A call waits for a person or an outside result. */
export interface SuspensionBlock {
  readonly type: "suspension";
  readonly callId: string;
  readonly kind: "approval" | "external" | "question" | "stop";
  readonly approvalId: string;
  readonly reason?: string;
  readonly expiresAt?: number;
  /** What the call would run with, where that is not what the model has sent. */
  readonly input?: unknown;
  /** The call that would run, where hooks or an answer have made another one of the model's. */
  readonly edited?: { readonly name: string; readonly input: unknown };
}
/** What was decided about a suspension. */
export interface AnswerBlock {
  readonly type: "answer";
  readonly approvalId: string;
  readonly callId: string;
  readonly decision: Decision;
  readonly input?: unknown;
  readonly output?: readonly Block[];
  /** How the outside call ended; `success` when it says nothing. */
  readonly state?: ToolResultState;
  readonly reason?: string;
  readonly by?: string;
  readonly always?: boolean;
}
/** From here on the model sees `summary` in place of everything before index `keepFrom`. */
export interface CompactionBlock {
  readonly type: "compaction";
  readonly summary: string;
  readonly keepFrom: number;
}

/** What can be said to an approval; the last two are said by the clock and by a cancel. */
export type Decision = "approve" | "deny" | "edit" | "answer" | "expire" | "cancel";

/** Who spoke, and what: plain JSON, never edited once it is in a session. */
export interface Message {
  readonly id: string;
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly name?: string;
  readonly content: readonly Block[];
  readonly metadata?: MessageMetadata;
  readonly usage?: Usage;
}
/** `iteration` counts model calls of a task from 1; `input` marks what the caller sent. */
export interface MessageMetadata {
  readonly taskId?: string;
  readonly iteration?: number;
  readonly input?: true;
  readonly [key: string]: unknown;
}

/** Why a run handed back its reply. */
export type GenerateReason =
  | "model_stop"
  | "tool_suspended"
  | "approval_required"
  | "reasoning_stop_requested"
  | "acting_stop_requested"
  | "interrupted"
  | "max_iterations"
  | "structured_output"
  | "budget"
  | "no_progress"
  | "max_output_tokens"
  | "content_filter"
  | "failed";

/** Names one task and the tree and session it belongs to. */
export interface TaskRef {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly sessionId: string;
}

/** What a run hands back: its last message and how it ended. */
export interface Reply<O = undefined> extends Message {
  /** The text blocks joined with nothing between; no thinking. */
  readonly text: string;
  readonly generateReason: GenerateReason;
  readonly structured: O;
  readonly approvals: readonly Approval[];
  readonly task: TaskRef;
}

const ids = createIds();

/** What a user says. */
export function userMessage(content: string | readonly Block[]): Message {
  return { id: ids.next("msg"), role: "user", content: asBlocks(content) };
}

/** What an assistant has said; `name` tells which one. */
export function assistantMessage(content: string | readonly Block[], name?: string): Message {
  const message = { id: ids.next("msg"), role: "assistant", content: asBlocks(content) } as const;
  return name === undefined ? message : { ...message, name };
}

/** A string or blocks, as blocks. */
export function asBlocks(content: string | readonly Block[]): readonly Block[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** The text of a list of blocks, as `Reply.text` defines it. */
export function textOf(content: readonly Block[]): string {
  let text = "";
  for (const block of content) if (block.type === "text") text += block.text;
  return text;
}
