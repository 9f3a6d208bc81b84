import type { Annotation, Item, ItemStatus, WireBlock } from "../../../src/protocol/task.ts";
import type { Actor, Draft, World } from "./world.ts";
import { mint } from "./world.ts";

type Loose = Record<string, unknown>;

/** An item that is being sent: what its reader has been shown of it so far. */
export interface OpenItem {
  readonly id: string;
  readonly index: number;
  readonly type: "reasoning" | "tool_call" | "tool_result" | "message";
  /** All its fields but `status`, as they stand. */
  readonly shown: Loose & {
    summary?: { type: "text"; text: string }[];
    content?: { type: "reasoning_text"; text: string }[];
    block_list?: (WireBlock & { text?: string; annotations?: Annotation[] })[];
    arguments?: string;
  };
  /** The child that this tool result holds. */
  child: Actor | undefined;
}

const prefixes = { reasoning: "rs", tool_call: "fc", tool_result: "fco", message: "msg" } as const;

/** Opens an item at the next index of its task. */
export function openItem(
  world: World,
  actor: Actor,
  type: OpenItem["type"],
  fields: OpenItem["shown"],
): OpenItem {
  const id = mint(world, prefixes[type]);
  const item: OpenItem = {
    id,
    index: actor.nextIndex++,
    type,
    shown: { type, id, ...fields },
    child: undefined,
  };
  actor.open.set(item.index, item);
  return item;
}

/** The event that shows a new item, still empty. */
export function addedDraft(item: OpenItem): Draft {
  return {
    type: "task.output_item.added",
    output_index: item.index,
    item: { ...copy(item.shown), status: "in_progress" } as unknown as Item,
  };
}

/** Where the events of an item's parts belong. */
export function at(item: OpenItem): { readonly item_id: string; readonly output_index: number } {
  return { item_id: item.id, output_index: item.index };
}

/** Closes an item with everything that was shown of it; one that holds a child names the child instead. */
export function closeDraft(
  actor: Actor,
  item: OpenItem,
  status: Exclude<ItemStatus, "in_progress">,
  extra: Loose = {},
): Draft {
  actor.open.delete(item.index);
  const link = item.child === undefined ? {} : { child_task_id: item.child.id };
  const whole = { ...copy(item.shown), status, ...link, ...extra };
  actor.output[item.index] = copy(whole) as unknown as Item;
  const { block_list: _, ...short } = whole;
  return {
    type: "task.output_item.done",
    output_index: item.index,
    item: (item.child === undefined ? whole : short) as never,
  };
}

/** Takes an item back, whether it is open or done. */
export function discardDraft(
  actor: Actor,
  item: OpenItem,
  reason: "provider_retry" | "fallback" | "recovered",
): Draft {
  actor.open.delete(item.index);
  actor.output[item.index] = { type: "discarded", id: item.id, reason };
  return { type: "task.output_item.discarded", ...at(item), reason };
}

/** A copy of plain data, so that what was sent stays as it was when it was sent. */
export function copy<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copy) as T;
  if (typeof value !== "object" || value === null) return value;
  const result: Loose = {};
  for (const key in value) result[key] = copy(value[key]);
  return result as T;
}
