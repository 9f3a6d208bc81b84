import type { Item, SummaryEntry, WireBlock } from "../protocol/index.ts";

/** A part of an item: text that grows, or a block that came whole. */
export interface Part {
  /** What the other protocol calls it. */
  readonly key: string;
  readonly whole?: WireBlock;
  text: string;
  /** Half of a character, whose rest has not arrived. */
  held: string;
  isOpen: boolean;
}

/** An item of the task's output. */
export interface Entry {
  readonly id: string;
  readonly index: number;
  readonly type: Item["type"];
  readonly messageId?: string | undefined;
  readonly callId?: string;
  readonly name?: string;
  arguments: string;
  /** Whether the arguments are complete. */
  isArgued: boolean;
  isOpen: boolean;
  readonly parts: Part[];
}

/** The text of a part as a block. */
export function textBlock({ key, text }: Pick<Part, "key" | "text">) {
  const id = key === "" ? {} : { id: key };
  return { type: "text" as const, text, annotations: [], ...id };
}

/** A part as a block. */
export function blockOf(part: Part): WireBlock {
  return part.whole ?? textBlock(part);
}

/** An item of the output as an entry. */
export function entryOf(item: Item, index: number): Entry {
  const { id, type } = item;
  const isOpen = item.status === "in_progress";
  const messageId = "message_id" in item ? item.message_id : undefined;
  const blocks = type === "message" || type === "tool_result" ? item.block_list : [];
  const texts = type === "reasoning" ? item.summary : [];
  const parts = [...blocks, ...texts].map((block: WireBlock | SummaryEntry): Part => {
    const part = { key: "id" in block ? (block.id ?? "") : "", held: "" };
    return block.type === "text"
      ? { ...part, text: block.text, isOpen: block.status === "in_progress" }
      : { ...part, text: "", whole: block, isOpen: false };
  });
  return {
    ...{ id, index, type, messageId, isOpen },
    ...((type === "tool_call" || type === "tool_result") && { callId: item.call_id }),
    ...(type === "tool_call" && { name: item.name }),
    arguments: type === "tool_call" ? item.arguments : "",
    isArgued: type === "tool_call" && (!isOpen || item.arguments_status === "completed"),
    parts,
  };
}
