import type { Block } from "../protocol/message.ts";
import type { Item, WireBlock } from "../protocol/task.ts";

/** An item of a model's turn as the blocks of its message. */
export function contentOf(item: Item): readonly Block[] {
  switch (item.type) {
    case "reasoning": {
      const parts = item.summary.length > 0 ? item.summary : (item.content ?? []);
      return parts.map(({ text }) => ({ type: "thinking", text }));
    }
    case "tool_call":
      return [
        { type: "tool_use", id: item.call_id, name: item.name, input: parsed(item.arguments) },
      ];
    case "message":
      return item.block_list.flatMap(blockOf);
    default:
      return [];
  }
}

/** A block of the wire as a block of a message. */
export function blockOf(block: WireBlock): readonly Block[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  if (block.type === "image") return [{ type: "image", source: { url: block.image_url.url } }];
  if (block.type === "file" || block.type === "audio" || block.type === "video") {
    return [{ type: block.type, source: { url: block.url } }];
  }
  return [];
}

/** JSON text as its value; what is not JSON stays text. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
