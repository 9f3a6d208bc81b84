import type { TaskEvent } from "../protocol/event.ts";

/** The size of an event without its text: its fields, its time and its place in the log. */
const eventBytes = 144;
const stringBytes = 24;
const objectBytes = 40;
const fieldBytes = 12;
/** Events are nested less deeply; only a value of the caller may be, and may have a cycle. */
const maxTree = 6;

/** Fields whose strings many events share. */
const shared: ReadonlySet<string> = new Set(["type", "task_id", "item_id", "call_id", "source"]);

/** The approximate memory of an event in bytes. */
export function sizeOfEvent(event: TaskEvent): number {
  if ("delta" in event) return eventBytes + sizeOfText(event.delta);
  let size = eventBytes;
  for (const key in event) {
    const value: unknown = event[key as keyof TaskEvent];
    if (typeof value !== "number" && !shared.has(key)) size += sizeOfValue(value, 1);
  }
  return size;
}

function sizeOfText(text: string): number {
  return stringBytes + 2 * text.length; // V8 uses one or two bytes per character
}

function sizeOfValue(value: unknown, depth: number, seen?: Set<object>): number {
  if (typeof value === "string") return sizeOfText(value);
  if (typeof value !== "object" || value === null || seen?.has(value)) return 0;
  const known = depth < maxTree ? undefined : (seen ?? new Set()).add(value);
  let size = objectBytes;
  for (const key in value) {
    size += fieldBytes + sizeOfValue((value as Record<string, unknown>)[key], depth + 1, known);
  }
  return size;
}
