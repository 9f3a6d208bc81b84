import type { Block, CompactionBlock, Message } from "../../contract/index.ts";
import { estimateTokens } from "./context-files.ts";
import type { ViewState } from "./notes.ts";

const mediaTokens = 1_500;
const blockTokens = 8; // the frame of a message, a call or a result

type Pruned = CompactionBlock["pruned"];

/** Estimates the tokens of a message in a prompt. */
export function messageTokens(message: Message, pruned: Pruned = {}): number {
  const [first] = message.content;
  const isPruned = first?.type === "tool_result" && Object.hasOwn(pruned, first.id);
  if (isPruned) return blockTokens + estimateTokens(pruned[first.id] ?? "");
  return message.content.reduce((sum, block) => sum + blockTokensOf(block), 0);
}

function blockTokensOf(block: Block): number {
  switch (block.type) {
    case "text":
    case "hint":
    case "thinking":
      return blockTokens + estimateTokens(block.text);
    case "tool_use":
      return blockTokens + estimateTokens(JSON.stringify(block.input) ?? "");
    case "tool_result":
      return block.output.reduce((sum, part) => sum + blockTokensOf(part), blockTokens);
    case "suspension":
    case "answer":
    case "compaction":
      return 0;
    default:
      return mediaTokens;
  }
}

/** Estimates the tokens of the messages that a model sees. */
export function viewTokens(
  messages: readonly Message[],
  from: number,
  compaction?: Omit<CompactionBlock, "type">,
): number {
  let tokens = estimateTokens(compaction?.summary ?? "");
  for (let at = from; at < messages.length; at++)
    tokens += messageTokens(messages[at] as Message, compaction?.pruned);
  return tokens;
}

/**
 * The tokens of the next prompt: what the provider counted for the last call and an estimate of what came after it, or an
 * estimate of everything when there is no count since the last compaction.
 */
export function promptTokens(messages: readonly Message[], view: ViewState): number {
  const { countedAt, from, compaction } = view;
  const counted = messages[countedAt]?.usage;
  const start = counted ? countedAt + 1 : from;
  if (view.sum?.start !== start || view.sum.compaction !== compaction)
    view.sum = { start, compaction, end: start, tokens: 0 };
  const { sum } = view;
  const pruned = counted ? undefined : compaction?.pruned;
  for (; sum.end < messages.length; sum.end++)
    sum.tokens += messageTokens(messages[sum.end] as Message, pruned);
  if (counted) return counted.input_tokens + counted.output_tokens + sum.tokens;
  return estimateTokens(compaction?.summary ?? "") + sum.tokens;
}
