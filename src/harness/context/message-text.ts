import type { Block, Message } from "../../contract/index.ts";
import { compactionTexts } from "../prompts.ts";

const maxMessageChars = 8_000;
const maxResultChars = 1_000;
const maxInputChars = 2_000;

/** A message as text for another model call, with long parts cut; undefined if a reader needs nothing of it. */
export function messageText({ role, name, content }: Message): string | undefined {
  const parts = content.flatMap((block) => partOf(block) ?? []);
  if (parts.length === 0) return undefined;
  return `${role === "assistant" && name ? `${role} ${name}` : role}: ${parts.join("\n")}`;
}

function partOf(block: Block): string | undefined {
  switch (block.type) {
    case "text":
      return cutMiddle(block.text, maxMessageChars);
    case "hint":
      // A note repeats what is kept elsewhere.
      return block.metadata?.note === undefined
        ? cutMiddle(block.text, maxMessageChars)
        : undefined;
    case "tool_use":
      return `[calls ${block.name} ${cutMiddle(JSON.stringify(block.input) ?? "", maxInputChars)}]`;
    case "tool_result": {
      const text = block.output.map((part) => partOf(part) ?? "").join("\n");
      return `[${block.name}, ${block.state}] ${cutMiddle(text, maxResultChars)}`;
    }
    case "image":
    case "audio":
    case "video":
    case "file":
      return `[${block.type}${"url" in block.source ? ` ${block.source.url.slice(0, 200)}` : ""}]`;
    default:
      return undefined;
  }
}

/** The beginning and the end of a text. */
function cutMiddle(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const half = Math.floor(maxChars / 2);
  const [head, tail] = [text.slice(0, half).toWellFormed(), text.slice(-half).toWellFormed()];
  return `${head}\n${compactionTexts.cut(text.length - 2 * half)}\n${tail}`;
}
