import { closed } from "../fold/item.ts";
import type { ItemChange, ItemStatus, ReasoningItem, ToolResultItem, WireBlock } from "../task.ts";
import type { WrittenItem } from "./item.ts";

/** How an item closes. The contents of an item that has no parts are those that are given here. */
export interface ItemEnd {
  /** `completed` by default. */
  readonly status?: ItemStatus;
  readonly error?: ToolResultItem["error"];
  readonly encrypted_content?: string;
  readonly arguments?: string;
  readonly block_list?: readonly WireBlock[];
  readonly summary?: ReasoningItem["summary"];
}

/** The item of the event that closes it. */
export function doneItem(item: WrittenItem, end: ItemEnd): ItemChange {
  const { id, callId: call_id = "", name = "", purpose, parts } = item;
  const { status = "completed", error, encrypted_content } = end;
  const done = { id, status, ...(error && { error }) };
  const isEmpty = parts.length === 0;
  if (item.type === "tool_call") {
    const input = isEmpty ? (end.arguments ?? "") : item.arguments;
    return { type: "tool_call", ...done, call_id, name, arguments: input };
  }
  if (item.type === "reasoning") {
    const entries = item.partsOf("summary").map(({ text }) => ({ type: "text", text }) as const);
    const type = "reasoning_text";
    const content = item.partsOf("content").map(({ text }) => ({ type, text }) as const);
    return {
      type: "reasoning",
      ...done,
      summary: isEmpty ? (end.summary ?? []) : entries,
      ...(content.length > 0 && { content }),
      ...(encrypted_content !== undefined && { encrypted_content }),
    };
  }
  const given = (end.block_list ?? []).map((block) => closed(block));
  const blocks = item.blocks.map((block, at) => numbered(block, given[at]));
  const block_list = isEmpty ? given : blocks;
  if (item.type === "message")
    return { type: "message", ...done, role: "assistant", block_list, ...(purpose && { purpose }) };
  const result = { type: "tool_result", ...done, call_id } as const;
  if (!item.hasChild) return { ...result, block_list };
  // Readers find a child's output through its task, so the item keeps the blocks that it has.
  return { ...result, ...(end.block_list && { block_list }), child_task_id: call_id };
}

/** A result that fails loses the numbers of its blocks, and one that is cited may get them at its end. */
function numbered(block: WireBlock, given: WireBlock | undefined): WireBlock {
  if (given === undefined) return block;
  const { reference_id: before, ...bare } = block;
  const { reference_id: now } = given;
  if ((before ?? now) !== (now ?? before)) return block;
  return (now === undefined ? bare : { ...bare, reference_id: now }) as WireBlock;
}
