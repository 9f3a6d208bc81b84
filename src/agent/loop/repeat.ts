import { hash } from "node:crypto";
import type { Block, Message } from "../../protocol/message.ts";
import { isPlainObject } from "../base/plain.ts";
import type { ToolCall } from "./hooks.ts";

/** How many times in a row a call has had the same result. */
export interface Repeat {
  readonly fingerprint: string;
  readonly times: number;
}

const minHashed = 200;

/** Counts equal results in a row; those of one reply count once, because the model had read none of them. */
export function repeatOf(
  messages: readonly Message[],
  taskId: string,
  call: Pick<ToolCall, "name" | "input">,
  output: readonly Block[],
): Repeat {
  const fingerprint = fingerprintOf(call, output);
  const last = lastRepeat(messages, taskId);
  if (last?.fingerprint !== fingerprint) return { fingerprint, times: 1 };
  const isOfThisReply =
    messages.findLastIndex(({ role }) => role === "assistant") < messages.findLastIndex(isResult);
  return { fingerprint, times: isOfThisReply ? last.times : last.times + 1 };
}

/** The count of the last tool result, if it belongs to this task. */
export function lastRepeat(messages: readonly Message[], taskId: string): Repeat | undefined {
  const last = messages.findLast(isResult);
  const block = last?.metadata?.taskId === taskId ? last.content[0] : undefined;
  return block?.type === "tool_result" ? (block.metadata?.repeat as Repeat | undefined) : undefined;
}

function isResult({ content: [first] }: Message): boolean {
  return first?.type === "tool_result";
}

/** Identifies a call and its result; long texts are hashed first, because that is cheaper than encoding them as JSON. */
function fingerprintOf(call: Pick<ToolCall, "name" | "input">, output: readonly Block[]): string {
  const blocks = output.map((block) =>
    block.type === "text" ? { ...block, text: shorten(block.text) } : block,
  );
  return shorten(JSON.stringify([call.name, call.input, blocks], sortKeys));
}

function shorten(text: string): string {
  return text.length < minHashed ? text : `sha256:${hash("sha256", text, "base64url")}`;
}

/** Sorts the keys of objects, because their order makes no difference. */
function sortKeys(_key: string, value: unknown): unknown {
  if (!isPlainObject(value)) return value;
  const names = Object.keys(value);
  return names.length < 2
    ? value
    : Object.fromEntries(names.sort().map((name) => [name, value[name]]));
}
