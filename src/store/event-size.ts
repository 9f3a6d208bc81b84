import type { TaskEvent } from "../protocol/event.ts";

/** An event without what it says: its fields, its time and its place in the log. */
const eventBytes = 144;
const stringBytes = 24;
const objectBytes = 40;
const fieldBytes = 12;

/** What many events share, and none is the only one to hold. */
const shared: ReadonlySet<string> = new Set(["type", "task_id", "item_id", "call_id", "source"]);

/** About how much memory an event takes, in bytes. Cheap for what comes in thousands. */
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
  return stringBytes + 2 * text.length; // one byte a character is usual, two are possible
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
