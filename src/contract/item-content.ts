import { isObject } from "../base/plain.ts";
import type {
  ApprovalRequested,
  Item,
  LogEvent,
  MessageItem,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
  WireBlock,
} from "../protocol/index.ts";
import type { Block, SuspensionBlock, ToolResultState } from "./message.ts";

/** An item of a model's turn. */
export type TurnItem = ReasoningItem | ToolCallItem | MessageItem;

/** Whether an item is a part of a model's turn. */
export function isOfTurn(item: Item): item is TurnItem {
  return item.type === "message" || item.type === "reasoning" || item.type === "tool_call";
}

/** Converts an item of a model's turn to blocks of its message. */
export function contentOf(item: Item): readonly Block[] {
  switch (item.type) {
    case "reasoning":
      return reasoningParts(item).map(({ text }) => ({ type: "thinking", text }));
    case "tool_call":
      return [
        { type: "tool_use", id: item.call_id, name: item.name, input: parseJson(item.arguments) },
      ];
    case "message":
      return item.block_list.flatMap(blockOf);
    default:
      return [];
  }
}

/** Converts a block of the wire to a block of a message; empty for blocks that messages do not have. */
export function blockOf(block: WireBlock): readonly Block[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  if (block.type === "image") return [{ type: "image", source: { url: block.image_url.url } }];
  if (block.type === "file" || block.type === "audio" || block.type === "video") {
    return [{ type: block.type, source: { url: block.url } }];
  }
  return [];
}

/** Converts a block of a message to a block for people; bytes become a data URL. */
export function toWireBlock(block: Block): WireBlock {
  if ("source" in block) {
    const { type, source } = block;
    const url = "url" in source ? source.url : `data:${source.mimeType};base64,${source.data}`;
    const mime = source.mimeType === undefined ? {} : { mime_type: source.mimeType };
    return type === "image" ? { type, image_url: { url }, ...mime } : { type, url, ...mime };
  }
  return { type: "text", text: "text" in block ? block.text : JSON.stringify(block) };
}

/** The text that an item's chunks add up to. */
export function streamedText(item: Item): string {
  let text = "";
  if (item.type === "reasoning") {
    for (const part of reasoningParts(item)) text += part.text;
  } else if (item.type === "message" || item.type === "tool_result") {
    for (const block of item.block_list) if (block.type === "text") text += block.text;
  }
  return text;
}

function reasoningParts({ summary, content = [] }: Item & { type: "reasoning" }) {
  return summary.length > 0 ? summary : content;
}

/** The state of a finished tool result. */
export function stateOf({ status, error }: ToolResultItem): ToolResultState {
  if (status === "completed") return "success";
  if (status === "cancelled") return "interrupted";
  return error?.code === "denied" ? "denied" : "error";
}

/** Parses JSON; returns text that is not JSON unchanged. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The name of the blob of its own task that an event of any form carries. */
export function blobIn(event: LogEvent): string | undefined {
  if (!event.type.startsWith("task.image.") && event.type !== "task.block.done") return undefined;
  const { item, task_id } = event as { readonly item?: unknown; readonly task_id: string };
  const named = isObject(item) && isObject(item.image_url) ? item.image_url : item;
  const prefix = `task://${task_id}/blobs/`;
  const url = isObject(named) ? String(named.url) : "";
  const name = url.startsWith(prefix) ? url.slice(prefix.length) : "";
  return /^sha256-[0-9a-f]{64}$/.test(name) ? name : undefined;
}

/** The items of each message of the model. */
export function turnsIn(items: readonly TurnItem[]): readonly (readonly TurnItem[])[] {
  const turns: TurnItem[][] = [];
  for (const item of items) {
    const last = turns.at(-1);
    if (last && last[0]?.message_id === item.message_id) last.push(item);
    else turns.push([item]);
  }
  return turns;
}

/** The question of a task, as its transcript holds it; `stopId` stands for the call of a stop. */
export function suspensionOf(event: ApprovalRequested, stopId: string): SuspensionBlock {
  const { approval_id: approvalId, kind, call_id: callId = stopId, message } = event;
  const { name = "", arguments: text = "{}", expires_at: expiresAt, edited } = event;
  const { response_schema: responseSchema } = event;
  const kinds = { external: "external", question: "question", stop: "stop" } as const;
  return {
    type: "suspension",
    callId,
    kind: kinds[kind as keyof typeof kinds] ?? "approval",
    approvalId,
    ...(message !== undefined && { reason: message }),
    ...(responseSchema && { responseSchema }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(edited && { edited: { name, input: parseJson(text) } }),
  };
}
