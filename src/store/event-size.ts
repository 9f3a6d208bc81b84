import type { TaskEvent } from "../protocol/event.ts";

/** The size of an event without its text: its fields, its time and its place in the log. */
const eventBytes = 144;
const stringBytes = 24;
const characterBytes = 2; // V8 uses one or two
const objectBytes = 40;
const fieldBytes = 12;
/** Events are nested less deeply; only a value of the caller may be, and may have a cycle. */
const maxTree = 6;

/** Fields whose strings many events share. */
const shared: ReadonlySet<string> = new Set(["type", "task_id", "item_id", "call_id", "source"]);

/** The approximate memory of an event in bytes. */
export function sizeOfEvent(event: TaskEvent): number {
  if ("delta" in event) return eventBytes + stringBytes + characterBytes * event.delta.length;
  let size = eventBytes;
  for (const key in event) {
    const value: unknown = event[key as keyof TaskEvent];
    if (typeof value === "number" || shared.has(key)) continue;
    if (typeof value === "string") size += stringBytes + characterBytes * value.length;
    else if (typeof value === "object" && value !== null) size += sizeOfObject(value, 1);
  }
  return size;
}

function sizeOfObject(value: object, depth: number, seen?: Set<object>): number {
  if (seen?.has(value)) return 0;
  const known = depth < maxTree ? undefined : (seen ?? new Set()).add(value);
  let size = objectBytes;
  for (const key in value) {
    const field: unknown = (value as Record<string, unknown>)[key];
    size += fieldBytes;
    if (typeof field === "string") size += stringBytes + characterBytes * field.length;
    else if (typeof field === "object" && field !== null)
      size += sizeOfObject(field, depth + 1, known);
  }
  return size;
}
