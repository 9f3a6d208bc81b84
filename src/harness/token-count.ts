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

/**
 * The tokens of the next prompt: what the provider counted for the last call and an estimate of what came after it, or an
 * estimate of everything when there is no count since the last compaction.
 */
export function promptTokens(
  messages: readonly Message[],
  view: ModelView,
  agentName: string,
): number {
  let since = 0;
  for (let at = messages.length - 1; at > view.compactedAt; at--) {
    const message = messages[at] as Message;
    const { role, name, usage } = message;
    if (role === "assistant" && name === agentName && usage && usage.input_tokens > 0)
      return usage.input_tokens + usage.output_tokens + since;
    since += messageTokens(message);
  }
  return viewTokens(messages, view.from, view.compaction);
}
