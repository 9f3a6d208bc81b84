import type { Block, Message, SuspensionBlock } from "../contract/index.ts";
import { messageWithoutRepeat } from "../harness/index.ts";

/** A message as it leaves the server: without the signatures of the provider, the state of tools and the counts of the loop. */
export function publicMessage(message: Message): Message {
  const uncounted = messageWithoutRepeat(message);
  return { ...uncounted, content: uncounted.content.map(publicBlock) };
}

function publicBlock(block: Block): Block {
  const {
    signature: _,
    resume: __,
    ...rest
  } = block as Block & Partial<SuspensionBlock & { signature: string }>;
  const { output } = rest as { readonly output?: readonly Block[] };
  return (Array.isArray(output) ? { ...rest, output: output.map(publicBlock) } : rest) as Block;
}
