import { readFileSync } from "node:fs";
import type { StreamFrame } from "../../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { snapshotOf } from "../../../src/protocol/snapshot.ts";

/** A frame of a stream, as JSON. */
export type Frame = Readonly<Record<string, unknown>> & { readonly type: string };
export type Stream = readonly Frame[];
type Json = Readonly<Record<string, unknown>>;

/** One change of a stream by hand; `base` is the stream, the canonical log if it is absent. */
export interface Change {
  (events: Stream): Stream;
  readonly base?: Stream;
}

function read(name: string): Stream {
  const text = readFileSync(new URL(`../../corpus/${name}`, import.meta.url), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Frame);
}

/** The canonical log. */
export const canonical = read("canonical.jsonl");
/** A late join to the canonical log. */
export const lateJoin = read("canonical.frames.jsonl");
/** A reader that has received the log up to an open text reconnects and gets snapshots of that moment. */
export const rejoined = reconnect(0);
/** The same reader gets snapshots that are older than what it has. */
export const rejoinedOlder = reconnect(60);
/** The same reader gets snapshots that are newer than what it has. */
export const rejoinedNewer = reconnect(-12);

function reconnect(back: number): Stream {
  const cut = place(canonical, "text.annotation.added", "msg_s") + 1;
  const through = cut - 1 - back;
  const tree = reduce(emptyTree(), canonical.slice(0, through + 1) as unknown as StreamFrame[]);
  const at = { sequenceNumber: through, createdAt: 0 };
  const snapshots = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  const opened = (last: number) => ({ ...(lateJoin[0] as Frame), last_sequence_number: last });
  const first = { ...opened(-1), oldest_sequence_number: 0 };
  const second = { ...opened(Math.max(cut - 1, through)), oldest_sequence_number: through + 1 };
  return JSON.parse(
    JSON.stringify([
      first,
      ...canonical.slice(0, cut),
      second,
      ...snapshots,
      ...canonical.slice(through + 1),
      lateJoin.at(-1),
    ]),
  ) as Frame[];
}

/** Applies a change to another stream than the canonical log. */
export function on(base: Stream, change: Change): Change {
  return Object.assign(() => change(base), { base });
}

/** The index of the first frame of a type that names an id. */
export function place(events: Stream, type: string, id: string): number {
  const found = events.findIndex((event) => isNamed(event, type) && idsOf(event).includes(id));
  if (found < 0) throw new Error(`no ${type} of ${id}`);
  return found;
}

function isNamed(event: Frame, type: string): boolean {
  return event.type === type || event.type === `task.${type}`;
}

function idsOf(event: Frame): readonly unknown[] {
  const { task_id, item_id, approval_id, child_task_id, root_task_id, reason } = event;
  const { id } = (event.item ?? {}) as Json;
  return [task_id, item_id, approval_id, child_task_id, root_task_id, reason, id];
}

/** Changes fields of one frame: objects merge, undefined removes. */
export function edit(type: string, id: string, fields: Json | ((event: Frame) => Json)): Change {
  return (events) => {
    const at = place(events, type, id);
    const event = events[at] as Frame;
    return events.with(at, merged(event, typeof fields === "function" ? fields(event) : fields));
  };
}

function merged<T>(value: T, change: unknown): T {
  if (!isPlain(change) || !isPlain(value)) return change as T;
  const result: Record<string, unknown> = { ...value };
  for (const [key, field] of Object.entries(change)) {
    if (field === undefined) delete result[key];
    else result[key] = merged(result[key], field);
  }
  return result as T;
}

function isPlain(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Changes the first block of the list that closes an item. */
export function editBlock(id: string, fields: Json, at = 0): Change {
  return edit("output_item.done", id, (event) => {
    const { block_list } = event.item as { readonly block_list: readonly Json[] };
    return { item: { block_list: block_list.with(at, merged(block_list[at] as Json, fields)) } };
  });
}

/** Changes the first annotation of a text when the text is done. */
export function editAnnotation(id: string, fields: Json): Change {
  return edit("text.done", id, (event) => {
    const { annotations } = event.item as { readonly annotations: readonly Json[] };
    return { item: { annotations: annotations.with(0, merged(annotations[0] as Json, fields)) } };
  });
}

/** Applies changes one after the other. */
export function both(...changes: readonly Change[]): Change {
  return (events) => changes.reduce((changed, change) => change(changed), events);
}

/** Changes every frame that fits. */
export function each(fits: (event: Frame) => boolean, fields: (event: Frame) => Json): Change {
  return (events) => events.map((event) => (fits(event) ? merged(event, fields(event)) : event));
}

/** Leaves one event out, and numbers the others anew. */
export function drop(type: string, id: string): Change {
  return (events) => renumbered(events.toSpliced(place(events, type, id), 1));
}

/** Leaves out every event that fits, and numbers the others anew. */
export function without(fits: (event: Frame) => boolean): Change {
  return (events) => renumbered(events.filter((event) => !fits(event)));
}

/** Whether an event is about an item. */
export function isOf(...ids: readonly string[]): (event: Frame) => boolean {
  return ({ item_id, item }) => ids.includes((item_id ?? (item as Json | undefined)?.id) as string);
}

/** Loses one frame, as a connection does: the numbers of the others stay. */
export function lose(type: string, id: string): Change {
  return (events) => events.toSpliced(place(events, type, id), 1);
}

/** Sends one frame twice, the second time with changes; all numbers stay. */
export function repeat(type: string, id: string, fields: Json = {}): Change {
  return (events) => {
    const at = place(events, type, id);
    return events.toSpliced(at + 1, 0, merged(events[at] as Frame, fields));
  };
}

/** Adds an event after another one of the same task, and numbers all anew. */
export function add(type: string, id: string, fields: Json & { readonly type: string }): Change {
  return (events) => {
    const at = place(events, type, id);
    const { task_id, created_at, source } = events[at] as Frame;
    const added = { task_id, created_at, ...(source !== undefined && { source }), ...fields };
    return renumbered(events.toSpliced(at + 1, 0, added as Frame));
  };
}

/** Moves one event in front of another one, and numbers all anew. */
export function move(type: string, id: string, beforeType: string, beforeId: string): Change {
  return (events) => {
    const from = place(events, type, id);
    const rest = events.toSpliced(from, 1);
    return renumbered(rest.toSpliced(place(rest, beforeType, beforeId), 0, events[from] as Frame));
  };
}

/** Gives every log event the numbers of its position. */
export function renumbered(events: Stream): Stream {
  const sent = new Map<unknown, number>();
  return events.map((event, sequence_number) => {
    const task_seq = sent.get(event.task_id) ?? 0;
    sent.set(event.task_id, task_seq + 1);
    return { ...event, sequence_number, task_seq };
  });
}
