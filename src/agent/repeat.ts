import { hash } from "node:crypto";
import type { Block, Message } from "../protocol/message.ts";
import type { ToolCall } from "./hook.ts";

/** How often the same call has had the same result, one after the other. */
export interface Repeat {
  readonly fingerprint: string;
  readonly times: number;
}

/** What is short is compared as it is. */
const shortEnough = 200;

/** Counts this result, as the model reads it, with the ones right before it in the same task. */
export function repeatOf(
  messages: readonly Message[],
  taskId: string,
  call: Pick<ToolCall, "name" | "input">,
  output: readonly Block[],
): Repeat {
  const fingerprint = fingerprintOf(call, output);
  const last = lastRepeat(messages, taskId);
  return { fingerprint, times: last?.fingerprint === fingerprint ? last.times + 1 : 1 };
}

/** The count that the last tool result carries, if that is this task's: another task asks for its own reasons. */
export function lastRepeat(messages: readonly Message[], taskId: string): Repeat | undefined {
  const last = messages.findLast((message) => message.content[0]?.type === "tool_result");
  const block = last?.metadata?.taskId === taskId ? last.content[0] : undefined;
  return block?.type === "tool_result" ? (block.metadata?.repeat as Repeat | undefined) : undefined;
}

/** The same for the same. Texts are hashed on their own: as JSON a long one costs more than the hash. */
function fingerprintOf(call: Pick<ToolCall, "name" | "input">, output: readonly Block[]): string {
  const blocks = output.map((block) =>
    block.type === "text" ? { ...block, text: digest(block.text) } : block,
  );
  return digest(JSON.stringify([call.name, call.input, blocks]));
}

function digest(text: string): string {
  return text.length < shortEnough ? text : hash("sha256", text, "base64url");
}
