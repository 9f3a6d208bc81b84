import type { Block, Message } from "../protocol/message.ts";

/** How often the same call has had the same result, one after the other. */
export interface Repeat {
  readonly fingerprint: string;
  readonly times: number;
}

/** Counts this result with the ones right before it in the same task. */
export function repeatOf(
  messages: readonly Message[],
  taskId: string,
  call: { readonly name: string; readonly input: unknown },
  output: readonly Block[],
): Repeat {
  const fingerprint = hash(JSON.stringify([call.name, call.input, output]));
  const last = lastRepeat(messages, taskId);
  return { fingerprint, times: last?.fingerprint === fingerprint ? last.times + 1 : 1 };
}

/** The count that the last tool result carries, if that is this task's: another task asks for its own reasons. */
export function lastRepeat(messages: readonly Message[], taskId: string): Repeat | undefined {
  const last = messages.findLast((message) => message.content[0]?.type === "tool_result");
  const block = last?.metadata?.taskId === taskId ? last.content[0] : undefined;
  return block?.type === "tool_result" ? (block.metadata?.repeat as Repeat | undefined) : undefined;
}

/** FNV-1a over two halves: short, and enough to tell whether two results are the same. */
function hash(text: string): string {
  let low = 0x811c9dc5;
  let high = 0xcbf29ce4;
  for (let index = 0; index < text.length; index++) {
    low = Math.imul(low ^ text.charCodeAt(index), 0x01000193);
    high = Math.imul(high ^ text.charCodeAt(index), 0x01000197);
  }
  return (low >>> 0).toString(36) + (high >>> 0).toString(36);
}
