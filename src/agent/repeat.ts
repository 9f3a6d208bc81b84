import { hash } from "node:crypto";
import type { Block, Message } from "../protocol/message.ts";
import type { ToolCall } from "./hook.ts";
import { isPlainObject } from "./plain.ts";

/** How often the same call has had the same result, one after the other. */
export interface Repeat {
  readonly fingerprint: string;
  readonly times: number;
}

/** What is short is compared as it is. */
const shortEnough = 200;

/**
 * Counts this result, as the model reads it, with the ones right before it in the same task. Those of one reply count
 * once: the model could not know of one when it asked for the other.
 */
export function repeatOf(
  messages: readonly Message[],
  taskId: string,
  call: Pick<ToolCall, "name" | "input">,
  output: readonly Block[],
): Repeat {
  const fingerprint = fingerprintOf(call, output);
  const last = lastRepeat(messages, taskId);
  if (last?.fingerprint !== fingerprint) return { fingerprint, times: 1 };
  const isOfThisReply = messages.findLastIndex(isReply) < messages.findLastIndex(isResult);
  return { fingerprint, times: isOfThisReply ? last.times : last.times + 1 };
}

/** The count that the last tool result carries, if that is this task's: another task asks for its own reasons. */
export function lastRepeat(messages: readonly Message[], taskId: string): Repeat | undefined {
  const last = messages.findLast(isResult);
  const block = last?.metadata?.taskId === taskId ? last.content[0] : undefined;
  return block?.type === "tool_result" ? (block.metadata?.repeat as Repeat | undefined) : undefined;
}

function isResult({ content: [first] }: Message): boolean {
  return first?.type === "tool_result";
}

function isReply({ role }: Message): boolean {
  return role === "assistant";
}

/** The same for the same. Texts are shortened on their own: as JSON a long one costs more than its hash. */
function fingerprintOf(call: Pick<ToolCall, "name" | "input">, output: readonly Block[]): string {
  const blocks = output.map((block) =>
    block.type === "text" ? { ...block, text: inBrief(block.text) } : block,
  );
  return inBrief(JSON.stringify([call.name, call.input, blocks], inOrder));
}

function inBrief(text: string): string {
  return text.length < shortEnough ? text : `sha256:${hash("sha256", text, "base64url")}`;
}

/** In which order a model writes the fields of an object makes no difference. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isPlainObject(value)) return value;
  const names = Object.keys(value);
  return names.length < 2
    ? value
    : Object.fromEntries(names.sort().map((name) => [name, value[name]]));
}
