import type { LogEvent } from "../../src/protocol/event.ts";
import type { Item } from "../../src/protocol/task.ts";

/** The part of a log that a reader selects. */
export interface Lens {
  /** Tasks down to this depth; the root has 0. */
  readonly depth?: number;
  /** The task at this path and its descendants; the root's path is its session id. */
  readonly path?: string;
  /** Only items of these types; events without an item are always included. */
  readonly include?: readonly Item["type"][];
  /** No items of these types. */
  readonly exclude?: readonly Item["type"][];
}

/** Filters a log; an event after omitted ones names the last included event of its task. */
export function lens(events: readonly LogEvent[], through: Lens): LogEvent[] {
  const itemTypes = new Map<string, string>();
  const sent = new Map<string, number>();
  let session = "";
  return events.flatMap((event) => {
    if (event.type === "task.created" && event.source === undefined) {
      session = event.task.session_id ?? "";
    }
    if (!isInView(event, through, session) || !isWanted(event, through, itemTypes)) return [];
    const last = sent.get(event.task_id) ?? -1;
    sent.set(event.task_id, event.task_seq);
    return [event.task_seq === last + 1 ? event : { ...event, prev_task_seq: last }];
  });
}

function isInView(event: LogEvent, { depth, path }: Lens, session: string): boolean {
  if (depth !== undefined && (event.source?.depth ?? 0) > depth) return false;
  const own = event.source?.path ?? session;
  return path === undefined || own === path || own.startsWith(`${path}/`);
}

function isWanted(
  event: LogEvent,
  { include, exclude }: Lens,
  itemTypes: Map<string, string>,
): boolean {
  if (!isOfItem(event)) return true;
  const place = `${event.task_id} ${event.output_index}`;
  if (event.type === "task.output_item.added") itemTypes.set(place, event.item.type);
  const type = itemTypes.get(place) as Item["type"];
  return (include === undefined || include.includes(type)) && !exclude?.includes(type);
}

/** Returns whether an event is part of an item. */
function isOfItem(event: LogEvent): event is Extract<LogEvent, { output_index: number }> {
  if (event.type.startsWith("task.child.") || event.type.startsWith("task.approval.")) return false;
  return "output_index" in event;
}
