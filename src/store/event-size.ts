import type { TaskEvent } from "../protocol/event.ts";

/** The size of an event without its text: its fields, its time and its place in the log. */
const eventBytes = 144;
const stringBytes = 24;
const objectBytes = 40;
const fieldBytes = 12;

/** Fields whose strings many events share. */
const shared: ReadonlySet<string> = new Set(["type", "task_id", "item_id", "call_id", "source"]);

/** The approximate memory of an event in bytes; fast for deltas. */
export function sizeOfEvent(event: TaskEvent): number {
  if (event.type === "task.text.delta") return eventBytes + sizeOfText(event.delta);
  let size = eventBytes;
  const seen = new Set<object>();
  for (const key in event) {
    if (!shared.has(key)) size += sizeOfValue(event[key as keyof TaskEvent], seen);
  }
  return size;
}

function sizeOfText(text: string): number {
  return stringBytes + 2 * text.length; // V8 uses one or two bytes per character
}

function sizeOfValue(value: unknown, seen: Set<object>): number {
  if (typeof value === "string") return sizeOfText(value);
  if (typeof value !== "object" || value === null || seen.has(value)) return 0;
  seen.add(value);
  let size = objectBytes;
  for (const key of Object.keys(value)) {
    size += fieldBytes + sizeOfValue((value as Record<string, unknown>)[key], seen);
  }
  return size;
}
