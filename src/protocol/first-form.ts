// The first form of the protocol had no numbers, lifecycle, statuses or links. Its blocks and implied items are converted
// as a stream is folded, and its documents as they are built.

import { isObject } from "../base/plain.ts";
import type { Item, WireBlock } from "./task.ts";

/** The item for a part that comes before it. */
export function impliedItem(
  id: string,
  type: "message" | "reasoning" | "tool_call" | "tool_result",
): Item {
  const status = "in_progress";
  if (type === "reasoning") return { type, id, status, summary: [] };
  if (type === "tool_call") return { type, id, status, call_id: "", name: "", arguments: "" };
  if (type === "tool_result") return { type, id, status, call_id: "", block_list: [] };
  return { type, id, status, role: "assistant", block_list: [] };
}

/** Converts a block: `image_url` as the type of an image, the reference number as `id`. */
export function normalBlock<T>(block: T, holder: string): T {
  if (!isObject(block)) return block;
  if (block.type !== "image_url" && typeof block.id !== "number") return block;
  const { id, ...normal } = block as Record<string, unknown>;
  if (block.type === "image_url") normal.type = "image";
  if (typeof id !== "number") normal.id = id;
  else if (holder === "tool_result") normal.reference_id ??= id;
  return normal as T;
}

/** The fields of the items of a document. */
const itemFields: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["reasoning", ["type", "id", "summary"]],
  ["tool_call", ["type", "id", "call_id", "name", "arguments"]],
  ["tool_result", ["type", "id", "call_id", "content", "block_list"]],
  ["message", ["type", "id", "role", "content", "block_list"]],
]);

/** The item of a document with the fields of the first form. */
export function firstFormItem(item: Record<string, unknown>): Record<string, unknown> {
  const fields = itemFields.get(item.type) ?? Object.keys(item);
  return Object.fromEntries(fields.flatMap((name) => (name in item ? [[name, item[name]]] : [])));
}

/** The block of a document with the fields of the first form. */
export function firstFormBlock(block: WireBlock): WireBlock {
  const {
    reference_id,
    status: _,
    partial_image_index: __,
    id: ___,
    mime_type: ____,
    ...rest
  } = block as WireBlock & Record<string, unknown>;
  const annotations = Array.isArray(rest.annotations)
    ? rest.annotations.map((annotation) => {
        if (!isObject(annotation)) return annotation; // of a block that this version does not know
        const { type, reference_id, start_index, end_index } = annotation;
        return { type, reference_id, start_index, end_index };
      })
    : undefined;
  return {
    ...rest,
    ...(reference_id !== undefined && { id: reference_id }),
    ...(annotations !== undefined && { annotations }),
  } as unknown as WireBlock;
}
