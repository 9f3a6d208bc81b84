import type { Block, Message } from "../contract/index.ts";
import { messageWithoutRepeat } from "../harness/index.ts";

/** A message as it leaves the server: without the signatures of the provider and the counts of the loop. */
export function publicMessage(message: Message): Message {
  const uncounted = messageWithoutRepeat(message);
  return { ...uncounted, content: uncounted.content.map(withoutSignature) };
}

function withoutSignature(block: Block): Block {
  const { signature: _, ...rest } = block as Block & { readonly signature?: string };
  const { output } = rest as { readonly output?: readonly Block[] };
  return (
    Array.isArray(output) ? { ...rest, output: output.map(withoutSignature) } : rest
  ) as Block;
}
