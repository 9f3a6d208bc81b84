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
  const change = changeOf(item, end);
  return end.error ? ({ ...change, error: end.error } as ItemChange) : change;
}

function changeOf(item: WrittenItem, end: ItemEnd): ItemChange {
  const { id, type, callId: call_id = "", name = "", parts } = item;
  const { status = "completed", encrypted_content } = end;
  const isEmpty = parts.length === 0;
  if (type === "tool_call") {
    const input = isEmpty ? (end.arguments ?? "") : item.arguments;
    return { type, id, status, call_id, name, arguments: input };
  }
  if (type === "reasoning") {
    const entries = item.partsOf("summary").map(({ text }) => ({ type: "text", text }) as const);
    const raw = { type: "reasoning_text" } as const;
    const content = item.partsOf("content").map(({ text }) => ({ ...raw, text }));
    return {
      type,
      id,
      status,
      summary: isEmpty ? (end.summary ?? []) : entries,
      ...(content.length > 0 && { content }),
      ...(encrypted_content !== undefined && { encrypted_content }),
    };
  }
  const given = end.block_list?.map((block) => closed(block));
  const blocks = given ? item.blocks.map((block, at) => numbered(block, given[at])) : item.blocks;
  const block_list = isEmpty && given ? given : blocks;
  if (type === "message") {
    const message = { type, id, status, role: "assistant", block_list } as const;
    return item.purpose ? { ...message, purpose: item.purpose } : message;
  }
  if (!item.hasChild) return { type: "tool_result", id, status, call_id, block_list };
  // Readers find a child's output through its task, so the item keeps the blocks that it has.
  const result = { type: "tool_result", id, status, call_id, child_task_id: call_id } as const;
  return given ? { ...result, block_list } : result;
}

/** A result that fails loses the numbers of its blocks, and one that is cited may get them at its end. */
function numbered(block: WireBlock, given: WireBlock | undefined): WireBlock {
  if (given === undefined) return block;
  const { reference_id: before, ...bare } = block;
  const { reference_id: now } = given;
  if ((before ?? now) !== (now ?? before)) return block;
  return (now === undefined ? bare : { ...bare, reference_id: now }) as WireBlock;
}
