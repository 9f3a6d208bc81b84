// The samples of seed 004's first protocol version, and the conversion of a current log to it; neither uses the other.
import type { TaskEvent } from "../../../../src/protocol/event.ts";

/** An event of either version, as plain data. */
export interface PlainEvent {
  readonly type: string;
  readonly task_id: string;
  readonly output_index: number;
  readonly item_id?: string;
  readonly block_index?: number;
  readonly delta?: string;
  readonly item?: PlainItem;
  readonly [field: string]: unknown;
}
interface PlainItem {
  readonly type: string;
  readonly id?: unknown;
  readonly call_id?: string;
  readonly text?: string;
  readonly block_list?: readonly PlainItem[];
  readonly annotations?: readonly PlainAnnotation[];
  readonly [field: string]: unknown;
}
interface PlainAnnotation {
  readonly reference_id: number;
  readonly start_index: number;
  readonly end_index: number;
}
type Rule = (events: readonly PlainEvent[]) => readonly PlainEvent[];

const part = ["item_id", "output_index"];
const block = [...part, "block_index", "item"];
const summary = [...part, "summary_index"];

/** The eleven event types of the first version, and their fields besides type and task. */
const eventFields: Readonly<Record<string, readonly string[]>> = {
  "task.output_item.added": ["output_index", "item"],
  "task.output_item.done": ["output_index", "item"],
  "task.reasoning_summary_item.added": [...summary, "item"],
  "task.reasoning_summary_text.delta": [...summary, "delta"],
  "task.reasoning_summary_item.done": [...summary, "item"],
  "task.tool_call_arguments.delta": [...part, "delta"],
  "task.tool_call_arguments.done": [...part, "arguments"],
  "task.text.done": block,
  "task.image.added": block,
  "task.image.delta": [...block, "partial_image_index"],
  "task.image.done": block,
};

/** The fields of its items and blocks. */
const itemFields: Readonly<Record<string, readonly string[]>> = {
  reasoning: ["id", "summary"],
  tool_call: ["id", "call_id", "name", "arguments"],
  tool_result: ["id", "call_id", "block_list"],
  message: ["id", "role", "block_list"],
  text: ["text", "id", "annotations"],
  image: ["image_url", "id"],
};

/** Removes the types and fields that later versions added. */
const dropWhatItLacks: Rule = (events) =>
  events
    .filter(({ type }) => type in eventFields)
    .map((event) =>
      mapItem(pick(event, ["type", "task_id", ...(eventFields[event.type] ?? [])]), bare),
    );

function bare(item: PlainItem): PlainItem {
  const fields = ["type", ...(itemFields[item.type] ?? [])];
  // The first version has a status only on the done event of a result that holds a child.
  const isHolder = item.type === "tool_result" && item.child_task_id !== undefined;
  const kept = pick(item, isHolder ? [...fields, "status"] : fields);
  return {
    ...kept,
    ...(item.block_list && { block_list: item.block_list.map(bare) }),
    ...(item.annotations && { annotations: item.annotations.map(bareAnnotation) }),
  };
}

function bareAnnotation(annotation: PlainAnnotation): PlainAnnotation {
  return pick(annotation, ["type", "reference_id", "start_index", "end_index"]);
}

/** The citation number is the block's `id`. */
const numberInId: Rule = (events) => events.map((event) => mapItem(event, numbered));

function numbered(item: PlainItem): PlainItem {
  const { reference_id: id, block_list, ...rest } = item;
  return {
    ...rest,
    ...(id !== undefined && { id }),
    ...(block_list && { block_list: block_list.map(numbered) }),
  };
}

/** Merges adjacent deltas of one part, because senders may split a text differently. */
const foldDeltas: Rule = (events) => {
  const folded: PlainEvent[] = [];
  for (const event of events) {
    const last = folded.at(-1);
    const isSame =
      last?.delta !== undefined &&
      event.delta !== undefined &&
      JSON.stringify({ ...last, delta: "" }) === JSON.stringify({ ...event, delta: "" });
    if (isSame) folded[folded.length - 1] = { ...event, delta: `${last.delta}${event.delta}` };
    else folded.push(event);
  }
  return folded;
};

/**
 * Replaces ids by order of appearance: tasks by number, items by prefix and number within their task. A call that started
 * another task has that task's id; other calls are numbered within their task.
 */
const renameIds: Rule = (events) => {
  const tasks = new Set(events.map(({ task_id }) => task_id));
  const names = new Map<string, string>();
  const counts = new Map<string, number>();
  const nameOf = (scope: string, id: string, prefix: string): string => {
    const key = `${scope} ${prefix} ${id}`;
    const known = names.get(key);
    if (known !== undefined) return known;
    const count = (counts.get(`${scope} ${prefix}`) ?? 0) + 1;
    counts.set(`${scope} ${prefix}`, count);
    const name = `${prefix}-${count}`;
    names.set(key, name);
    return name;
  };
  const taskName = (id: string) => nameOf("", id, "task");
  const callName = (task: string, id: string) =>
    id !== task && tasks.has(id) ? taskName(id) : nameOf(task, id, "call");
  const itemName = (task: string, id: string) => nameOf(task, id, id.slice(0, id.indexOf("_")));
  return events.map((event) => {
    const { task_id: task, item_id, item } = event;
    const isItem = item !== undefined && event.type.startsWith("task.output_item.");
    return {
      ...event,
      task_id: taskName(task),
      ...(item_id !== undefined && { item_id: itemName(task, item_id) }),
      ...(isItem && {
        item: {
          ...item,
          id: itemName(task, String(item.id)),
          ...(item.call_id !== undefined && { call_id: callName(task, item.call_id) }),
        },
      }),
    };
  });
};

/** The samples send one image in two ways; the last one counts (A5). */
const oneImageVariant: Rule = (events) =>
  events.filter((event, index) => {
    const isSame = (other: PlainEvent) =>
      other.task_id === event.task_id &&
      other.output_index === event.output_index &&
      other.block_index === event.block_index;
    const isOpenedAgain = events
      .slice(index + 1)
      .some((later) => later.type === "task.image.added" && isSame(later));
    return !(event.type.startsWith("task.image.") && isOpenedAgain);
  });

/** All citation ranges in the samples are wrong; a range covers its marker (A1). */
const rightIndexes: Rule = (events) => events.map((event) => mapItem(event, rightRange));

function rightRange(item: PlainItem): PlainItem {
  const { text = "", annotations, block_list } = item;
  const found = annotations?.map((annotation) => {
    const marker = `[^${annotation.reference_id}]`;
    const start_index = text.indexOf(marker);
    return { ...annotation, start_index, end_index: start_index + marker.length };
  });
  return {
    ...item,
    ...(found && { annotations: found }),
    ...(block_list && { block_list: block_list.map(rightRange) }),
  };
}

/** A message is not citable, so its blocks have no number, unlike in the samples (A16). */
const noNumbersInMessages: Rule = (events) =>
  events.map((event) => {
    const withoutId = ({ id: _, ...rest }: PlainItem): PlainItem => rest;
    if (event.item_id?.startsWith("msg_")) return mapItem(event, withoutId);
    if (event.item?.type !== "message") return event;
    return mapItem(event, (item) => ({
      ...item,
      ...(item.block_list && { block_list: item.block_list.map(withoutId) }),
    }));
  });

/** Converts a log, or a part of one, to the first version. */
export function inFirstForm(events: readonly TaskEvent[]): readonly PlainEvent[] {
  const rules = [numberInId, dropWhatItLacks, foldDeltas, renameIds];
  return applied(rules, events as readonly unknown[] as readonly PlainEvent[]);
}

/** The samples with their errors corrected. */
export function corrected(samples: readonly PlainEvent[]): readonly PlainEvent[] {
  const rules = [oneImageVariant, rightIndexes, noNumbersInMessages, foldDeltas, renameIds];
  return applied(rules, samples);
}

function applied(rules: readonly Rule[], events: readonly PlainEvent[]): readonly PlainEvent[] {
  return rules.reduce((current, rule) => rule(current), events);
}

function mapItem(event: PlainEvent, change: (item: PlainItem) => PlainItem): PlainEvent {
  return event.item ? { ...event, item: change(event.item) } : event;
}

function pick<T extends object>(from: T, fields: readonly string[]): T {
  const kept = Object.entries(from).filter(([field]) => fields.includes(field));
  return Object.fromEntries(kept) as T;
}
