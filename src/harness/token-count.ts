import type { Block, CompactionBlock, Message } from "../protocol/message.ts";
import { estimateTokens } from "./context-files.ts";
import type { ModelView } from "./notes.ts";

const mediaTokens = 1_500;
const blockTokens = 8; // the frame of a message, a call or a result
const estimates = new WeakMap<Message, number>();

type Pruned = CompactionBlock["pruned"];

/** Estimates the tokens of a message in a prompt. */
export function messageTokens(message: Message, pruned: Pruned = {}): number {
  const [first] = message.content;
  const isPruned = first?.type === "tool_result" && Object.hasOwn(pruned, first.id);
  if (isPruned) return blockTokens + estimateTokens(pruned[first.id] ?? "");
  const known = estimates.get(message);
  if (known !== undefined) return known;
  const tokens = message.content.reduce((sum, block) => sum + blockTokensOf(block), 0);
  estimates.set(message, tokens);
  return tokens;
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

/** A sum over messages, extended by those that are new. */
interface Sum {
  readonly start: number;
  readonly compaction: CompactionBlock | undefined;
  end: number;
  tokens: number;
}
const sums = new WeakMap<ModelView, Sum>();

/**
 * The tokens of the next prompt: what the provider counted for the last call and an estimate of what came after it, or an
 * estimate of everything when there is no count since the last compaction.
 */
export function promptTokens(messages: readonly Message[], view: ModelView): number {
  const { countedAt, from, compaction } = view;
  const counted = messages[countedAt]?.usage;
  const start = counted ? countedAt + 1 : from;
  const known = sums.get(view);
  const sum: Sum =
    known?.start === start && known.compaction === compaction
      ? known
      : { start, compaction, end: start, tokens: 0 };
  sums.set(view, sum);
  const pruned = counted ? undefined : compaction?.pruned;
  for (; sum.end < messages.length; sum.end++)
    sum.tokens += messageTokens(messages[sum.end] as Message, pruned);
  if (counted) return counted.input_tokens + counted.output_tokens + sum.tokens;
  return estimateTokens(compaction?.summary ?? "") + sum.tokens;
}
